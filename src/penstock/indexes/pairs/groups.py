"""Stabbing groups of the queries of an index, for one of its sides (Agarwal et al. 2009, §2).

They are kept for all queries and follow every change of Q, within their bounds: the size of the
partition, and the invariants of hotspots. A part of the index takes its groups from here when it
builds a structure. Its queries do not change, so these groups stay right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.hotspots import Hotspots
from penstock.kernels.pairs.data import Grouping, Queries

Asked = Iterable[tuple[I64, I64, I64]]
"""Numbers of queries, and the low and high ends of their intervals."""


class PairGroups:
    """Hot and scattered groups of the intervals of one side; built on first use.

    `every` gives the intervals of all queries, for that first use.
    """

    def __init__(self, every: Callable[[], Asked]) -> None:
        self._every = every
        self._made: Hotspots | None = None

    @property
    def made(self) -> Hotspots | None:
        """The groups, if any reader has asked for them."""
        return self._made

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return 0 if self._made is None else self._made.nbytes

    # ---- following Q -----------------------------------------------------------------
    def add(self, qids: I64, lows: I64, highs: I64) -> None:
        """Add the intervals of new queries."""
        if self._made is not None:
            self._made.add(qids, lows, highs)

    def remove(self, qids: I64) -> None:
        """Remove the intervals of queries that are gone."""
        if self._made is not None:
            self._made.remove(qids)

    # ---- for parts -------------------------------------------------------------------
    def of(self, qids: I64, queries: Queries, scattered: bool) -> Grouping:
        """The hot groups of some queries, and if asked for also their `scattered` groups."""
        if self._made is None:
            self._made = Hotspots()
            every = [np.concatenate(ends) for ends in zip(*self._every(), strict=True)]
            if every:
                self._made.add(*every)
        points, groups = self._made.outline().points, self._made.group_of(qids)
        if scattered:
            cold = self._made.scattered
            number = cold.group_of(qids)
            groups = np.where((groups < 0) & (number >= 0), points.shape[0] + number, groups)
            points = np.concatenate([points, cold.outline().points])
        return _checked(groups.copy(), points, queries)


def _checked(groups: I64, points: I64, queries: Queries) -> Grouping:
    """Groups by slot, numbered by their points, without groups that none of the queries has.

    The number of a query that is gone may be that of another by now: it has no group then.
    """
    some = np.flatnonzero(groups >= 0)
    point = points[groups[some]]
    groups[some[(point < queries.low[some]) | (point > queries.high[some])]] = -1
    used = np.unique(groups[groups >= 0])
    order = used[np.argsort(points[used], kind="stable")]
    number = np.full(points.shape[0] + 1, -1)
    number[order] = np.arange(order.shape[0])
    return Grouping(number[groups], points[order])
