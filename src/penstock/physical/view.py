"""View: the recipient at the root of a plan; it turns a delta into the changelog (Ghanem §5.7).

Rows that expire silently below are kept here in the structure their pattern asks for, so that
their deletion is shown when its time comes. An explicit edge needs no state: its rows are the
changelog, and the answer is read from the operators below, unless they do not `keep` it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.delta import I8, I64, Clock, Delta
from penstock.kernels.changes import (
    kinds_of_signs,
    mend_pairs,
    merge_changes,
    net_changes,
    view_words,
)
from penstock.physical.expiry import choose
from penstock.physical.operator import Operator, StringColumns
from penstock.sharing.query_table import QueryTable
from penstock.state.arena import Scope


@dataclass(frozen=True, slots=True)
class Changes:
    """Changelog rows of one step: payload (column-major), event time, kind and qid."""

    rows: I64
    time: I64
    kind: I8
    qid: I64

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def take(self, index: I64) -> Changes:
        """The changes at these positions."""
        return Changes(self.rows[:, index], self.time[index], self.kind[index], self.qid[index])


def concat_changes(parts: list[Changes]) -> Changes:
    """Changes one after another."""
    if len(parts) == 1:
        return parts[0]
    return Changes(
        np.concatenate([p.rows for p in parts], axis=1),
        np.concatenate([p.time for p in parts]),
        np.concatenate([p.kind for p in parts]),
        np.concatenate([p.qid for p in parts]),
    )


class ViewOp(Operator):
    """The answer of a template's queries and its changes."""

    name = "view"

    def __init__(self, source: Operator, queries: QueryTable, scope: Scope, keep: bool) -> None:
        super().__init__((source,), source.edge, scope)
        self._queries = queries
        scope.array("nulls_seen", 1)
        self._store = choose(scope.scope("store"), source.edge, 2 + len(source.edge.schema), keep)

    def changes(self, delta: Delta, clock: Clock) -> Changes:
        """The changelog of this step: every change, or at commit the net change."""
        changes = self._all_changes(delta, clock)
        if not clock.at_commit or self.edge.netted or len(changes) == 0:
            return changes
        kept = net_changes(changes.rows, changes.qid, changes.kind)
        time = np.full(kept.shape[0], clock.now)
        kind = mend_pairs(changes.kind, kept)
        return Changes(changes.rows[:, kept], time, kind, changes.qid[kept])

    def _all_changes(self, delta: Delta, clock: Clock) -> Changes:
        """The changelog in time order, expirations first at each instant."""
        if self._store is None:
            return Changes(delta.rows, delta.ts, kinds_of_signs(delta.sign), delta.lin)
        if len(delta):
            if self.edge.negatives:
                self._apply_signed(delta)
            else:
                self._store.add_rows(delta.exp, delta.lin, delta.rows)
            self.scope["nulls_seen"][0] |= delta.nulls.any()
        gone_at, gone = self._store.take(clock.now)
        one = self._queries.only()
        nulls = bool(self.scope["nulls_seen"][0])
        arrived = (delta.rows, delta.ts, delta.sign, delta.lin)
        return Changes(*merge_changes(*arrived, gone_at, gone, self._store.words, one, nulls))

    def _apply_signed(self, delta: Delta) -> None:
        assert self._store is not None
        plus = np.flatnonzero(delta.sign > 0)
        minus = np.flatnonzero(delta.sign < 0)
        self._store.add(delta.exp[plus], view_words(delta.rows, delta.lin, plus))
        self._store.cancel(delta.exp[minus], view_words(delta.rows, delta.lin, minus))

    def contents(self, clock: Clock) -> Delta:
        """The answers at the clock."""
        if self._store is None:
            return self.inputs[0].contents(clock)
        exp, words = self._store.entries()
        n = exp.shape[0]
        return Delta(
            np.ascontiguousarray(words[:, 1:].T),
            np.full(n, clock.now),
            exp,
            np.ones(n, np.int8),
            words[:, 0].copy(),
        )

    def held(self, qids: I64, clock: Clock, kind: int) -> Changes:
        """Everything these queries hold, as changes of one kind at the clock."""
        live = self.contents(clock)
        index = np.flatnonzero(np.isin(live.lin, qids))
        n = index.shape[0]
        kinds = np.full(n, kind, np.int8)
        return Changes(live.rows[:, index], np.full(n, clock.now), kinds, live.lin[index])

    def purge(self, lins: I64) -> None:
        """Forget the rows of these queries."""
        if self._store is not None:
            _, words = self._store.entries()
            self._store.filter(np.flatnonzero(~np.isin(words[:, 0], lins)))

    def rows(self) -> int:
        """Rows kept for their expiry."""
        return 0 if self._store is None else len(self._store)

    def strings(self) -> list[StringColumns]:
        """Stored rows."""
        columns = tuple(2 + c for c in self.edge.schema.string_columns)
        if self._store is None or not columns:
            return []
        return [StringColumns(f"{self.scope.prefix}/store/words", columns)]

    def structure(self) -> str:
        """By pattern."""
        return "–" if self._store is None else self._store.structure
