"""Steps in one process: every call is a step of the engine, taken before the call returns."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.kernels.changes import DELETE, INSERT
from penstock.queries.registry import Chosen, TemplateInfo
from penstock.queries.shared_rows import SharedRows
from penstock.session import clock
from penstock.session.books import Books
from penstock.session.changelog import ChangeBatch
from penstock.session.gate import gravest
from penstock.session.progress import WhyPaused, counted
from penstock.session.readers import Readers
from penstock.session.templates import is_unshared
from penstock.sql.catalog import StreamDef
from penstock.state.convert import to_rows

_APART = 1 << 32  # first `_seq` of rows that are not in the changelog


class EngineSteps:
    """Runs the steps of one engine and delivers their changes at once."""

    def __init__(self, books: Books, why_paused: WhyPaused) -> None:
        self._books, self._why_paused = books, why_paused

    def apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        """Run a step; with `defer`, its changes are delivered by `publish`."""
        started = time.perf_counter()
        output = self._books.engine.apply(blocks)
        seconds = time.perf_counter() - started
        record = self._books.progress.note_step(output, seconds, self._why_paused)
        try:
            if not defer:
                self._hand_on(output)
        finally:
            if (said := self._books.progress.tell(record)) is not None:
                raise said
        return output

    def _hand_on(self, output: b.Output) -> None:
        """Append the changes of a step, call subscribers, and record failed queries."""
        errors = self._books.delivery.take(output, self._books.engine.strings)
        for failure in output.failures:
            self._fail(failure)
        self._books.engine.collect_strings()
        if errors:
            raise gravest(errors)

    def _fail(self, failure: b.Failure) -> None:
        """Mark the queries of a failed row of Q as failed."""
        registry = self._books.queries.registry
        template = registry.templates[failure.template]
        members = registry.members(failure.template, np.array([failure.qid]))
        self._books.delivery.leave(members)
        for group, places in members:
            self.leave(template, group.qids[places])
        registry.fail(members, failure.reason)

    def bring(self, stream: StreamDef, admitted: Admitted) -> None:
        """Count admitted rows and pass them to the engine."""
        matrix = to_rows(admitted.accepted, stream.schema, self._books.engine.strings)
        self._books.catalog.meters[stream.name].count(admitted, matrix, clock.now_us())
        self._books.progress.arrived(stream.name, counted(admitted, matrix.shape[1]))
        self.apply([b.Rows(stream.name, b.Timed(matrix, admitted.ts), admitted.watermark)])

    def beat(self, blocks: list[b.Block]) -> None:
        """Apply the heartbeats of the wall clock."""
        self.apply(blocks)

    # ---- queries ---------------------------------------------------------------------
    def choose_template(
        self, known: TemplateInfo | None, make: Callable[[], TemplateInfo]
    ) -> TemplateInfo:
        """The template to use; one that has only failed queries is built again."""
        return known or make()

    def enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """The rows of Q of new queries, and which of these rows are new."""
        engine = self._books.engine
        since = 0 if history else engine.epoch + 1
        if is_unshared(info, history):
            since = -1 - engine.batch  # no other call has
        return self._rows_of(info).enter(rows, since)

    def leave(self, info: TemplateInfo, qids: I64) -> I64:
        """Remove queries from rows of Q; return the rows that no query uses any more."""
        return self._rows_of(info).leave(qids)

    def _rows_of(self, info: TemplateInfo) -> SharedRows:
        scope = self._books.engine.arena.scope(f"rows/{info.key}")
        return SharedRows(scope, len(info.params))

    def publish(self, output: b.Output | None, joining: Chosen) -> None:
        """Deliver a deferred step; queries that join existing rows of Q get the current answer."""
        try:
            if output is not None:
                self._hand_on(output)
        finally:  # even if a subscriber raised
            if joining:
                self._tell_held(joining, INSERT)

    def retract(self, chosen: Chosen) -> None:
        """Remove queries of one template from the engine, except rows of Q that others share."""
        template = chosen[0][0].template
        info = self._books.queries.registry.templates[template]
        last = self.leave(info, np.concatenate([g.qids[places] for g, places in chosen]))
        try:
            if last.shape[0]:
                self.apply([b.DropQueries(template, last)])
        finally:  # even if a subscriber raised
            self._books.delivery.leave(chosen)
            self._take_back(chosen, last)

    def _take_back(self, chosen: Chosen, last: I64) -> None:
        """Send deletions to the readers of rows of Q that stay for other queries."""
        staying: Chosen = []
        for group, places in chosen:
            stay = places[~np.isin(group.qids[places], last)]
            if stay.shape[0]:
                staying.append((group, stay))
        if staying:
            self._tell_held(staying, DELETE)

    def _tell_held(self, chosen: Chosen, kind: int) -> None:
        """Send the answers of queries that share rows of Q, as changes of one kind.

        They form a batch of their own, so that (_batch, _seq) stays unique.
        """
        self.apply([])
        delivery = self._books.delivery
        parts = [(delivery.readers[group.number], places) for group, places in chosen]
        delivery.deliver_apart([(r, self._held(r, at, kind)) for r, at in parts])

    def _held(self, readers: Readers, members: I64, kind: int) -> ChangeBatch:
        engine = self._books.engine
        changes = engine.answers(readers.template, np.unique(readers.qids[members]), kind)
        batch = readers.log.batch(engine.batch, changes, engine.strings, _APART)
        return batch.of_all(readers.owners(members))
