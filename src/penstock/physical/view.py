"""View: the root of a plan; it turns a delta into the changelog (Ghanem §5.7).

Rows that expire silently below are stored here, in the structure that their pattern needs, so that
their deletion is shown at its time. An explicit edge needs no state: its rows are the changelog,
and the answer is read from the operators below, if they can tell it.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.delta import Clock, Delta, Lineage
from penstock.kernels.changes import (
    kinds_of_signs,
    mend_pairs,
    merge_changes,
    net_changes,
)
from penstock.patterns.edge import Pattern
from penstock.physical import row_sets
from penstock.physical.expiry_stores import make_store
from penstock.physical.keep import forget_rows, keep_rows, kept_rows
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.specs import ViewSpec
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.sets import SetTable


class ViewOp(Operator):
    """Produces the answers of a template's queries and their changes."""

    def __init__(
        self, spec: ViewSpec, source: Operator, scope: Scope, queries: QueryTable,
        sets: SetTable | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        self._queries = queries
        self._sets = sets  # given when the changelog has one row per result row
        self._by_set = spec.edge.lineage is Lineage.SET
        scope.array("nulls_seen", 1)
        width = 2 + len(spec.edge.schema)
        (self._kept,) = spec.expiry.inputs
        self._store = make_store(scope.scope("store"), self._kept, width)

    def changes(self, delta: Delta, clock: Clock) -> Changes:
        """The changelog of this step: every change, or at commit the net change."""
        changes = self._all_changes(delta, clock)
        if clock.at_commit and not self.edge.netted and len(changes):
            changes = changes.with_(time=np.full(len(changes), clock.now))
            if self._by_set:
                return row_sets.net_sets(changes, self._table)
            kept = net_changes(changes.rows, changes.qid, changes.kind)
            changes = changes.take(kept).with_(kind=mend_pairs(changes.kind, kept))
        return self._shown(changes)

    @property
    def _table(self) -> SetTable:
        assert self._sets is not None
        return self._sets

    def _shown(self, changes: Changes) -> Changes:
        """Changes in the form that the queries ask for: query by query, or row by row."""
        if self._sets is None:
            return changes
        return row_sets.decode(changes, self._sets) if self._by_set else row_sets.gather(changes)

    def _all_changes(self, delta: Delta, clock: Clock) -> Changes:
        """The changelog in time order, expirations first at each instant."""
        if self._store is None or (len(delta) == 0 and not self._store.due(clock.now)):
            return Changes(delta.rows, delta.ts, kinds_of_signs(delta.sign), delta.lin)
        if len(delta):
            keep_rows(self._store, delta, self._kept.retracted)
            self.scope["nulls_seen"][0] |= delta.nulls.any()
        gone_at, gone = self._store.take(clock.now)
        one = -1 if self._by_set else self._queries.only()
        nulls = bool(self.scope["nulls_seen"][0])
        arrived = (delta.rows, delta.ts, delta.sign, delta.lin)
        return Changes(*merge_changes(*arrived, gone_at, gone, self._store.words, one, nulls))

    def contents(self, clock: Clock) -> Delta:
        """The answers at the clock."""
        if self._store is None:
            return self.inputs[0].contents(clock)
        return kept_rows(self._store, clock.now)

    def held(self, qids: I64, clock: Clock, kind: int) -> Changes:
        """All rows that these queries hold, as changes of one kind at the clock.

        A monotonic query holds no rows, even if its streams still retain rows that it has shown.
        """
        monotonic = self.edge.pattern is Pattern.MON
        live = Delta.empty(len(self.edge.schema)) if monotonic else self._held_at_least(qids, clock)
        n = len(live)
        held = Changes(live.rows, np.full(n, clock.now), np.full(n, kind, np.int8), live.lin)
        if self._by_set:
            sets, which = self._table.only(live.lin, qids)
            kept = np.flatnonzero(sets.sizes[which])
            return held.with_(qid=which, sets=sets).take(kept)
        return self._shown(held.take(np.flatnonzero(np.isin(live.lin, qids))))

    def _held_at_least(self, qids: I64, clock: Clock) -> Delta:
        if self._store is None or self._by_set:
            return self.contents(clock)
        return kept_rows(self._store, clock.now, qids)

    def purge(self, lins: I64) -> None:
        """Forget the rows of these queries."""
        if self._store is None:
            return
        if not self._by_set:
            forget_rows(self._store, lins)
            return
        exp, words = self._store.entries()
        codes = self._table.without(words[:, 0], lins)
        some = np.flatnonzero(codes)
        left = words[some]
        left[:, 0] = codes[some]
        self._store.replace(exp[some], left)

    def held_sets(self) -> list[I64]:
        """The set codes of stored rows."""
        if self._store is None or not self._by_set:
            return []
        return [self._store.words[:, 0]]

    def rows(self) -> int:
        """Number of rows stored until they expire."""
        return 0 if self._store is None else len(self._store)

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of stored rows."""
        columns = tuple(2 + c for c in self.edge.schema.string_columns)
        if self._store is None or not columns:
            return []
        return [StringColumns(f"{self.scope.prefix}/store/words", columns)]
