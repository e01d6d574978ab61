"""Strategies that visit every query, or every partner of a row (§3.1.1, §3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.strategy import (
    Data,
    Probing,
    boxes_of,
    bytes_of,
    possible_slots,
    without_lengths,
)
from penstock.kernels.pairs.data import Found, Grouping, Queries
from penstock.kernels.pairs.data_outer import probe_data_outer
from penstock.kernels.pairs.merge import Sorted, probe_merge
from penstock.kernels.pairs.rtree import Forest, build_forest
from penstock.kernels.pairs.select_first import probe_select_first
from penstock.kernels.pairs.vanilla import probe_vanilla


@dataclass(frozen=True, slots=True)
class Vanilla(Probing):
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
class DataOuter(Probing):
    """BJ-DOuter, SJ- and WJ-JoinFirst: looks up each partner in an R-tree over all conditions."""

    name: ClassVar[str] = "data_outer"
    forest: Forest

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Build one tree over own conditions, intervals and, if windows differ, ages."""
        lows, highs = boxes_of(queries)
        slots = possible_slots(queries)
        one_tree = np.array([0, slots.shape[0]])
        return cls(build_forest(lows, highs, slots, one_tree))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return bytes_of(self.forest)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Look up each partner."""
        return probe_data_outer(self.forest, order, bits, *without_lengths(data))


@dataclass(frozen=True, slots=True)
class Merge(Probing):
    """BJ-MJ: sweeps queries in order of their lows along the sorted partners."""

    name: ClassVar[str] = "merge"
    sorted: Sorted

    @classmethod
    def build(cls, queries: Queries, grouping: Grouping) -> Self:
        """Sort the queries by their lows."""
        return cls.over(possible_slots(queries), queries)

    @classmethod
    def over(cls, slots: I64, queries: Queries) -> Self:
        """Sort some of the queries by their lows."""
        slots = slots[np.argsort(queries.low[slots], kind="stable")]
        return cls(Sorted(slots, queries.low[slots], queries.high[slots]))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return bytes_of(self.sorted)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Sweep all queries for each row."""
        return probe_merge(self.sorted, order, bits, *data)


@dataclass(frozen=True, slots=True)
class SelectFirst(Probing):
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
        one_tree = np.array([0, slots.shape[0]])
        return cls(build_forest(queries.own_low, queries.own_high, slots, one_tree))

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return bytes_of(self.forest)

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Search for the queries that accept each row."""
        return probe_select_first(self.forest, order, bits, *data)
