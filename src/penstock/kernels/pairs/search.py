"""Searching sorted runs of partners, and testing partners that were found.

The gap never decreases along a run's part of one key, with one exception: −∞ less −∞ and +∞ less
+∞ are NaN. So parts of float bands are cut beside infinities and NaNs, and searches take place in
these *stretches*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import (
    FLOAT,
    GAP,
    LEAST,
    MOST,
    Entries,
    Partner,
    Probes,
    Queries,
)

INFINITE = int(np.float64(np.inf).view(np.int64))
_MINUS_INFINITE = int(np.float64(-np.inf).view(np.int64)) ^ MOST
STRETCHES = 4
"""The most stretches of a run: −∞, finite values, +∞, NaN."""


# ---- gaps ----------------------------------------------------------------------------
@inlined
def as_float(word: int) -> float:
    """The float that has this ordered word."""
    return float(np.int64(word ^ MOST if word < 0 else word).view(np.float64))


@inlined
def ordered_word(value: float, undefined: int) -> int:
    """The ordered word of a float, `undefined` for NaN."""
    if np.isnan(value):
        return undefined
    word = int(np.float64(value + 0.0).view(np.int64))
    return word ^ MOST if word < 0 else word


class View(NamedTuple):
    """The limits and the shift of a probing row, as plain numbers: loops then count no arrays.

    Numba counts references to each array of a tuple of arrays that a helper gets, at each call.
    """

    row: int
    key: int
    floor: int
    limit: int
    shift: int
    is_float: bool
    undefined: int


@inlined
def view_of(probes: Probes, row: int) -> View:
    """The view of a probing row; empty if the row is marked."""
    limit = probes.limits[row]
    if probes.skip.shape[0] and probes.skip[row]:
        limit = LEAST
    shift = probes.shifts[row] if probes.shifts.shape[0] else 0
    is_float = probes.is_float and probes.shifts.shape[0] > 0
    key = probes.keys[row] if probes.keys.shape[0] else 0
    return View(row, key, probes.floor, limit, shift, is_float, probes.undefined)


@inlined
def sees(view: View, position: int) -> bool:
    """Whether the row sees a partner."""
    return view.floor <= position < view.limit


@inlined
def gap_between(value: int, shift: int, is_float: bool, undefined: int) -> int:
    """The word of value − shift, rounded for floats, and limited to int64 for integers."""
    if is_float:
        return ordered_word(as_float(value) - as_float(shift), undefined)
    gap = value - shift
    if (value ^ shift) & (value ^ gap) < 0:
        return MOST if value >= 0 else LEAST
    return gap


@inlined
def gap_of(value: int, view: View) -> int:
    """The gap of a value on the axis."""
    return gap_between(value, view.shift, view.is_float, view.undefined)


@inlined
def first_above(values: I64, begin: int, end: int, bound: int) -> int:
    """The first of the sorted values at [begin, end) that is greater."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def first_gap_above(values: I64, begin: int, end: int, bound: int, view: View) -> int:
    """The first place of a stretch at [begin, end) that has a gap greater than `bound`."""
    if view.is_float:
        while begin < end:
            middle = (begin + end) >> 1
            if gap_of(values[middle], view) <= bound:
                begin = middle + 1
            else:
                end = middle
        return begin
    if bound == MOST:
        return end
    value = bound + view.shift
    if (value ^ bound) & (value ^ view.shift) < 0:
        return end if bound >= 0 else begin
    return first_above(values, begin, end, value)


@inlined
def first_gap_from(values: I64, begin: int, end: int, bound: int, view: View) -> int:
    """The first place of a stretch at [begin, end) that has a gap of `bound` or greater."""
    return begin if bound == LEAST else first_gap_above(values, begin, end, bound - 1, view)


@kernel
def gaps_between(values: I64, shifts: I64, is_float: bool, undefined: int) -> I64:
    """The gaps between each value and each shift."""
    gaps = np.empty(values.shape[0] * shifts.shape[0], np.int64)
    for i in range(values.shape[0]):
        for j in range(shifts.shape[0]):
            gap = gap_between(values[i], shifts[j], is_float, undefined)
            gaps[i * shifts.shape[0] + j] = gap
    return gaps


# ---- stretches -----------------------------------------------------------------------
@inlined
def _append(stretches: I64, n: int, begin: int, end: int) -> int:
    if begin < end:
        stretches[n, 0], stretches[n, 1] = begin, end
        n += 1
    return n


@kernel
def _cut(values: I64, begin: int, end: int, stretches: I64, n: int) -> int:
    """Append [begin, end) as stretches, cut beside infinities and NaNs."""
    for most in (_MINUS_INFINITE, INFINITE - 1, INFINITE, MOST):
        until = first_above(values, begin, end, most)
        n = _append(stretches, n, begin, until)
        begin = until
    return n


@kernel
def find_stretches(entries: Entries, key: int, is_float: bool, stretches: I64) -> int:
    """Write the stretches of the runs' parts with a key (without keys: of the runs); their number.

    `stretches` has room for `STRETCHES` of each run.
    """
    keys, values, offsets, n = entries.keys, entries.values, entries.offsets, 0
    for r in range(offsets.shape[0] - 1):
        begin, end = offsets[r], offsets[r + 1]
        if keys.shape[0]:
            begin = begin if key == LEAST else first_above(keys, begin, end, key - 1)
            end = first_above(keys, begin, end, key)
        if begin == end:
            continue
        if is_float and (values[begin] <= _MINUS_INFINITE or values[end - 1] >= INFINITE):
            n = _cut(values, begin, end, stretches, n)
        else:
            n = _append(stretches, n, begin, end)
    return n


class Parts(NamedTuple):
    """The stretches of the key that was looked up last."""

    stretches: I64  # [stretch, begin and end]
    books: I64  # the key, how many stretches it has, and whether the row before had the same


@kernel
def new_parts(entries: Entries) -> Parts:
    """Room for the stretches of any key."""
    stretches = np.empty((STRETCHES * (entries.offsets.shape[0] - 1), 2), np.int64)
    return Parts(stretches, np.array([0, -1, 0]))


@inlined
def find_parts(entries: Entries, view: View, parts: Parts) -> int:
    """Find the stretches in which a row's partners are; their number."""
    if view.limit <= view.floor:
        return 0
    books = parts.books
    books[2] = books[0] == view.key and books[1] >= 0
    if not books[2]:
        books[0] = view.key
        books[1] = find_stretches(entries, view.key, view.is_float, parts.stretches)
    return books[1]


# ---- tests ---------------------------------------------------------------------------
@inlined
def own_holds(own: I64, lows: I64, highs: I64, row: int, slot: int) -> bool:
    """Whether a row satisfies a query's conditions on the probing row."""
    for c in range(own.shape[0]):
        if own[c, row] < lows[c, slot] or own[c, row] > highs[c, slot]:
            return False
    return True


@inlined
def _keep_young(
    words: I64, begin: int, end: int, bits: int, base: int, instant: int, ts: I64, lengths: I64
) -> int:
    """Keep the pairs with a partner in the window of the query; the new end."""
    n = begin
    for i in range(begin, end):
        words[n] = words[i]
        n += instant - ts[base + (words[i] >> bits)] < lengths[words[i] & ((1 << bits) - 1)]
    return n


@inlined
def _keep_seen(
    words: I64, begin: int, end: int, bits: int, base: int, own: int, epochs: I64, since: I64
) -> int:
    """Keep the pairs of rows that the query sees; the new end."""
    n = begin
    for i in range(begin, end):
        epoch = min(own, epochs[base + (words[i] >> bits)])
        words[n] = words[i]
        n += epoch >= since[words[i] & ((1 << bits) - 1)]
    return n


@inlined
def _keep_between(
    words: I64, begin: int, end: int, bits: int, base: int, rows: I64, column: int,
    is_float: bool, is_gap: bool, shift: int, undefined: int, lows: I64, highs: I64,
) -> int:  # fmt: skip
    """Keep the pairs with a partner that meets a rest condition of the query; the new end."""
    n = begin
    for i in range(begin, end):
        at, slot = base + (words[i] >> bits), words[i] & ((1 << bits) - 1)
        value = rows[at, 1 + column]
        if is_float and value < 0:
            value ^= MOST
        if is_gap:
            value = gap_between(value, shift, is_float, undefined)
        there = rows[at, 0] >> column & 1 == 0
        words[n] = words[i]
        n += there and lows[slot] <= value <= highs[slot]
    return n


@kernel
def keep_partners(
    words: I64, begin: int, end: int, row: int, bits: int,
    probes: Probes, partner: Partner, queries: Queries,
) -> int:  # fmt: skip
    """Drop what fails rest conditions, lengths and epochs of the pairs of a row; the new end.

    The strategies find pairs by interval and own conditions alone. Their pairs of one row at a
    time pass through here, so that no more than these are held in memory. Loops get arrays, not
    tuples of arrays, of which numba would count the references for every pair.
    """
    base = probes.floor - partner.base
    if queries.lengths.shape[0]:
        instant = probes.instants[row]
        end = _keep_young(words, begin, end, bits, base, instant, partner.ts, queries.lengths)
    if queries.since.shape[0]:
        own = probes.epochs[row]
        end = _keep_seen(words, begin, end, bits, base, own, partner.epoch, queries.since)
    for c in range(queries.rest_columns.shape[0]):
        kind = queries.rest_kinds[c]
        is_gap = kind == GAP
        shift = probes.rest_shifts[row] if is_gap else 0
        end = _keep_between(
            words, begin, end, bits, base, partner.rows, queries.rest_columns[c],
            kind == FLOAT or (is_gap and probes.is_float), is_gap, shift, probes.undefined,
            queries.rest_low[c], queries.rest_high[c],
        )  # fmt: skip
    return end


# ---- output --------------------------------------------------------------------------
@kernel
def grown(words: I64, n: int) -> I64:
    """A copy with room for n words, and for twice as many as before."""
    new = np.empty(max(n, 2 * words.shape[0]), np.int64)
    for i in range(words.shape[0]):  # an assignment of slices takes seconds to compile
        new[i] = words[i]
    return new


@inlined
def append_between(
    low: int, high: int, slot: int, view: View, values: I64, positions: I64, stretches: I64,
    count: int, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a query's partners of a row: search its interval in each stretch."""
    for s in range(count):
        end = stretches[s, 1]
        for k in range(first_gap_from(values, stretches[s, 0], end, low, view), end):
            if gap_of(values[k], view) > high:
                break
            if sees(view, positions[k]):
                if n == words.shape[0]:
                    words = grown(words, n + 1)
                words[n] = (positions[k] - view.floor) << bits | slot
                n += 1
    return words, n
