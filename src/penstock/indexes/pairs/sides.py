"""The two sides of an index over pairs: what rows of one are asked, and how they find partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.rows import ProbingRows
from penstock.indexes.pairs.shape import PairShape
from penstock.kernels.pairs.data import NAN, Probes, Queries
from penstock.predicates.terms import LEAST, MOST, ordered

_NONE: I64 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class PairSide:
    """How rows of one side find partners in the other, for all queries of a template.

    `own`, `axis` and `rest` are numbers of ranges of the shape: those on columns of this side, the
    one by which partners are sorted, and those that found partners are tested for.
    """

    shape: PairShape
    side: int
    own: tuple[int, ...]
    axis: int | None  # none: the band, or all partners with the key
    rest: tuple[int, ...]

    @staticmethod
    def of(shape: PairShape, side: int, axis: int = 0) -> PairSide:
        """A side; `axis` counts the ranges of the other side, if there is no band."""
        own = [at for at, r in enumerate(shape.ranges) if r.side == side]
        rest = [at for at, r in enumerate(shape.ranges) if r.side != side]
        chosen = rest.pop(axis) if shape.band is None and rest else None
        return PairSide(shape, side, tuple(own), chosen, tuple(rest))

    @property
    def value_column(self) -> int:
        """The column by which the partners are sorted, below the key."""
        other, shape = 1 - self.side, self.shape
        if shape.band is not None:
            return shape.band.columns[other]
        return shape.key[0][other] if self.axis is None else shape.ranges[self.axis].column

    @property
    def is_float(self) -> bool:
        """Whether there is a band, of floats."""
        return self.shape.band is not None and self.shape.band.is_float

    @property
    def _is_turned(self) -> bool:
        """Whether the band is this side's column less the partner's: its negation is looked up."""
        return self.shape.band is not None and self.shape.band.minuend == self.side

    # ---- rows ------------------------------------------------------------------------
    def probes(self, batch: ProbingRows) -> Probes:
        """The rows of a batch as kernels read them."""
        words, shape = batch.words, self.shape
        key = tuple(columns[self.side] for columns in shape.key)
        shifts = () if shape.band is None else (shape.band.columns[self.side],)
        ranges = [shape.ranges[at] for at in self.own]
        nulls = 0
        for column in (*key, *shifts, *(r.column for r in ranges)):
            nulls |= 1 << column
        own = np.empty((len(ranges), len(batch)), np.int64)
        for at, asked in enumerate(ranges):
            own[at] = _column(words, asked.column, asked.is_float)
        return Probes(
            batch.keys(key), _column(words, shifts[0], self.is_float) if shifts else _NONE, own,
            batch.instants, batch.epochs, batch.limits, words[:, 0] & nulls != 0, batch.floor,
            self.is_float, ~NAN if self._is_turned else NAN,
        )  # fmt: skip

    # ---- queries ---------------------------------------------------------------------
    def queries(self, boxes: Boxes, lengths: int | I64, since: I64) -> Queries:
        """The conditions of queries on rows of this side and on their partners, by slot.

        `lengths` are those of the partners' windows, `since` the epochs from which queries see
        rows.
        """
        low, high = self._interval(boxes)
        rest = [self.shape.ranges[at] for at in self.rest]
        return Queries(
            low, high, _rows(boxes.lows, self.own), _rows(boxes.highs, self.own),
            _rows(boxes.lows, self.rest), _rows(boxes.highs, self.rest),
            np.array([r.column for r in rest], np.int64),
            np.array([r.is_float for r in rest], np.int64),
            _several(lengths), since if since.max(initial=0) > 0 else _NONE,
        )  # fmt: skip

    def _interval(self, boxes: Boxes) -> tuple[I64, I64]:
        if self.axis is not None:
            return boxes.lows[self.axis], boxes.highs[self.axis]
        if self.shape.band is None:
            n = boxes.exact.shape[0]
            return np.full(n, LEAST), np.full(n, MOST)
        if self._is_turned:
            return boxes.turned(self.is_float)
        return boxes.band_low, boxes.band_high


def _column(words: I64, column: int, is_float: bool) -> I64:
    values = np.ascontiguousarray(words[:, 1 + column])
    return ordered(values) if is_float else values


def _rows(bounds: I64, numbers: tuple[int, ...]) -> I64:
    """Some rows of a matrix: neighbours are not copied."""
    first = numbers[0] if numbers else 0
    if numbers == tuple(range(first, first + len(numbers))):
        return bounds[first : first + len(numbers)]
    return bounds[list(numbers)]


def _several(lengths: int | I64) -> I64:
    """Lengths of windows if they differ."""
    if isinstance(lengths, int) or not lengths.shape[0] or (lengths == lengths[0]).all():
        return _NONE
    return np.ascontiguousarray(lengths)
