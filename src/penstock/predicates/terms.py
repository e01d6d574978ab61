"""Predicates of a template in normal form: per query one interval of each attribute, and ≠.

Values and constants are mapped to int64, so that comparing them is comparing integers (NaN equals
NaN and is largest). Strict bounds become inclusive, and = becomes an interval of one value. A query
accepts no row if its constants contradict each other or are NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.match import EQ, GE, GT, LE, LT, NE

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Bounds:
    """By attribute and query, the bounds of accepted values; only for `possible` queries."""

    lows: I64
    highs: I64
    differs: I64
    possible: Bool


def ordered(words: I64) -> I64:
    """Map bits of floats (one NaN, no −0.0) to integers of the same order."""
    return np.where(words < 0, words ^ MOST, words)


class Terms:
    """The predicates ``value <comparison> parameter`` of a template.

    `preds` rows are (operator, is_float, parameter, attribute), as in `match_queries`. There may be
    attributes without a predicate.
    """

    def __init__(self, preds: I64, attributes: int) -> None:
        self.preds = preds
        self.attributes = attributes
        self.unequal = preds[preds[:, 0] == NE, 3].copy()
        self.equal = np.unique(preds[preds[:, 0] == EQ, 3])
        self._nulls = int(np.bitwise_or.reduce(1 << preds[:, 2], initial=0))

    def bounds(self, params: I64) -> Bounds:
        """The bounds of queries, given their parameter rows (NULL word first)."""
        n = params.shape[0]
        lows = np.full((self.attributes, n), LEAST)
        highs = np.full((self.attributes, n), MOST)
        differs = np.empty((self.unequal.shape[0], n), np.int64)
        possible: Bool = (params[:, 0] & self._nulls) == 0
        seen = 0
        for op, is_float, param, a in self.preds.tolist():
            constant = ordered(params[:, 1 + param]) if is_float else params[:, 1 + param]
            if op == NE:
                differs[seen] = constant
                seen += 1
            if op == GT:
                possible &= constant < MOST
            if op == LT:
                possible &= constant > LEAST
            if op in (EQ, GE, GT):
                strict = (op == GT) & (constant < MOST)
                np.maximum(lows[a], constant + strict, out=lows[a])
            if op in (EQ, LE, LT):
                strict = (op == LT) & (constant > LEAST)
                np.minimum(highs[a], constant - strict, out=highs[a])
        possible &= (lows <= highs).all(axis=0)
        return Bounds(lows, highs, differs, possible)
