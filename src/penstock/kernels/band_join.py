"""Finds the partners of window-join events by the order of a column, or takes the whole window.

A row looks up the values within its band in sorted runs: the runs of the other side's SteM, and
blocks of *fresh* rows that arrive in this step. A block covers about one window, so that an event
of a long batch tests few rows outside its window. Partners are in the order of the changelog,
newest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.join import I32, partner_range
from penstock.kernels.stem import lower_bound
from penstock.kernels.window_join import twice
from penstock.kernels.window_timeline import Events

U8 = NDArray[np.uint8]

_FEW = 24  # up to this many partners, insertion sort is used
_DENSE = 16  # rows of the window per partner below which marking is faster than sorting
_MOST = np.iinfo(np.int64).max
_ROUNDING = 8 * np.finfo(np.float64).eps


class Bounds(NamedTuple):
    """The band from the view of one side: right − left must be within it."""

    is_left: bool
    is_float: bool
    low: int
    high: int
    low_float: float
    high_float: float


class Sorted(NamedTuple):
    """Rows of a log sorted by a column; place i is position `base` + i.

    Runs of the SteM hold positions in [born[r], born[r + 1]). Block b of the fresh rows starts at
    place start + b·size. NULLs and NaNs are in neither.
    """

    base: int
    start: int
    values: I64
    positions: I64
    offsets: I64
    born: I64
    fresh: I64
    places: I64
    blocks: I64
    size: int


@inlined
def _as_float(word: int) -> float:
    """The float with this ordered word."""
    return float(np.int64(word ^ _MOST if word < 0 else word).view(np.float64))


@inlined
def _ordered(value: float) -> int:
    word = int(np.float64(value + 0.0).view(np.int64))
    return word ^ _MOST if word < 0 else word


@kernel
def _float_range(value: float, bounds: Bounds) -> tuple[int, int]:
    """A range of ordered words that contains all partners of a float, and few others."""
    if np.isnan(value):
        return 1, 0
    low, high = bounds.low_float, bounds.high_float
    if not bounds.is_left:
        low, high = -high, -low
    least = value + low - _ROUNDING * (abs(value) + abs(low)) - 1e-300
    most = value + high + _ROUNDING * (abs(value) + abs(high)) + 1e-300
    # sums with infinities say nothing: test all rows
    return (
        _ordered(-np.inf if np.isnan(least) else least),
        _ordered(np.inf if np.isnan(most) else most),
    )


@inlined
def _holds(word: int, own: float, bounds: Bounds) -> bool:
    """Whether the difference to the partner is within the float band."""
    gap = _as_float(word) - own
    return bounds.low_float <= (gap if bounds.is_left else -gap) <= bounds.high_float


@kernel
def _scan(
    values: I64, places: I64, begin: int, end: int, shift: int, span: tuple[int, int],
    ends: tuple[int, int], own: float, bounds: Bounds, out: I32, n: int,
) -> int:  # fmt: skip
    """Append the rows of a run with values in `ends` and places in `span`.

    Returns the new n, or −1 if `out` is full.
    """
    low, high = ends
    first, until = span
    room = out.shape[0]
    for k in range(lower_bound(values, begin, end, low), end):
        if values[k] > high:
            break
        place = places[k] - shift
        if place < first or place >= until:
            continue
        if bounds.is_float and not _holds(values[k], own, bounds):
            continue
        if n == room:
            return -1
        out[n] = place
        n += 1
    return n


@kernel
def _search(
    runs: Sorted, first: int, until: int, ends: tuple[int, int], own: float, bounds: Bounds,
    out: I32, n: int,
) -> int:  # fmt: skip
    """Append all partners of an event at places in [first, until).

    Returns the new n, or −1 if `out` is full.
    """
    base, start, span = runs.base, runs.start, (first, until)
    if until > start:
        values, places, blocks, size = runs.fresh, runs.places, runs.blocks, runs.size
        for b in range((max(first, start) - start) // size, (until - 1 - start) // size + 1):
            run = blocks[b], blocks[b + 1]
            n = _scan(values, places, *run, 0, span, ends, own, bounds, out, n)
            if n < 0:
                return n
    if first >= start:
        return n
    values, positions, offsets, born = runs.values, runs.positions, runs.offsets, runs.born
    span = (first, min(until, start))
    for r in range(offsets.shape[0] - 1):
        if born[r + 1] - base <= first or born[r] - base >= span[1]:
            continue
        run = offsets[r], offsets[r + 1]
        n = _scan(values, positions, *run, base, span, ends, own, bounds, out, n)
        if n < 0:
            return n
    return n


@kernel
def _insert_each(found: I32) -> None:
    for i in range(1, found.shape[0]):
        place, j = found[i], i
        while j > 0 and found[j - 1] < place:
            found[j] = found[j - 1]
            j -= 1
        found[j] = place


@kernel
def _newest_first(found: I32, first: int, until: int, marks: U8) -> None:
    """Sort places in [first, until), newest first; `marks` must be 0 and are 0 afterwards."""
    k, window = found.shape[0], until - first
    if k <= _FEW:
        _insert_each(found)
        return
    if _DENSE * k <= window:
        found.sort()
        found[:] = found[::-1].copy()
        return
    for i in range(k):
        marks[until - 1 - found[i]] = 1
    n, i = 0, 0
    while n < k:  # no branch: it would be unpredictable
        found[n] = until - 1 - i
        n += marks[i]
        marks[i] = 0
        i += 1


@kernel
def find_in_band(
    events: Events, rows: I64, column: int, bounds: Bounds, other: Sorted
) -> tuple[I64, I32]:
    """The number of partners within the band of each event of a side, and all their places."""
    row_of, firsts, untils = events.row, events.first, events.until
    m, widest = row_of.shape[0], 0
    for e in range(m):
        widest = max(widest, untils[e] - firsts[e])
    marks = np.zeros(widest, np.uint8)
    counts, out, n = np.empty(m, np.int64), np.empty(4 * m + 64, np.int32), 0
    for e in range(m):
        first, until, before = int(firsts[e]), int(untils[e]), n
        word = rows[row_of[e], 1 + column]
        own = float(np.int64(word).view(np.float64))
        if bounds.is_float:
            ends = _float_range(own, bounds)
        else:
            ends = partner_range(word, bounds.low, bounds.high, bounds.is_left)
        n = _search(other, first, until, ends, own, bounds, out, before)
        while n < 0:
            out = twice(out)
            n = _search(other, first, until, ends, own, bounds, out, before)
        if n > before + 1:
            _newest_first(out[before:n], first, until, marks)
        counts[e] = n - before
    return counts, out[:n]


@kernel
def find_all(events: Events) -> tuple[I64, I32]:
    """The number of rows in the other window at each event, and their places, newest first."""
    firsts, untils = events.first, events.until
    counts = np.empty(firsts.shape[0], np.int64)
    for e in range(counts.shape[0]):
        counts[e] = max(0, untils[e] - firsts[e])
    out, n = np.empty(counts.sum(), np.int32), 0
    for e in range(counts.shape[0]):
        for i in range(counts[e]):
            out[n + i] = untils[e] - 1 - i
        n += counts[e]
    return counts, out
