"""Crowds: the queries of a template that see the same rows for the same time.

They differ in the intervals that they ask for only. So one timeline of arrivals and departures
serves them all, and stabbing groups of their intervals tell which of them a row affects. Crowds
follow Q; one with the same queries as before is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.shape import PairShape
from penstock.indexes.pairs.sides import PairSide
from penstock.indexes.pairs.ssi import lists_of
from penstock.indexes.pairs.strategy import possible_slots
from penstock.kernels.pairs.data import Grouping, Queries
from penstock.kernels.pairs.running_totals import Asked
from penstock.kernels.pairs.stabbing import canonical_partition
from penstock.logical.lifetime import Lifetime
from penstock.queries.query_table import QueryTable

_FEW = 32  # so many queries are looked at one by one: groups would cost more
_SMALL = 3  # queries of smaller groups are looked at one by one
_SINCE, _NEW = 2, 3
"""Columns of what a crowd has in common, after the lengths of both windows."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Queries by slot, their windows by side, and the first epoch that they see (0: any).

    If `is_new`, they have not seen rows of earlier steps. Slots of queries with intervals that are
    too large are `vague`: they are in no group, and pairs are formed for them.
    """

    qids: I64
    windows: tuple[Lifetime, Lifetime]
    since: int
    is_new: bool
    asked: tuple[Asked, Asked]
    vague: I64

    @property
    def groups(self) -> int:
        """The number of stabbing groups of both sides."""
        return sum(asked.lists.groups.points.shape[0] for asked in self.asked)


class Crowds:
    """The crowds of a template, as of a step."""

    def __init__(
        self, queries: QueryTable, shape: PairShape, lifetimes: tuple[Lifetime, ...], ctx: Context
    ) -> None:
        self._queries, self._shape, self._lifetimes, self._ctx = queries, shape, lifetimes, ctx
        self._sides = PairSide.of(shape, 0), PairSide.of(shape, 1)
        self._made: dict[tuple[int, ...], Crowd] = {}
        self._version, self._identity = 0, queries.identity

    def latest_start(self) -> int:
        """The latest epoch from which some query sees rows."""
        live = self._queries.live(Lineage.QUERY)
        return int(self._queries.since(Lineage.QUERY)[live].max(initial=0))

    def follow(self, epochs: I64) -> list[Crowd]:
        """The crowds of all queries, if there are rows of these epochs (ascending) and no others.

        Queries that see rows from different epochs on are one crowd if they see the same of these.
        """
        table = self._queries
        if self._identity is not table.identity:
            self._version, self._identity = 0, table.identity
            self._made.clear()
        crowds, made = [], dict[tuple[int, ...], Crowd]()
        for common, qids in self._parted(table.live(Lineage.QUERY), epochs):
            crowd = self._kept(common[:_NEW], qids) or self.of(common, qids)
            made[common[:_NEW]] = crowd
            crowds.append(replace(crowd, is_new=bool(common[_NEW])))
        self._made, self._version = made, table.version
        return crowds

    def _parted(self, qids: I64, epochs: I64 | None) -> list[tuple[tuple[int, ...], I64]]:
        """The queries that have the same in common."""
        table = self._queries
        common = np.zeros((qids.shape[0], 4), np.int64)
        for side, lifetime in enumerate(self._lifetimes):
            common[:, side] = lifetime.lengths(table.matrix(), qids)
        since = table.since(Lineage.QUERY)[qids]
        common[:, _SINCE] = since if epochs is None else _first_seen(since, epochs)
        common[:, _NEW] = np.isin(qids, table.newcomers)
        if not qids.shape[0] or (common == common[0]).all():
            return [(tuple(common[0].tolist()), qids)] if qids.shape[0] else []
        found, numbers = np.unique(common, axis=0, return_inverse=True)
        order = np.argsort(numbers.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(numbers.ravel()))[:-1]
        parts = np.split(qids[order], ends)
        return [(tuple(one), part) for one, part in zip(found.tolist(), parts, strict=True)]

    def _kept(self, common: tuple[int, ...], qids: I64) -> Crowd | None:
        """The crowd of the step before, if its queries are still the same."""
        known = self._made.get(common)
        if known is None or not np.array_equal(known.qids, qids):
            return None
        again = self._queries.born()[qids].max(initial=0) > self._version
        return None if again else known

    def among(self, qids: I64) -> list[Crowd]:
        """Crowds of some queries."""
        return [self.of(common, some) for common, some in self._parted(np.sort(qids), None)]

    def of(self, common: tuple[int, ...], qids: I64) -> Crowd:
        """Build a crowd."""
        boxes = Boxes.of(self._shape, self._queries.matrix()[qids], self._ctx)
        none = np.zeros(qids.shape[0], np.int64)
        left, right = (asked_of(how.queries(boxes, 0, none), boxes.exact) for how in self._sides)
        windows = tuple(
            replace(lifetime, length=length)
            for lifetime, length in zip(self._lifetimes, common, strict=False)
        )
        assert len(windows) == 2
        since = common[_SINCE]
        return Crowd(
            qids, windows, since, bool(common[_NEW]), (left, right), np.flatnonzero(~boxes.exact)
        )

    @property
    def sides(self) -> tuple[PairSide, PairSide]:
        """How rows of each side find partners."""
        return self._sides

    def summary(self) -> str:
        """For EXPLAIN: crowds and stabbing groups."""
        groups = sum(crowd.groups for crowd in self._made.values())
        return f"{len(self._made):,} of windows and registration, {groups:,} stabbing groups"


def _first_seen(since: I64, epochs: I64) -> I64:
    """The first of these epochs that queries see; 0 if they see all."""
    places = np.searchsorted(epochs, since)
    beyond = np.append(epochs, epochs[-1:].max(initial=0) + 1)
    return np.where(places == 0, 0, beyond[places])


def asked_of(queries: Queries, exact: Bool) -> Asked:
    """The conditions of queries; those that have an empty interval or are not exact are left out.

    Queries of small groups are looked at one by one.
    """
    slots = possible_slots(queries)
    slots = slots[exact[slots]]
    groups, each = np.full(queries.low.shape[0], -1), slots
    points = np.empty(0, np.int64)
    if slots.shape[0] > _FEW:
        found, _, points, sizes = canonical_partition(queries.low[slots], queries.high[slots])
        large = sizes[found] >= _SMALL
        groups[slots[large]], each = found[large], slots[~large]
    lists = lists_of(queries, Grouping(groups, points))
    return Asked(
        queries.low, queries.high, np.ascontiguousarray(queries.own_low),
        np.ascontiguousarray(queries.own_high), each, lists,
    )  # fmt: skip
