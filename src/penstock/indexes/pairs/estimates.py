"""How many queries accept a row, about (Agarwal et al. 2009, §4.1): n′ and n″."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.indexes.pairs.histogram import IntervalHistogram, equal_borders
from penstock.predicates.terms import LEAST, MOST

F64 = NDArray[np.float64]
_FEW = 4096
"""So many intervals are counted exactly: their sorted ends are small."""


class Around(Protocol):
    """Counts intervals around values."""

    def around(self, values: I64) -> F64:
        """About how many intervals are around each value."""


class SortedEnds:
    """Intervals by their ends: how many are around a value, exactly."""

    def __init__(self, lows: I64, highs: I64) -> None:
        self._lows, self._highs = np.sort(lows), np.sort(highs)

    def around(self, values: I64) -> F64:
        """How many intervals are around each value."""
        begun = np.searchsorted(self._lows, values, side="right")
        ended = np.searchsorted(self._highs, values, side="left")
        return (begun - ended).astype(np.float64)


def count_around(lows: I64, highs: I64) -> Around:
    """Counts intervals, none of them empty: few exactly, many by a histogram of 100 buckets."""
    if lows.shape[0] <= _FEW:
        return SortedEnds(lows, highs)
    ends = np.concatenate([lows[lows != LEAST], highs[highs != MOST]])
    least, most = (int(ends.min()), int(ends.max())) if ends.shape[0] else (0, 0)
    made = IntervalHistogram(equal_borders(least, most))
    made.add(lows, highs)
    return made


class Accepting:
    """Counts queries that accept a row, by their intervals of each column: [condition, query].

    Conditions on several columns are taken to be independent.
    """

    def __init__(self, lows: I64, highs: I64) -> None:
        self._queries = lows.shape[1]
        self._columns = [count_around(*ends) for ends in zip(lows, highs, strict=True)]

    def count(self, own: I64) -> F64:
        """About how many accept each row, given its value in each column: [condition, row]."""
        found = np.full(own.shape[1], float(self._queries))
        for column, values in zip(self._columns, own, strict=True):
            found *= column.around(values) / max(self._queries, 1)
        return found
