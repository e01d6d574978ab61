"""Searches sorted runs of partners, and tests partners that were found.

Along the entries of one key in a run, the gap never decreases, with one exception: −∞ minus −∞ and
+∞ minus +∞ are NaN. So for float bands these entries are cut at infinities and NaNs into
*stretches*, and each search is within one stretch.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Partner, Probes, Queries

INFINITE = int(np.float64(np.inf).view(np.int64))
_MINUS_INFINITE = int(np.float64(-np.inf).view(np.int64)) ^ MOST
STRETCHES = 4
"""The largest number of stretches of a run: −∞, finite values, +∞, NaN."""


# ---- gaps ----------------------------------------------------------------------------
@inlined
def as_float(word: int) -> float:
    """The float with this ordered word."""
    return float(np.int64(word ^ MOST if word < 0 else word).view(np.float64))


@inlined
def ordered_word(value: float, undefined: int) -> int:
    """The ordered word of a float; `undefined` for NaN."""
    if np.isnan(value):
        return undefined
    word = int(np.float64(value + 0.0).view(np.int64))
    return word ^ MOST if word < 0 else word


@inlined
def gap_of(value: int, shift: int, is_float: bool, undefined: int) -> int:
    """The word of value − shift: rounded for floats, limited to int64 for integers."""
    if is_float:
        return ordered_word(as_float(value) - as_float(shift), undefined)
    gap = value - shift
    if (value ^ shift) & (value ^ gap) < 0:
        return MOST if value >= 0 else LEAST
    return gap


@inlined
def first_above(values: I64, begin: int, end: int, bound: int) -> int:
    """The first index in [begin, end) with a greater value; the values are sorted."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def first_gap_above(
    values: I64, begin: int, end: int, bound: int, shift: int, is_float: bool, undefined: int
) -> int:
    """The first place of a stretch at [begin, end) with a gap greater than `bound`."""
    if is_float:
        while begin < end:
            middle = (begin + end) >> 1
            if gap_of(values[middle], shift, is_float, undefined) <= bound:
                begin = middle + 1
            else:
                end = middle
        return begin
    sum_ = bound + shift
    if (sum_ ^ bound) & (sum_ ^ shift) < 0:
        return end if bound >= 0 else begin
    return end if bound == MOST else first_above(values, begin, end, sum_)


@inlined
def first_gap_from(
    values: I64, begin: int, end: int, bound: int, shift: int, is_float: bool, undefined: int
) -> int:
    """The first place of a stretch at [begin, end) with a gap of `bound` or more."""
    if bound == LEAST:
        return begin
    return first_gap_above(values, begin, end, bound - 1, shift, is_float, undefined)


# ---- stretches -----------------------------------------------------------------------
@inlined
def _append(stretches: I64, n: int, begin: int, end: int) -> int:
    if begin < end:
        stretches[n, 0], stretches[n, 1] = begin, end
        n += 1
    return n


@kernel
def _cut(values: I64, begin: int, end: int, stretches: I64, n: int) -> int:
    """Append [begin, end) as stretches, cut at infinities and NaNs."""
    for most in (_MINUS_INFINITE, INFINITE - 1, INFINITE, MOST):
        until = first_above(values, begin, end, most)
        n = _append(stretches, n, begin, until)
        begin = until
    return n


@kernel
def find_stretches(entries: Entries, key: int, is_float: bool, stretches: I64) -> int:
    """Write the stretches of the entries with a key in all runs; return their number.

    Without keys, all entries of the runs count. `stretches` has room for `STRETCHES` of each run.
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


# ---- tests ---------------------------------------------------------------------------
@inlined
def is_skipped(probes: Probes, row: int) -> bool:
    """Whether a probing row is marked as having no partners."""
    return bool(probes.skip.shape[0] and probes.skip[row])


@inlined
def shift_of(probes: Probes, row: int) -> int:
    """The number that is subtracted from the values of partners."""
    return probes.shifts[row] if probes.shifts.shape[0] else 0


@inlined
def key_of(probes: Probes, row: int) -> int:
    """The key of a row, 0 if the join has none."""
    return probes.keys[row] if probes.keys.shape[0] else 0


@inlined
def is_band_of_floats(probes: Probes) -> bool:
    """Whether gaps are differences of floats."""
    return probes.is_float and probes.shifts.shape[0] > 0


@inlined
def own_holds(probes: Probes, queries: Queries, row: int, slot: int) -> bool:
    """Whether a row satisfies a query's conditions on the probing row."""
    own, lows, highs = probes.own, queries.own_low, queries.own_high
    for c in range(lows.shape[0]):
        if own[c, row] < lows[c, slot] or own[c, row] > highs[c, slot]:
            return False
    return True


@inlined
def are_tested(queries: Queries) -> bool:
    """Whether partners within a query's interval need further tests."""
    rest, lengths, since = queries.rest_columns, queries.lengths, queries.since
    return bool(rest.shape[0] + lengths.shape[0] + since.shape[0])


@inlined
def is_partner(
    probes: Probes, partner: Partner, queries: Queries, row: int, position: int, slot: int
) -> bool:
    """Whether a partner within the interval is in the query's window and meets its conditions."""
    at = position - partner.base
    if queries.lengths.shape[0]:
        if probes.instants[row] - partner.ts[at] >= queries.lengths[slot]:
            return False
    if queries.since.shape[0]:
        if min(probes.epochs[row], partner.epoch[at]) < queries.since[slot]:
            return False
    for c in range(queries.rest_columns.shape[0]):
        column = queries.rest_columns[c]
        if partner.rows[at, 0] >> column & 1:
            return False
        word = partner.rows[at, 1 + column]
        if queries.rest_float[c] and word < 0:
            word ^= MOST
        if word < queries.rest_low[c, slot] or word > queries.rest_high[c, slot]:
            return False
    return True


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
    probes: Probes, entries: Entries, partner: Partner, queries: Queries, row: int, slot: int,
    stretches: I64, count: int, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Search a query's interval in each stretch, and append its partners of a row."""
    values, positions, floor = entries.values, entries.positions, probes.floor
    limit, shift, undefined = probes.limits[row], shift_of(probes, row), probes.undefined
    is_float, tested = is_band_of_floats(probes), are_tested(queries)
    low, high = queries.low[slot], queries.high[slot]
    for s in range(count):
        begin, end = stretches[s, 0], stretches[s, 1]
        begin = first_gap_from(values, begin, end, low, shift, is_float, undefined)
        for k in range(begin, end):
            if gap_of(values[k], shift, is_float, undefined) > high:
                break
            position = positions[k]
            if position < floor or position >= limit:
                continue
            if tested and not is_partner(probes, partner, queries, row, position, slot):
                continue
            if n == words.shape[0]:
                words = grown(words, n + 1)
            words[n] = (position - floor) << bits | slot
            n += 1
    return words, n
