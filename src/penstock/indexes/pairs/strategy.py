"""The contract of strategies of the index over pairs of streams (Agarwal et al. 2009, §3).

A strategy is built from the queries of a template and a grouping of their intervals, and is probed
with rows. All strategies return the same triples; they differ in running time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol, Self

import numpy as np

from penstock.arrays import I64
from penstock.kernels.pairs.data import (
    LEAST,
    Entries,
    Found,
    Grouping,
    Partner,
    Probes,
    Queries,
    Triples,
)
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

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Pairs of the rows in `order`, as `Found` packs them."""

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
    """Lows and highs of own conditions, of the interval, and of ages if windows differ.

    They are [dimension, slot]. A window takes the partners of any age less than its length.
    """
    lows, highs = [*queries.own_low, queries.low], [*queries.own_high, queries.high]
    if queries.lengths.shape[0]:
        lows.append(np.full(queries.lengths.shape[0], LEAST))
        highs.append(queries.lengths - 1)
    return np.vstack(lows), np.vstack(highs)


def without_lengths(data: Data) -> Data:
    """The same data, if what is found is known to be in the windows."""
    probes, entries, partner, queries = data
    return probes, entries, partner, queries._replace(lengths=queries.lengths[:0])


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
