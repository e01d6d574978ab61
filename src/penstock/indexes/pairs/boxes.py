"""Boxes: per query one interval of the band and of each range, as ordered words (Agarwal §3.2).

If the constants of a query contradict each other or are NULL, its box is empty and it takes no
pair. If a query is not `exact`, its box is too large, and its pairs have to be checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.indexes.pairs.shape import PairBand, PairRange, PairShape
from penstock.kernels.pairs.data import NAN
from penstock.logical.expr import Call, Expr
from penstock.predicates.interval_sets import interval_sets_of
from penstock.predicates.terms import LEAST, MOST
from penstock.types import BOOLEAN

NOTHING = MOST, LEAST
_MINUS_ZERO = -1  # an ordered word that no value has: as an end it means "below zero"
_BLOCK = 1 << 16  # most queries of which the boxes are computed at once
_LOOSE = {"gt": "ge", "lt": "le"}


@dataclass(frozen=True, slots=True)
class Boxes:
    """The intervals of queries: of the band, and of each range (one array row per range).

    Without a band, its intervals have no entries.
    """

    band_low: I64
    band_high: I64
    lows: I64
    highs: I64
    exact: Bool

    @staticmethod
    def of(shape: PairShape, params: I64, ctx: Context) -> Boxes:
        """The boxes of queries, given their parameters (a row each, NULL word first)."""
        n, exact = params.shape[0], np.ones(params.shape[0], np.bool_)
        band_low = band_high = np.empty(0, np.int64)
        if shape.band is not None:
            band_low, band_high = _interval(shape.band, params, ctx, exact)
        lows, highs = np.empty((2, len(shape.ranges), n), np.int64)
        for at, asked in enumerate(shape.ranges):
            lows[at], highs[at] = _interval(asked, params, ctx, exact)
        if shape.band is not None:
            nothing = (band_low > band_high) | (lows > highs).any(axis=0)
            band_low[nothing], band_high[nothing] = NOTHING
        return Boxes(band_low, band_high, lows, highs, exact)

    @staticmethod
    def of_rows(shape: PairShape, params: I64, rows: I64, ctx: Context) -> Boxes:
        """The boxes of some rows of Q, block by block: what a block needs meanwhile is small."""
        n, ranges = rows.shape[0], len(shape.ranges)
        band = np.empty((2, n if shape.band is not None else 0), np.int64)
        lows, highs = np.empty((2, ranges, n), np.int64)
        made = Boxes(band[0], band[1], lows, highs, np.empty(n, np.bool_))
        for start in range(0, n, _BLOCK):
            part = slice(start, start + _BLOCK)
            some = Boxes.of(shape, params[rows[part]], ctx)
            for whole, piece in zip(made.arrays(), some.arrays(), strict=True):
                whole[..., part] = piece
        return made

    def arrays(self) -> tuple[I64 | Bool, ...]:
        """All arrays."""
        return self.band_low, self.band_high, self.lows, self.highs, self.exact

    def turned(self, is_float: bool) -> tuple[I64, I64]:
        """The intervals of the negated band: of the other column minus this one."""
        if is_float:
            below_zero = np.where(self.band_high == _MINUS_ZERO, _MINUS_ZERO - 1, self.band_high)
            return _negated(below_zero), _negated(self.band_low)
        high, low = self.band_high, self.band_low
        open_ = (high == MOST) | (high == LEAST)  # beyond an end is at the end
        return np.where(open_, ~high, -high), np.where(low == LEAST, MOST, -low)


def _interval(
    asked: PairBand | PairRange, params: I64, ctx: Context, exact: Bool
) -> tuple[I64, I64]:
    """The intersection of the conditions' intervals; clears `exact` where it is too large."""
    n = params.shape[0]
    low, high = np.full(n, LEAST), np.full(n, MOST)
    hull = _hull
    if isinstance(asked, PairBand):
        hull = _float_gaps if asked.is_float else _gaps
    for condition in asked.conditions:
        first, last = hull(condition, asked.value, params, ctx, exact)
        np.maximum(low, first, out=low)
        np.minimum(high, last, out=high)
    return low, high


def _gaps(condition: Expr, value: Expr, params: I64, ctx: Context, exact: Bool) -> tuple[I64, I64]:
    """The interval of a bound on a difference of integers.

    A difference beyond the integers is taken for the last one, from either side. So a bound there
    is not exact.
    """
    assert isinstance(condition, Call)
    fn = condition.fn
    loose = Call(BOOLEAN, _LOOSE.get(fn, fn), condition.args)
    low, high = _hull(loose, value, params, ctx, exact)
    bound = high if fn in ("lt", "le") else low
    inside = (bound > LEAST + 1) & (bound < MOST)
    exact &= inside | (low > high)
    return low + (inside & (fn == "gt")), high - (inside & (fn == "lt"))


def _float_gaps(
    condition: Expr, value: Expr, params: I64, ctx: Context, exact: Bool
) -> tuple[I64, I64]:
    """The interval of a bound on a difference of floats.

    A low bound NaN is not exact: it may be the negation of another bound, of absolute values.
    """
    assert isinstance(condition, Call)
    low, high = _hull(condition, value, params, ctx, exact)
    open_ = (low >= NAN) & (low <= high) & (condition.fn in ("gt", "ge"))
    exact &= ~open_
    return np.where(open_, LEAST, low), high


def _hull(condition: Expr, value: Expr, params: I64, ctx: Context, exact: Bool) -> tuple[I64, I64]:
    """The least interval that contains all values accepted by a condition."""
    sets = interval_sets_of(condition, value, False, params, ctx)
    counts = np.diff(sets.offsets)
    some = counts > 0
    low, high = np.full(counts.shape, MOST), np.full(counts.shape, LEAST)
    low[some], high[some] = (
        sets.lows[sets.offsets[:-1][some]],
        sets.highs[sets.offsets[1:][some] - 1],
    )
    exact &= sets.exact & (counts <= 1)
    return low, high


def _negated(words: I64) -> I64:
    """Of ordered words of floats, the words of the negated values."""
    return np.where(words == 0, 0, ~words)
