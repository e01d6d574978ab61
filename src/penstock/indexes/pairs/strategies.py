"""Strategies of the index over pairs of streams, named as in the paper (Agarwal et al. 2009, §3).

A strategy is built from the queries of a template and a grouping of their intervals, and is probed
with rows. All strategies return the same triples; they differ in running time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from penstock.arrays import I64
from penstock.kernels.pairs.data import Entries, Found, Grouping, Partner, Probes, Queries, Triples
from penstock.kernels.pairs.data_outer import probe_data_outer
from penstock.kernels.pairs.merge import probe_merge
from penstock.kernels.pairs.order import order_triples
from penstock.kernels.pairs.rtree import Forest, build_forest
from penstock.kernels.pairs.select_first import probe_select_first
from penstock.kernels.pairs.vanilla import probe_vanilla

Data = tuple[Probes, Entries, Partner, Queries]


class Strategy(Protocol):
    """Finds the partners of rows for the queries that it was built from."""

    name: ClassVar[str]

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Build the strategy's structure; a strategy without groups ignores the grouping."""

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""

    def probe(
        self, probes: Probes, entries: Entries, partner: Partner, queries: Queries
    ) -> Triples:
        """All pairs with the queries that take them, in order of (row, position, slot)."""


def possible_slots(queries: Queries) -> I64:
    """The slots of queries without an empty interval; the others take no pair."""
    fits = queries.low <= queries.high
    for low, high in zip(queries.own_low, queries.own_high, strict=True):
        fits &= low <= high
    for low, high in zip(queries.rest_low, queries.rest_high, strict=True):
        fits &= low <= high
    return np.flatnonzero(fits)


def boxes_of(queries: Queries) -> tuple[I64, I64]:
    """Lows and highs of own conditions and, last, of the interval: [dimension, slot]."""
    lows, highs = [*queries.own_low, queries.low], [*queries.own_high, queries.high]
    return np.vstack(lows), np.vstack(highs)


def ends_of(slots: I64) -> I64:
    """The bounds of a single piece with all slots."""
    return np.array([0, slots.shape[0]])


def slot_bits(queries: Queries) -> int:
    """The number of bits of a slot in a word of `Found`."""
    return max(len(queries.low) - 1, 0).bit_length()


def probing_order(probes: Probes) -> I64:
    """Rows in order of key, then shift, so that consecutive searches end close to each other."""
    columns = [column for column in (probes.shifts, probes.keys) if column.shape[0]]
    return np.lexsort(columns) if columns else np.arange(probes.limits.shape[0])


class _Probing:
    """The common part of strategies: sort the pairs that they find."""

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Find pairs for the rows in `order`, packed as in `Found`."""
        raise NotImplementedError

    def probe(
        self, probes: Probes, entries: Entries, partner: Partner, queries: Queries
    ) -> Triples:
        """All pairs with the queries that take them, in order of (row, position, slot)."""
        order, bits = probing_order(probes), slot_bits(queries)
        found = self.find(order, bits, probes, entries, partner, queries)
        return order_triples(found, order, probes.floor, bits)


@dataclass(frozen=True, slots=True)
class Vanilla(_Probing):
    """BJ-QOuter and SJ-Vanilla: for each query, test its own conditions and search its interval."""

    name: ClassVar[str] = "vanilla"
    slots: I64

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Keep the slots of queries that can take a pair."""
        return cls(possible_slots(queries))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return self.slots.nbytes

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Search the interval of each query."""
        return probe_vanilla(self.slots, order, bits, *data)


@dataclass(frozen=True, slots=True)
class DataOuter(_Probing):
    """BJ-DOuter and SJ-JoinFirst: looks up each partner in an R-tree over all conditions."""

    name: ClassVar[str] = "data_outer"
    forest: Forest

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Build one tree over own conditions and intervals."""
        lows, highs = boxes_of(queries)
        slots = possible_slots(queries)
        return cls(build_forest(lows, highs, slots, ends_of(slots)))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return sum(array.nbytes for array in self.forest)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Look up each partner."""
        return probe_data_outer(self.forest, order, bits, *data)


@dataclass(frozen=True, slots=True)
class Merge(_Probing):
    """BJ-MJ: sweeps queries in order of their lows along the sorted partners."""

    name: ClassVar[str] = "merge"
    slots: I64

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Sort the queries by their lows."""
        return cls.over(possible_slots(queries), queries)

    @classmethod
    def over(cls, slots: I64, queries: Queries) -> Self:
        """Sort some of the queries by their lows."""
        return cls(slots[np.argsort(queries.low[slots], kind="stable")])

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return self.slots.nbytes

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Sweep all queries for each row."""
        return probe_merge(self.slots, order, bits, *data)


@dataclass(frozen=True, slots=True)
class SelectFirst(_Probing):
    """SJ-SelectFirst: finds queries that accept the row in an R-tree, then searches for each."""

    name: ClassVar[str] = "select_first"
    forest: Forest

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Build one tree over own conditions."""
        return cls.over(possible_slots(queries), queries)

    @classmethod
    def over(cls, slots: I64, queries: Queries) -> Self:
        """Build one tree over the own conditions of some queries."""
        return cls(build_forest(queries.own_low, queries.own_high, slots, ends_of(slots)))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return sum(array.nbytes for array in self.forest)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Search for the queries that accept each row."""
        return probe_select_first(self.forest, order, bits, *data)


STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Vanilla, DataOuter, Merge, SelectFirst)
}
"""All strategies by name."""
