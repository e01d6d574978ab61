"""A part of an index over pairs: some queries, with a structure for the rows of either side.

A part does not change. Queries that are gone are marked, and skipped in the results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.rows import ProbingRows, Takers
from penstock.indexes.pairs.shape import PairShape
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import Strategy
from penstock.kernels.pairs.data import NAN, Grouping, Probes, Queries
from penstock.logical.lifetime import Lifetime
from penstock.predicates.terms import LEAST, MOST, ordered
from penstock.queries.query_table import QueryTable

_NONE: I64 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Side:
    """One side as the prober: the conditions of the queries, and the structure that is probed.

    `own` has the columns of the side that queries restrict, each with a flag for floats.
    """

    key: tuple[int, ...]
    shift: int | None  # the band's column
    is_float: bool  # whether the band is a difference of floats
    undefined: int  # the word of a gap that is NaN
    own: tuple[tuple[int, bool], ...]
    queries: Queries
    strategy: Strategy

    def probes(self, batch: ProbingRows) -> Probes:
        """Convert the rows of a batch into the form that kernels read."""
        words = batch.words
        nulls = 0
        for column in (*self.key, *(c for c, _ in self.own), *self._shifts()):
            nulls |= 1 << column
        shifts = [_column(words, c, self.is_float) for c in self._shifts()]
        own = np.empty((len(self.own), len(batch)), np.int64)
        for at, (column, is_float) in enumerate(self.own):
            own[at] = _column(words, column, is_float)
        return Probes(
            batch.keys(self.key), shifts[0] if shifts else _NONE, own, batch.instants,
            batch.epochs, batch.limits, words[:, 0] & nulls != 0, batch.floor,
            self.is_float, self.undefined,
        )  # fmt: skip

    def _shifts(self) -> tuple[int, ...]:
        return () if self.shift is None else (self.shift,)


def _column(words: I64, column: int, is_float: bool) -> I64:
    values = np.ascontiguousarray(words[:, 1 + column])
    return ordered(values) if is_float else values


@dataclass(frozen=True, slots=True)
class Part:
    """Queries by slot: their numbers in Q, marks of gone queries, and a structure per side."""

    qids: I64
    gone: Bool
    exact: Bool
    sides: tuple[Side, Side]

    @staticmethod
    def of(
        shape: PairShape, lifetimes: tuple[Lifetime, ...], table: QueryTable, qids: I64,
        ctx: Context,
    ) -> Part:  # fmt: skip
        """Build the structures of some queries."""
        boxes = Boxes.of(shape, table.matrix()[qids], ctx)
        lengths = [life.lengths(table.matrix(), qids) for life in lifetimes]
        since = table.since(Lineage.QUERY)[qids]
        sides = [_side(shape, side, boxes, lengths[1 - side], since) for side in (0, 1)]
        return Part(qids, np.zeros(qids.shape[0], np.bool_), boxes.exact, (sides[0], sides[1]))

    def without(self, gone: Bool) -> Part:
        """The same part with these slots marked as gone."""
        return replace(self, gone=gone)

    def live(self) -> I64:
        """The queries that are not gone."""
        return self.qids[~self.gone]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [a for side in self.sides for a in side.queries]
        structures = sum(side.strategy.nbytes for side in self.sides)
        return sum(a.nbytes for a in (self.qids, self.gone, self.exact, *arrays)) + structures

    def match(self, batch: ProbingRows) -> Takers:
        """The queries that take each pair, sorted by row, position and query."""
        side = self.sides[batch.side]
        found = side.strategy.probe(side.probes(batch), batch.entries, batch.partner, side.queries)
        takers = Takers(found.rows, found.positions, self.qids[found.slots])
        return takers[np.flatnonzero(~self.gone[found.slots])] if self.gone.any() else takers

    def explain(self) -> str:
        """For EXPLAIN: how queries are found."""
        return ", ".join(dict.fromkeys(side.strategy.name for side in self.sides))


def _side(shape: PairShape, side: int, boxes: Boxes, lengths: int | I64, since: I64) -> Side:
    """Build the structure that rows of one side probe."""
    other, band = 1 - side, shape.band
    own = [at for at, r in enumerate(shape.ranges) if r.side == side]
    rest = [at for at, r in enumerate(shape.ranges) if r.side == other]
    undefined, is_float = NAN, band is not None and band.is_float
    if band is None:
        n = boxes.exact.shape[0]
        low, high = np.full(n, LEAST), np.full(n, MOST)
        if rest:  # the first range of the partners is their axis
            at, *rest = rest
            low, high = boxes.lows[at], boxes.highs[at]
    elif band.minuend == other:
        low, high = boxes.band_low, boxes.band_high
    else:
        low, high = boxes.turned(is_float)
        undefined = ~NAN
    ranges = [shape.ranges[at] for at in rest]
    queries = Queries(
        np.ascontiguousarray(low), np.ascontiguousarray(high), boxes.lows[own], boxes.highs[own],
        boxes.lows[rest], boxes.highs[rest],
        np.array([r.column for r in ranges], np.int64),
        np.array([r.is_float for r in ranges], np.int64),
        _several(lengths), since if since.max(initial=0) > 0 else _NONE,
    )  # fmt: skip
    columns = tuple((shape.ranges[at].column, shape.ranges[at].is_float) for at in own)
    shift = None if band is None else band.columns[side]
    strategy = STRATEGIES["vanilla"].build(queries, _ungrouped(queries))
    key = tuple(columns[side] for columns in shape.key)
    return Side(key, shift, is_float, undefined, columns, queries, strategy)


def _several(lengths: int | I64) -> I64:
    """The window lengths if they differ by query, else an empty array."""
    if isinstance(lengths, int) or not lengths.shape[0] or (lengths == lengths[0]).all():
        return _NONE
    return np.ascontiguousarray(lengths)


def _ungrouped(queries: Queries) -> Grouping:
    return Grouping(np.full(queries.low.shape[0], -1), _NONE)
