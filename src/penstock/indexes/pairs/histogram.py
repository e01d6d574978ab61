"""Histograms of values and of intervals, which estimate what a row will find (Agarwal et al. 2009).

The paper's are of equal width, with 100 buckets (§4.1, §5). Here one more bucket on each side has
all values outside of the range. `borders_of_groups` makes borders for intervals that follow their
clusters (§1, on its Appendix B).
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.stabbing_partition import Groups, nonempty
from penstock.kernels.pairs import histogram
from penstock.kernels.pairs.histogram import F64
from penstock.predicates.terms import LEAST, MOST

BUCKETS = 100


def equal_borders(least: int, most: int, buckets: int = BUCKETS) -> I64:
    """Borders that cut [least, most] into buckets of equal width."""
    span = most - least + 1
    return np.array([least + span * i // buckets for i in range(buckets)] + [min(most + 1, MOST)])


def borders_of_groups(groups: Groups, lows: I64, highs: I64, buckets: int = BUCKETS) -> I64:
    """Borders for the intervals (`lows` and `highs` by id) of a stabbing partition.

    The number of a group's intervals around a value rises up to the group's point, and then falls.
    Each group gets borders by its size, half of them on either side, between which this number
    changes equally. So the error anywhere is a small part of each group around. With the ends of
    each group in order, this takes linear time (§1, on Appendix B).
    """
    sizes = groups.outline.sizes
    shares = sizes * (buckets / 2) / max(int(sizes.sum()), 1)
    cuts = shares.astype(np.int64)
    rest = min(buckets // 2 - int(cuts.sum()), sizes.shape[0])
    cuts[np.argsort(cuts - shares, kind="stable")[:rest]] += 1
    cuts = np.minimum(cuts, sizes)
    members = groups.members
    return histogram.cut_groups(groups.offsets, lows[members], highs[members], cuts)


def _starts(borders: I64) -> I64:
    return np.unique(np.append(borders, LEAST))


class ValueHistogram:
    """How many values there are about here, such as join keys of partners."""

    def __init__(self, borders: I64) -> None:
        self._starts = _starts(borders)
        self._counts = np.zeros_like(self._starts)
        self._widths = histogram.widths(self._starts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._starts.nbytes + self._counts.nbytes + self._widths.nbytes

    def add(self, values: I64) -> None:
        """Count values."""
        histogram.count_values(self._starts, self._counts, values, 1)

    def remove(self, values: I64) -> None:
        """No longer count values, which were added."""
        histogram.count_values(self._starts, self._counts, values, -1)

    def equal(self, values: I64, distinct: int | None = None) -> F64:
        """About how many are equal to each value.

        In a bucket all values are taken to be equally frequent: all integers, or as many as there
        are on the average if it is known how many `distinct` ones there are in all.
        """
        per_bucket = self._widths
        if distinct is not None:
            filled = max(int(np.count_nonzero(self._counts)), 1)
            per_bucket = np.minimum(per_bucket, max(distinct / filled, 1.0))
        at = np.searchsorted(self._starts, values, side="right") - 1
        return self._counts[at] / per_bucket[at]

    def between(self, lows: I64, highs: I64) -> F64:
        """About how many are in each [low, high]."""
        return histogram.count_between(self._starts, self._counts, lows, highs)


class IntervalHistogram:
    """How many intervals there are around a value, such as ranges of queries that take it."""

    def __init__(self, borders: I64) -> None:
        self._starts = _starts(borders)
        self._steps = np.zeros(self._starts.shape[0] + 1, np.int64)
        self._shares = np.zeros(self._starts.shape[0])
        self._levels: F64 | None = None  # computed when asked for

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._starts.nbytes + self._steps.nbytes + 2 * self._shares.nbytes

    def add(self, lows: I64, highs: I64) -> None:
        """Count intervals; empty ones (low > high) are around nothing."""
        self._raise(lows, highs, 1)

    def remove(self, lows: I64, highs: I64) -> None:
        """No longer count intervals, which were added."""
        self._raise(lows, highs, -1)

    def _raise(self, lows: I64, highs: I64, sign: int) -> None:
        _, lows, highs = nonempty(lows, lows, highs)
        histogram.raise_levels(self._starts, self._steps, self._shares, lows, highs, sign)
        self._levels = None

    def around(self, values: I64) -> F64:
        """About how many intervals are around each value."""
        if self._levels is None:
            self._levels = np.maximum(np.cumsum(self._steps)[:-1] + self._shares, 0.0)
        return self._levels[np.searchsorted(self._starts, values, side="right") - 1]
