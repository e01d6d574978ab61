"""What a strategy of the index over pairs of streams is (Agarwal et al. 2009, §3).

A strategy is built from the queries of a template, and from a grouping of their intervals, and is
probed with rows. All give the same triples; they differ in what their time grows with.
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
        """Make the strategy's structure; those that need no groups pass over the grouping."""

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""

    def probe(
        self, probes: Probes, entries: Entries, partner: Partner, queries: Queries
    ) -> Triples:
        """Give every pair and query that holds, in order of (row, position, slot)."""


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
    """How many bits a slot has in a word of `Found`."""
    return max(len(queries.low) - 1, 0).bit_length()


def probing_order(probes: Probes) -> I64:
    """Rows in order of key, then shift, so that successive searches end close to each other."""
    columns = [column for column in (probes.shifts, probes.keys) if column.shape[0]]
    return np.lexsort(columns) if columns else np.arange(probes.limits.shape[0])


class Probing:
    """What all strategies do after they have found pairs: put them in order."""

    def find(self, order: I64, bits: int, *data: *Data) -> Found:
        """Pairs of the rows in `order`, as `Found` packs them."""
        raise NotImplementedError

    def probe(
        self, probes: Probes, entries: Entries, partner: Partner, queries: Queries
    ) -> Triples:
        """Give every pair and query that holds, in order of (row, position, slot)."""
        order, bits = probing_order(probes), slot_bits(queries)
        found = self.find(order, bits, probes, entries, partner, queries)
        return order_triples(found, order, probes.floor, bits)


def bytes_of(arrays: Iterable[I64]) -> int:
    """Bytes of all arrays."""
    return sum(array.nbytes for array in arrays)
