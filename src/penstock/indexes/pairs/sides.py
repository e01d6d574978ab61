"""The two sides of an index over pairs: what rows of one are asked, and how they find partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.rows import ProbingRows
from penstock.indexes.pairs.shape import PairShape
from penstock.kernels.pairs.data import GAP, NAN, Probes, Queries
from penstock.kernels.pairs.search import gaps_between
from penstock.predicates.terms import LEAST, MOST, ordered

_NONE: I64 = np.empty(0, np.int64)
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns of both sides by number, each with its stream."""


@dataclass(frozen=True, slots=True)
class PairSide:
    """How rows of one side find partners in the other, for all queries of a template.

    `own`, `axis` and `rest` are numbers of ranges of the shape: those on columns of this side, the
    one by which partners are sorted, and those that found partners are tested for. If a range is
    the axis although there is a band, partners are tested for the band too.
    """

    shape: PairShape
    side: int
    own: tuple[int, ...]
    axis: int | None  # none: the band, or all partners with the key
    rest: tuple[int, ...]

    @staticmethod
    def of(shape: PairShape, side: int) -> PairSide:
        """A side along its first axis: the band, or else the first range of the other side."""
        return PairSide.ways(shape, side)[0]

    @staticmethod
    def ways(shape: PairShape, side: int) -> tuple[PairSide, ...]:
        """A side along each axis that it can have: the band, and the ranges of the other side."""
        own = tuple(at for at, r in enumerate(shape.ranges) if r.side == side)
        others = tuple(at for at, r in enumerate(shape.ranges) if r.side != side)
        axes: list[int | None] = [None] if shape.band is not None or not others else []
        return tuple(
            PairSide(shape, side, own, axis, tuple(at for at in others if at != axis))
            for axis in (*axes, *others)
        )

    @property
    def value_column(self) -> int:
        """The column by which the partners are sorted, below the key."""
        other, shape = 1 - self.side, self.shape
        if self.axis is not None:
            return shape.ranges[self.axis].column
        return shape.key[0][other] if shape.band is None else shape.band.columns[other]

    @property
    def has_band_axis(self) -> bool:
        """Whether partners are found by their gap in a band."""
        return self.shape.band is not None and self.axis is None

    @property
    def is_float(self) -> bool:
        """Whether there is a band, of floats."""
        return self.shape.band is not None and self.shape.band.is_float

    def text(self, names: Names) -> str:
        """The axis in words, such as `s.c` or `s.b - r.b`."""
        other, band = names[1 - self.side], self.shape.band
        if not self.has_band_axis or band is None:
            return other[self.value_column]
        left, right = (names[at][band.columns[at]] for at in (band.minuend, 1 - band.minuend))
        return f"{left} - {right}"

    @property
    def _is_turned(self) -> bool:
        """Whether the band is this side's column less the partner's: its negation is looked up."""
        return self.shape.band is not None and self.shape.band.minuend == self.side

    # ---- rows ------------------------------------------------------------------------
    def probes(self, batch: ProbingRows) -> Probes:
        """The rows of a batch as kernels read them."""
        words, shape = batch.words, self.shape
        key = tuple(columns[self.side] for columns in shape.key)
        band = () if shape.band is None else (shape.band.columns[self.side],)
        ranges = [shape.ranges[at] for at in self.own]
        nulls = 0
        for column in (*key, *band, *(r.column for r in ranges)):
            nulls |= 1 << column
        shifts = [_NONE, _NONE]  # on the axis, and of the rest
        if band:
            shifts[not self.has_band_axis] = _column(words, band[0], self.is_float)
        return Probes(
            batch.keys(key), shifts[0], self.own_values(words),
            batch.instants, batch.epochs, batch.limits, words[:, 0] & nulls != 0, batch.floor,
            self.is_float, ~NAN if self._is_turned else NAN, shifts[1],
        )  # fmt: skip

    def own_values(self, words: I64) -> I64:
        """The values of rows in the columns of own conditions: [condition, row]."""
        own = np.empty((len(self.own), words.shape[0]), np.int64)
        for at, number in enumerate(self.own):
            asked = self.shape.ranges[number]
            own[at] = _column(words, asked.column, asked.is_float)
        return own

    def gaps(self, words: I64, others: I64) -> I64:
        """The gaps on the axis between rows of this side and rows of the other, without NULLs."""
        band, column = self.shape.band, self.value_column
        others = others[others[:, 0] >> column & 1 == 0]
        if band is None or not self.has_band_axis:
            is_float = self.axis is not None and self.shape.ranges[self.axis].is_float
            return _column(others, column, is_float)
        own = band.columns[self.side]
        words = words[words[:, 0] >> own & 1 == 0]
        undefined = ~NAN if self._is_turned else NAN
        here, there = (
            _column(rows, at, band.is_float) for rows, at in ((words, own), (others, column))
        )
        return gaps_between(there, here, band.is_float, undefined)

    # ---- queries ---------------------------------------------------------------------
    def queries(self, boxes: Boxes, lengths: int | I64, since: I64) -> Queries:
        """The conditions of queries on rows of this side and on their partners, by slot.

        `lengths` are those of the partners' windows, `since` the epochs from which queries see
        rows.
        """
        low, high = self._interval(boxes)
        ranges, band = [self.shape.ranges[at] for at in self.rest], self.shape.band
        rest = _rows(boxes.lows, self.rest), _rows(boxes.highs, self.rest)
        columns, kinds = [r.column for r in ranges], [int(r.is_float) for r in ranges]
        if band is not None and not self.has_band_axis:
            gaps = self._gaps(boxes)
            rest = np.vstack([rest[0], gaps[0]]), np.vstack([rest[1], gaps[1]])
            columns, kinds = [*columns, band.columns[1 - self.side]], [*kinds, GAP]
        return Queries(
            low, high, _rows(boxes.lows, self.own), _rows(boxes.highs, self.own), *rest,
            np.array(columns, np.int64), np.array(kinds, np.int64),
            _several(lengths), since if since.max(initial=0) > 0 else _NONE,
        )  # fmt: skip

    def _interval(self, boxes: Boxes) -> tuple[I64, I64]:
        if self.axis is not None:
            return boxes.lows[self.axis], boxes.highs[self.axis]
        if self.shape.band is None:
            n = boxes.exact.shape[0]
            return np.full(n, LEAST), np.full(n, MOST)
        return self._gaps(boxes)

    def _gaps(self, boxes: Boxes) -> tuple[I64, I64]:
        """The intervals of the band, as rows of this side see it."""
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
