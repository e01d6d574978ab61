"""Queries over pairs of streams that come and go while rows flow, each against DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from oracle.driver import Observation, Trace
from oracle.fold import Change, changes_of, rows_of
from oracle.scenario import Advance, Push, Scenario, follow
from penstock.errors import HistoryError, PenstockError
from penstock.indexes.pairs import router
from penstock.indexes.pairs.axes import AxisChoice
from penstock.indexes.pairs.constants import Constant, Constants
from penstock.indexes.pairs.costs import BUILD, CALL, FORMULAS
from penstock.indexes.pairs.router import PairStrategy, Policy
from property.pair_texts import Params, Template


def use_strategy(monkeypatch: pytest.MonkeyPatch, strategy: PairStrategy, seed: int = 0) -> None:
    """Find all pairs by one strategy; or choose for each row, by random costs."""
    rng = Random(seed)
    fitted = {
        formula.name: {
            term.constant: _constant(2.0 ** rng.randint(-3, 3)) for term in formula.terms
        }
        | {BUILD: _constant(0.0), CALL: _constant(0.0)}
        for formula in FORMULAS
    }
    monkeypatch.setattr(router, "FEW", 0)
    chosen = Policy(strategy, Constants(fitted, "random"))
    monkeypatch.setattr("penstock.physical.pair_matches.Policy", lambda asked: chosen)


def _constant(value: float) -> Constant:
    return Constant(value, value, value)


def use_index(monkeypatch: pytest.MonkeyPatch, most_in_groups: int = 0) -> None:
    """Templates with more queries use an index over pairs, also without a band."""
    monkeypatch.setattr("penstock.eddy.index_policy.MOST_IN_GROUPS", most_in_groups)


def use_codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Code all sets that can be coded, and list none before the end; gives the codes of batches."""
    counts: list[int] = []

    def noted(queries: int, pairs: int) -> bool:
        counts.append(pairs)
        return True

    monkeypatch.setattr("penstock.indexes.pairs.part.pays", noted)
    monkeypatch.setattr("penstock.state.sets.cheaper", lambda sets: sets)
    return counts


def use_no_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """List all sets, as if each query had a window of its own."""
    monkeypatch.setattr("penstock.physical.pair_matches.PairMatches._coding", lambda self: None)


def use_any_axis(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """At every step, either side may look along another axis."""
    rng = Random(seed)

    def look(choice: AxisChoice, *_: object) -> bool:
        before, choice.chosen = choice.chosen, rng.choice(choice.ways)
        return choice.chosen != before

    monkeypatch.setattr(AxisChoice, "is_due", lambda choice, rows: len(choice.ways) > 1)
    monkeypatch.setattr(AxisChoice, "look", look)


def use_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows probe at once, and few pairs are checked at once."""
    monkeypatch.setattr("penstock.physical.pair_matches._BATCH", 3)
    monkeypatch.setattr("penstock.physical.pair_check._MOST_PAIRS", 4)


@dataclass(slots=True)
class _Group:
    """Queries of one template that came together."""

    template: Template
    handle: Any
    members: dict[str, int]
    """The number in the trace, by name."""
    whole: bool
    """Whether changes are read from all of them at once."""

    def read(self) -> dict[str, list[Change]]:
        """The changes of all, by name; with PER ROW a change is of several queries."""
        table = self.handle.changes()
        of_row = table.column("_query").to_pylist()
        if not self.template.per_row:
            of_row = [[name] for name in of_row]
        found = {}
        for name in {name for names in of_row for name in names}:
            own = table.filter(pa.array([name in names for names in of_row]))
            found[name] = changes_of(own.set_column(0, "_query", pa.array([name] * len(own))))
        return found


class Population:
    """A session in which queries of some templates come and go."""

    def __init__(
        self, rng: Random, scenario: Scenario, templates: list[Template], *,
        churn: float = 0.4, restores: float = 0.0, checkpoint: Path | None = None,
        shards: int | None = None, optimizer_off: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.rng, self.scenario, self.templates = rng, scenario, templates
        self.churn, self.restores = churn, restores
        self.options = {
            "shards": shards, "checkpoint": checkpoint, "optimizer_off": optimizer_off,
        }  # fmt: skip
        self.world = scenario.world()
        self.trace = Trace(scenario, [], self.world, [], [], [])
        self.groups: list[_Group] = []
        self.pending: dict[int, list[Change]] = {}
        self.session = penstock.connect(runner="inprocess", **self.options)

    def run(self) -> Trace:
        """Alternate churn and input."""
        rng = self.rng
        for text in self.scenario.ddl():
            self.session.sql(text)
        for template in self.templates:
            self._add(template)
        for action in self.scenario.actions:
            if rng.random() < self.churn:
                self._add(rng.choice(self.templates))
            if rng.random() < self.churn:
                self._drop()
            if rng.random() < self.restores:
                self._restore()
            follow(self.world, action)
            match action:
                case Push(stream, rows):
                    self.session.push(stream, self.scenario.dicts(stream, rows))
                case Advance(stream, ts):
                    self.session.advance(stream, ts)
            self.session.flush()
            self._look()
        names = [s.name for s in self.scenario.streams]
        self.trace.late = {name: self.session.late(name).num_rows for name in names}
        while self.groups:
            self._drop()
        shared = self.session.stats()
        assert not shared.get("flows"), "the last query takes its flow along"
        assert not shared.get("stems"), "and the SteMs"
        self.session.close()
        return self.trace

    # ---- queries ---------------------------------------------------------------------
    def _add(self, template: Template) -> None:
        rng = self.rng
        params = template.params(rng, rng.choice((1, 3, 8)))
        history = rng.random() < 0.3
        alone = (
            not template.per_row
            and all(None not in p.values() for p in params)
            and rng.random() < 0.3
        )
        for some in [[p] for p in params[:3]] if alone else [params]:
            try:
                handle, names = self._register(template, some, history, alone)
            except HistoryError:  # a stream that has brought nothing
                handle, names = self._register(template, some, False, alone)
                history = False
            self._enter(template, handle, names, some, history)

    def _register(
        self, template: Template, params: list[Params], history: bool, alone: bool
    ) -> tuple[Any, list[str]]:
        if alone:
            query = self.session.query(template.single(params[0]), history=history)
            return query.siblings, [query.name]
        first = len(self.trace.sqls)
        names = [f"n{first + i}" for i in range(len(params))]
        table = pa.Table.from_pylist([{"qid": n, **p} for n, p in zip(names, params, strict=True)])
        return self.session.query_many(template.text, table, history=history), names

    def _enter(
        self, template: Template, handle: Any, names: list[str], params: list[Params], history: bool
    ) -> None:
        members = {name: len(self.trace.sqls) + i for i, name in enumerate(names)}
        whole = template.per_row or self.rng.random() < 0.3
        self.groups.append(_Group(template, handle, members, whole))
        self.pending.update({index: [] for index in members.values()})
        for one in params:
            self.trace.sqls.append(template.sql(one))
            self.trace.seen.append([])
            self.trace.since.append(None if history else self.world.step)
            self.trace.registered.append(self.world.step)

    def _drop(self) -> None:
        if not self.groups:
            return
        group = self.rng.choice(self.groups)
        name = self.rng.choice(sorted(group.members))
        self._read(group)
        query = self.session[name]
        query.drop()
        left = group.read() if group.whole else changes_of(query.changes())
        self._take(group, left if group.whole else {name: left})
        index = group.members.pop(name)
        dropped = Observation(self.world.step, self.pending.pop(index), None, dropped=True)
        self.trace.seen[index].append(dropped)
        if not group.members:
            self.groups.remove(group)

    def _restore(self) -> None:
        if self.options["shards"] is not None:
            self.session._runner.job.cluster.reload()
            return
        if self.options["checkpoint"] is None:
            image = self.session.snapshot()
            self.session.close()
            off = self.options["optimizer_off"]
            self.session = penstock.connect(runner="inprocess", snapshot=image, optimizer_off=off)
        else:
            self.session.close()
            self.session = penstock.connect(runner="inprocess", **self.options)
        for group in self.groups:
            group.handle = self.session[next(iter(group.members))].siblings

    # ---- what is seen ----------------------------------------------------------------
    def _look(self) -> None:
        for group in self.groups:
            self._read(group)
            for name, index in group.members.items():
                changes, self.pending[index] = self.pending[index], []
                view = self._view(name)
                self.trace.seen[index].append(Observation(self.world.step, changes, view))

    def _read(self, group: _Group) -> None:
        if group.whole:
            self._take(group, group.read())
        else:
            every = {n: changes_of(self.session[n].changes()) for n in group.members}
            self._take(group, every)

    def _take(self, group: _Group, found: dict[str, list[Change]]) -> None:
        for name, changes in found.items():
            self.pending[group.members[name]] += changes

    def _view(self, name: str) -> list[tuple[object, ...]] | None:
        try:
            return rows_of(self.session[name].view())
        except PenstockError as refusal:
            if "view" in refusal.message.lower():
                return None
            raise
