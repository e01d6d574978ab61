"""Match count: `count(*)` per query over a filter with parameters, without forming pairs.

At commit only the net change of a batch is shown. So it is enough to count how many arriving and
how many leaving rows each query takes, and an index of the queries does this for all at once. The
operator stores the compared values of each expiring row once for all queries, and counts the row
again when it leaves, with the same rule of visibility as when it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.physical.expiry_stores import make_store
from penstock.physical.match import MatchOp
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.specs import MatchCountSpec

if TYPE_CHECKING:
    from penstock.expressions.context import Context
    from penstock.queries.query_table import QueryTable
    from penstock.state.arena import Scope

_UNSEEN = -1


class MatchCountOp(Operator):
    """Emits one row per query: the number of source rows that it takes, once per aggregate."""

    def __init__(
        self, spec: MatchCountSpec, source: Operator, scope: Scope, ctx: Context,
        queries: QueryTable,
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        self._queries = queries
        self._match = MatchOp(spec.match, source, scope, ctx, queries, counting=True)
        width = 2 + self._match.attributes
        (kept,) = spec.expiry.inputs
        self._store = make_store(scope.scope("store"), kept, width)
        scope.array("count", 8)
        scope.array("shown", 8, fill=_UNSEEN)

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Count the rows that come and leave; emit the queries with a changed count."""
        live = self._queries.live(Lineage.QUERY)
        size = int(live[-1]) + 1 if live.shape[0] else 0
        self.scope.reserve("count", size)
        self.scope.reserve("shown", size, _UNSEEN)
        self._catch_up()
        delta = inputs[0]
        values = self._match.values(delta)
        self._add(values, delta.lin, 1)
        if self._store is not None:
            if len(delta):
                self._store.add_rows(delta.exp, delta.lin, values)
            _, words = self._store.expire(clock.now)
            self._add(np.ascontiguousarray(words[:, 1:].T), words[:, 0].copy(), -1)
        return self._changes(live, clock.now)

    def _catch_up(self) -> None:
        """Count the rows in the window for new queries with history."""
        new = self._queries.newcomers
        new = new[self._queries.since(Lineage.QUERY)[new] == 0]
        if self._store is None or new.shape[0] == 0:
            return
        _, words = self._store.entries()
        self._add(np.ascontiguousarray(words[:, 1:].T), words[:, 0].copy(), 1, new)

    def _add(self, values: I64, lin: I64, sign: int, only: I64 | None = None) -> None:
        if lin.shape[0] == 0:
            return
        qids, counts = self._match.count(values, lin)
        if only is not None:
            chosen = np.isin(qids, only)
            qids, counts = qids[chosen], counts[chosen]
        self._arr("count")[qids] += sign * counts

    def _changes(self, live: I64, now: int) -> Delta:
        count, shown = self._arr("count")[live], self._arr("shown")[live]
        new = np.flatnonzero(shown == _UNSEEN)
        other = np.flatnonzero((shown != _UNSEEN) & (shown != count))
        self._arr("shown")[live] = count
        replaced = np.stack([shown[other], count[other]], axis=1).ravel()
        return self._rows(
            np.concatenate([replaced, count[new]]),
            np.concatenate([np.repeat(live[other], 2), live[new]]),
            np.concatenate([np.tile([-2, 2], other.shape[0]), np.ones(new.shape[0], np.int64)]),
            now,
        )

    def _rows(self, counts: I64, qids: I64, sign: I64, now: int) -> Delta:
        n = counts.shape[0]
        rows = np.zeros((1 + len(self.edge.schema), n), np.int64)
        rows[1:] = counts
        return Delta(rows, np.full(n, now), np.full(n, NEVER), sign.astype(np.int8), qids)

    def contents(self, clock: Clock) -> Delta:
        """The counts that are shown."""
        live = self._queries.live(Lineage.QUERY)
        live = live[live < self._arr("shown").shape[0]]
        live = live[self._arr("shown")[live] != _UNSEEN]
        return self._rows(self._arr("shown")[live], live, np.ones_like(live), clock.now)

    def purge(self, lins: I64) -> None:
        """Forget the counts of these queries."""
        lins = lins[lins < self._arr("shown").shape[0]]
        self._arr("count")[lins] = 0
        self._arr("shown")[lins] = _UNSEEN

    def rows(self) -> int:
        """Number of rows kept for their expiry, once for all queries."""
        return 0 if self._store is None else len(self._store)

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of compared values."""
        columns = tuple(2 + c for c in self._match.string_attributes)
        if self._store is None or not columns:
            return []
        return [StringColumns(f"{self.scope.prefix}/store/words", columns)]

    def how(self) -> str:
        """For EXPLAIN: the number of queries and how they are matched."""
        return self._match.how()
