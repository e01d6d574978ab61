"""Histograms with any borders: `starts` are the first values of buckets, from the least integer.

A bucket ends before the next one starts, and the last one at the most integer. The level of a
bucket is the mean, over its values, of the number of intervals around a value (Agarwal et al. 2009,
§4.1): an interval raises the buckets inside of it by 1, by two entries of a list of differences,
and the two at its ends by the share of them that it covers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel

F64 = NDArray[np.float64]
_MOST = np.iinfo(np.int64).max


@inlined
def _bucket(starts: I64, value: int) -> int:
    return int(np.searchsorted(starts, value, side="right")) - 1


@inlined
def _last(starts: I64, bucket: int) -> int:
    """The last value of a bucket."""
    return starts[bucket + 1] - 1 if bucket + 1 < starts.shape[0] else _MOST


@inlined
def _width(low: int, high: int) -> float:
    """How many values [low, high] has."""
    return np.float64(np.uint64(high) - np.uint64(low)) + 1.0


@kernel
def count_values(starts: I64, counts: I64, values: I64, sign: int) -> None:
    """Add values to their buckets (`sign` 1) or take them out (−1)."""
    for value in values:
        counts[_bucket(starts, value)] += sign


@kernel
def widths(starts: I64) -> F64:
    """How many values each bucket has."""
    found = np.empty(starts.shape[0])
    for b in range(starts.shape[0]):
        found[b] = _width(starts[b], _last(starts, b))
    return found


@kernel
def count_between(starts: I64, counts: I64, lows: I64, highs: I64) -> F64:
    """About how many of the values are in each [low, high], if they are even inside of buckets."""
    found = np.zeros(lows.shape[0])
    before = np.cumsum(counts) - counts
    for i in range(lows.shape[0]):
        if lows[i] > highs[i]:
            continue
        first, last = _bucket(starts, lows[i]), _bucket(starts, highs[i])
        if first == last:
            whole = _width(starts[first], _last(starts, first))
            found[i] = counts[first] * _width(lows[i], highs[i]) / whole
            continue
        end = _last(starts, first)
        found[i] = before[last] - before[first] - counts[first]
        found[i] += counts[first] * _width(lows[i], end) / _width(starts[first], end)
        whole = _width(starts[last], _last(starts, last))
        found[i] += counts[last] * _width(starts[last], highs[i]) / whole
    return found


@kernel
def raise_levels(
    starts: I64, steps: I64, shares: F64, lows: I64, highs: I64, sign: int
) -> None:  # fmt: skip
    """Raise (`sign` 1) or lower (−1) the levels by intervals [low, high], which are not empty.

    The level of bucket b is the sum of ``steps[: b + 1]`` plus ``shares[b]``; there is one step
    more than buckets.
    """
    for i in range(lows.shape[0]):
        first, last = _bucket(starts, lows[i]), _bucket(starts, highs[i])
        begin, end = starts[first], _last(starts, last)
        if lows[i] > begin:
            until = min(highs[i], _last(starts, first))
            share = _width(lows[i], until) / _width(begin, _last(starts, first))
            shares[first] += sign * share
            first += 1
        if highs[i] < end and last >= first:
            shares[last] += sign * _width(starts[last], highs[i]) / _width(starts[last], end)
            last -= 1
        if first <= last:
            steps[first] += sign
            steps[last + 1] -= sign


@kernel
def cut_groups(offsets: I64, lows: I64, highs: I64, cuts: I64) -> I64:
    """Borders that cut the ends of each group's intervals into ``cuts[g]`` parts of equal number.

    Intervals lie group by group, in order of low ends. From the first low end of a group to the
    point that all contain, the number of its intervals around a value only rises, and after it only
    falls. So each part is a step of equal height.
    """
    found = np.empty(2 * cuts.sum(), np.int64)
    end = 0
    for g in range(cuts.shape[0]):
        start, size = offsets[g], offsets[g + 1] - offsets[g]
        if not cuts[g]:
            continue
        ordered = np.sort(highs[start : start + size])
        for part in range(cuts[g]):
            found[end] = lows[start + part * size // cuts[g]]
            end += 1
            last = ordered[(part + 1) * size // cuts[g] - 1]
            if last < _MOST:
                found[end] = last + 1
                end += 1
    return found[:end].copy()
