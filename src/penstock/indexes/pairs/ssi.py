"""Strategies that look from the points of stabbing groups (§3.1.2-§3.3.2) and hotspots (§3.1.3).

A pure template, with no condition but the interval, also has coded answers: a partner that a row
found is taken by prefixes of sorted lists of queries, which need not be listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.plain import Merge, SelectFirst
from penstock.indexes.pairs.strategy import (
    Data,
    Probing,
    Strategy,
    boxes_of,
    bytes_of,
    possible_slots,
    probing_order,
    without_lengths,
)
from penstock.kernels.pairs.coded import Coded, probe_coded
from penstock.kernels.pairs.data import (
    LEAST,
    MOST,
    Entries,
    Found,
    Grouping,
    Partner,
    Probes,
    Queries,
)
from penstock.kernels.pairs.near import Groups
from penstock.kernels.pairs.order import join_found
from penstock.kernels.pairs.rtree import build_forest
from penstock.kernels.pairs.ssi import Lists, Prefixes, affected_prefixes, probe_ssi
from penstock.kernels.pairs.ssi_own import AffectedSlots, Trees, affected_slots, probe_ssi_own
from penstock.kernels.pairs.ssi_windows import (
    WindowTrees,
    affected_in_windows,
    probe_ssi_windows,
)


class _Members(NamedTuple):
    """Groups that have members, and the slots of these, group by group."""

    groups: Groups
    starts: I64
    slots: I64
    numbers: I64  # the group of each of the slots


def _members(queries: Queries, grouping: Grouping) -> _Members:
    slots = possible_slots(queries)
    slots = slots[grouping.groups[slots] >= 0]
    points, numbers = np.unique(grouping.points[grouping.groups[slots]], return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    slots, numbers = slots[order], numbers[order]
    starts = np.searchsorted(numbers, np.arange(points.shape[0] + 1))
    lows, highs = points.copy(), points.copy()
    np.minimum.at(lows, numbers, queries.low[slots])
    np.maximum.at(highs, numbers, queries.high[slots])
    return _Members(Groups(points, lows, highs), starts, slots, numbers)


def lists_of(queries: Queries, grouping: Grouping) -> Lists:
    """Sort the queries of each group by low, and by high, descending."""
    groups, starts, slots, numbers = _members(queries, grouping)
    bounds = np.vstack([queries.low[slots], ~queries.high[slots]])
    orders = np.vstack([np.lexsort((bound, numbers)) for bound in bounds])
    return Lists(groups, starts, np.take_along_axis(bounds, orders, 1), slots[orders])


def trees_of(queries: Queries, grouping: Grouping) -> Trees:
    """Make an R-tree over own conditions and intervals of each group."""
    groups, starts, slots, _ = _members(queries, grouping)
    return Trees(groups, build_forest(*boxes_of(queries), slots, starts))


def window_trees_of(queries: Queries, grouping: Grouping) -> WindowTrees:
    """Make an R-tree over own conditions, intervals and ages of each group."""
    groups, starts, slots, numbers = _members(queries, grouping)
    ages = queries.lengths[slots] - 1
    n = groups.points.shape[0]
    oldest, enough = np.full(n, LEAST), np.full(n, MOST)
    np.maximum.at(oldest, numbers, ages)
    np.minimum.at(enough, numbers, ages)
    forest = build_forest(*boxes_of(queries), slots, starts)
    return WindowTrees(groups, oldest, enough, forest)


def _structure_of(queries: Queries, grouping: Grouping) -> Lists | Trees | WindowTrees:
    if queries.lengths.shape[0]:
        return window_trees_of(queries, grouping)
    return trees_of(queries, grouping) if queries.own_low.shape[0] else lists_of(queries, grouping)


@dataclass(frozen=True, slots=True)
class Ssi(Probing):
    """BJ-, SJ- and WJ-SSI: looks from the point of each stabbing group for affected queries.

    The queries of a group are in two sorted lists, or in an R-tree if they have own conditions or
    windows that differ. Queries without a group are left out.
    """

    name: ClassVar[str] = "ssi"
    members: Lists | Trees | WindowTrees

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Put the queries of each group into its structure."""
        return cls(_structure_of(queries, grouping))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        members = self.members
        if isinstance(members, Lists):
            return bytes_of((*members.groups, *members[1:]))
        ages = members[1:3] if isinstance(members, WindowTrees) else ()
        return bytes_of((*members.groups, *ages, *members.forest))

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Look from the point of each group."""
        if isinstance(self.members, Lists):
            return probe_ssi(self.members, order, bits, *data)
        if isinstance(self.members, WindowTrees):
            return probe_ssi_windows(self.members, order, bits, *without_lengths(data))
        return probe_ssi_own(self.members, order, bits, *data)

    def affected(
        self, probes: Probes, entries: Entries, partner: Partner | None = None
    ) -> Prefixes | AffectedSlots:
        """Find queries that have a partner in interval and window, without listing the partners.

        That is step 1 of the paper. It does not look at rest conditions and epochs. Rows come in
        order of (key, shift). The log of the partners is needed if windows differ.
        """
        order = probing_order(probes)
        if isinstance(self.members, Lists):
            return affected_prefixes(self.members, order, probes, entries)
        if isinstance(self.members, WindowTrees):
            assert partner is not None, "ages need the log of the partners"
            return affected_in_windows(self.members, order, probes, entries, partner)
        return affected_slots(self.members, order, probes, entries)

    def probe_coded(self, probes: Probes, entries: Entries) -> Coded:
        """Give every pair of a pure template, with the prefixes of `groups` that take it."""
        assert isinstance(self.members, Lists), (
            "queries with own conditions or windows are not in lists"
        )
        return probe_coded(self.members, probing_order(probes), probes, entries)


@dataclass(frozen=True, slots=True)
class Hotspot(Probing):
    """Groups by ssi, and queries without a group one by one.

    Those are found by their own conditions (select_first), or by a merge if they have none.
    """

    name: ClassVar[str] = "hotspot"
    ssi: Ssi
    scattered: Merge | SelectFirst | None

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Build ssi over the groups, and the other strategy over the scattered queries."""
        ssi, slots = Ssi.build(queries, grouping), possible_slots(queries)
        slots = slots[grouping.groups[slots] < 0]
        one_by_one = SelectFirst if queries.own_low.shape[0] else Merge
        return cls(ssi, one_by_one.over(slots, queries) if slots.shape[0] else None)

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return self.ssi.nbytes + (self.scattered.nbytes if self.scattered else 0)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Look from the points of groups, then for the scattered queries."""
        found = self.ssi.find(order, bits, *data)
        if self.scattered is None:
            return found
        return join_found(found, self.scattered.find(order, bits, *data))


def lists_in(strategy: Strategy) -> tuple[Lists | None, Strategy | None]:
    """The sorted lists with which a strategy finds pairs, and what finds the others."""
    if isinstance(strategy, Hotspot) and isinstance(strategy.ssi.members, Lists):
        return strategy.ssi.members, strategy.scattered
    if isinstance(strategy, Ssi) and isinstance(strategy.members, Lists):
        return strategy.members, None
    return None, strategy
