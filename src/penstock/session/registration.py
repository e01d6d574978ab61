"""Registers queries: finds or makes the template, adds rows of Q, checks history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.engine import blocks as b
from penstock.errors import SqlSyntaxError
from penstock.logical.reads import views_of
from penstock.optimizer.emit import choose_emits
from penstock.queries.names import Names
from penstock.queries.registry import Chosen, Group, TemplateInfo
from penstock.roomy import roomy
from penstock.session import compile as compiling
from penstock.session.books import Books
from penstock.session.history import check_history
from penstock.session.known_texts import Prepared
from penstock.session.readers import Readers
from penstock.session.runner import Runner
from penstock.session.templates import is_unshared, template_block
from penstock.session.values import literal_rows
from penstock.session.windows import lengths_of


class Registrar:
    """Enters queries in the books and adds them to the runner.

    `rules_off` are the optimizer rules that the user has switched off.
    """

    def __init__(self, books: Books, runner: Runner, rules_off: frozenset[str]) -> None:
        self._books, self._runner, self._off = books, runner, rules_off

    def register(
        self, prepared: Prepared, name: str | None, text: str, history: bool = False
    ) -> Readers:
        """Register one SELECT."""
        compiled = prepared.compiled
        if compiled.explicit:
            raise SqlSyntaxError(
                f"parameter ${compiled.params[0].name} has no value",
                code="PS-SQL-025",
                remedy="write the value, or register the query with query_many(text, params)",
            )
        rows = literal_rows(compiled.literals, self._books.engine.strings)
        names = self._books.queries.fresh_names(1) if name is None else Names([name])
        return self.add(prepared, history, rows, names, text)

    def add(self, prepared: Prepared, history: bool, rows: I64, names: Names, text: str) -> Readers:
        """Register parameter rows of a prepared query; equal rows of Q are shared."""
        runner, compiled = self._runner, prepared.compiled
        history = history or prepared.history
        self._books.queries.check_names(names)
        if history and not runner.calls.is_repeating:
            check_history(self._books, compiled, rows)
        info, blocks = self._template_for(prepared, rows.shape[1])
        qids, first = runner.steps.enter(info, rows, history)
        try:
            all_new = first.shape[0] == qids.shape[0]
            new = rows if all_new else rows[:, first]
            output = self._add_rows(info, blocks, new, history, qids[first])
        except BaseException:
            runner.steps.leave(info, qids)
            raise
        group = Group(info.key, text, names, qids, self._clock(info), history)
        readers = self._read(info, group)
        joining = qids[:0] if all_new else np.flatnonzero(~np.isin(qids, qids[first]))
        chosen: Chosen = [(group, joining)] if joining.shape[0] else []  # existing rows of Q
        runner.steps.publish(output, chosen)
        return readers

    def _add_rows(
        self, info: TemplateInfo, blocks: list[b.Block], rows: I64, history: bool, qids: I64
    ) -> b.Output | None:
        """Add new rows of Q, and the template if it is new.

        Returns None if there is nothing to add.
        """
        if not rows.shape[1]:
            return None
        since, params = self._books.engine.epoch + 1, np.ascontiguousarray(rows)
        unshared = is_unshared(info, history)
        queries = b.AddQueries(info.key, params, history, qids, since, unshared)
        output = self._runner.steps.apply([*blocks, queries], defer=True)
        self._enter_template(info)
        return output

    def _clock(self, info: TemplateInfo) -> int:
        template = self._books.engine.templates.get(info.key)  # gone if its first step failed
        return BEGINNING if template is None else template.clock

    def _read(self, info: TemplateInfo, group: Group) -> Readers:
        """Enter new queries in the registry and return the readers of their changes."""
        if not len(group):
            return Readers.of(group, self._books.delivery.new_log(info))
        self._books.queries.registry.add(group)
        return self._books.delivery.read_from_now(group)

    # ---- templates -------------------------------------------------------------------
    @roomy
    def _template_for(self, prepared: Prepared, queries: int) -> tuple[TemplateInfo, list[b.Block]]:
        """The template of queries, and the block that adds it if it does not run yet."""
        info = self._books.queries.registry.find_template(
            prepared.compiled.template, prepared.emission, prepared.strategy
        )
        if info is not None and info.key in self._books.engine.templates:
            return info, []
        info = self._runner.steps.choose_template(
            info, lambda: self._new_template(prepared, queries)
        )
        return info, [template_block(info)]

    @roomy
    def _enter_template(self, info: TemplateInfo) -> None:
        """Put a template that the engine has accepted into the registry."""
        self._books.queries.registry.add_template(info)
        self._books.delivery.open_log(info)

    def _new_template(self, prepared: Prepared, queries: int) -> TemplateInfo:
        """Optimize a template and collect the facts that the session needs."""
        compiled, stats = prepared.compiled, replace(self._books.stats(), queries=queries)
        template = compiled.template
        plan = compiling.optimise(template, stats, self._off)
        return TemplateInfo(
            self._books.queries.registry.next_template,
            template,
            plan,
            tuple(choose_emits(plan, stats).items()),
            compiled.params,
            prepared.emission,
            compiling.time_unit(template, self._books.catalog),
            compiling.is_monotonic(template),
            lengths_of(template),
            tuple(sorted({view.view for view in views_of(template)})),
            prepared.strategy,
        )
