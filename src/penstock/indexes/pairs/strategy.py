"""The contract of strategies of the index over pairs of streams (Agarwal et al. 2009, §3).

A strategy is built from the queries of a template and a grouping of their intervals, and is probed
with rows. All strategies return the same triples; they differ in running time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol, Self

import numpy as np

from penstock.arrays import I64
from penstock.kernels.pairs.data import Entries, Found, Grouping, Partner, Probes, Queries, Triples
from penstock.kernels.pairs.order import order_triples

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


def slot_bits(queries: Queries) -> int:
    """The number of bits of a slot in a word of `Found`."""
    return max(len(queries.low) - 1, 0).bit_length()


def probing_order(probes: Probes) -> I64:
    """Rows in order of key, then shift, so that consecutive searches end close to each other."""
    columns = [column for column in (probes.shifts, probes.keys) if column.shape[0]]
    return np.lexsort(columns) if columns else np.arange(probes.limits.shape[0])


class Probing:
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


def bytes_of(arrays: Iterable[I64]) -> int:
    """Bytes of all arrays."""
    return sum(array.nbytes for array in arrays)
