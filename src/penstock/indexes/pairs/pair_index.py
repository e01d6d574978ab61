"""The index over pairs: which queries take a row of one stream with a row of another.

It follows Q. New queries form a new part; parts of similar size are merged. Queries that are gone
are skipped until their part is rebuilt. So a change of Q costs an amortised O(log n)-th of building
an index, and a million existing queries do not delay it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.indexes.pairs.part import Part
from penstock.indexes.pairs.rows import ProbingRows, Takers
from penstock.indexes.pairs.shape import PairShape
from penstock.logical.lifetime import Lifetime
from penstock.queries.query_table import QueryTable

_GROWTH = 8  # a part is at least so many times as large as the next
_MOST_DEAD = 0.5  # share of queries that are gone, in a part that is kept


@dataclass(frozen=True, slots=True)
class PairQueries:
    """The input of an index: a template's queries, their conditions, and lifetimes by side."""

    queries: QueryTable
    shape: PairShape
    lifetimes: tuple[Lifetime, ...]


class PairIndex:
    """Finds queries by their conditions on a row of either stream and its partners in the other."""

    inputs = (0, 1)

    def __init__(self, wanted: PairQueries, ctx: Context) -> None:
        self._wanted, self._ctx = wanted, ctx
        self._parts: list[Part] = []
        self._alive: Bool = np.zeros(0, np.bool_)  # by qid
        self._version, self._identity = 0, wanted.queries.identity

    # ---- following Q -----------------------------------------------------------------
    def follow(self) -> None:
        """Apply the changes of Q."""
        table = self._wanted.queries
        if self._identity is not table.identity:
            self._parts, self._version, self._identity = [], 0, table.identity
            self._alive = np.zeros(0, np.bool_)
        if self._version == table.version:
            return
        live, since = table.live(Lineage.QUERY), self._version
        self._alive = np.zeros(int(live.max(initial=-1)) + 1, np.bool_)
        self._alive[live] = True
        again = live[table.born()[live] > since]  # new, or a number that is used once more
        self._drop_gone(again)
        if again.shape[0]:
            self._add(again)
        self._version = table.version

    def _drop_gone(self, again: I64) -> None:
        kept = []
        for part in self._parts:
            still = self._is_alive(part.qids) & ~np.isin(part.qids, again)
            alive = int(np.count_nonzero(still))
            if alive == part.qids.shape[0]:
                kept.append(part)
            elif alive > _MOST_DEAD * part.qids.shape[0]:
                kept.append(part.without(~still))
            elif alive:
                kept.append(self._made(part.qids[still]))
        self._parts = kept

    def _is_alive(self, qids: I64) -> Bool:
        known: Bool = qids < self._alive.shape[0]
        known[known] = self._alive[qids[known]]
        return known

    def _add(self, qids: I64) -> None:
        while self._parts and self._parts[-1].qids.shape[0] < _GROWTH * qids.shape[0]:
            last = self._parts.pop()
            qids = np.union1d(qids, last.live())
        self._parts.append(self._made(qids))

    def _made(self, qids: I64) -> Part:
        wanted = self._wanted
        return Part.of(wanted.shape, wanted.lifetimes, wanted.queries, qids, self._ctx)

    def among(self, qids: I64) -> PairIndex:
        """An index of these queries only."""
        few = PairIndex(self._wanted, self._ctx)
        few._parts = [self._made(np.sort(qids))]
        return few

    # ---- matching --------------------------------------------------------------------
    def value_column(self, side: int) -> int:
        """The column of a side that sorts its rows within a key."""
        shape = self._wanted.shape
        if shape.band is not None:
            return shape.band.columns[side]
        ranges = shape.of_side(side)
        return ranges[0].column if ranges else shape.key[0][side]

    def match(self, batch: ProbingRows) -> Takers:
        """The queries that take each pair, sorted by row, position and query."""
        found = [part.match(batch) for part in self._parts]
        found = [some for some in found if len(some)]
        if len(found) < 2:
            return found[0] if found else Takers.none()
        joined = Takers(
            np.concatenate([f.rows for f in found]),
            np.concatenate([f.positions for f in found]),
            np.concatenate([f.qids for f in found]),
        )
        return joined[np.lexsort((joined.qids, joined.positions, joined.rows))]

    def exact(self, qids: I64) -> Bool:
        """Which of these queries take every pair that `match` returns for them."""
        known = np.ones(int(qids.max(initial=-1)) + 1, np.bool_)
        for part in self._parts:
            if not part.exact.all():
                vague = part.qids[~part.exact & ~part.gone]
                known[vague[vague < known.shape[0]]] = False
        return known[qids]

    # ---- what is known ---------------------------------------------------------------
    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without Q."""
        return self._alive.nbytes + sum(part.nbytes for part in self._parts)

    def explain(self) -> str:
        """For EXPLAIN: how queries are found."""
        return "; ".join(part.explain() for part in self._parts)
