"""Entries of rows in sorted runs, ordered by (key word, ordered value, position).

An entry is one index into three arrays. If the SteM has no key columns, `keys` is empty and entries
are ordered by (value, position). All positions of a run are before those of the next run.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.stem import hash_of_key, hash_of_row, lower_bound

_MOST = np.iinfo(np.int64).max
_DIGIT = 8  # bits of a word per pass of the sort


@kernel
def key_words(keys: I64) -> I64:
    """The key word of each matrix column; the matrix has a row per key column.

    The word of a single key column is its value, the word of several is a hash.
    """
    if keys.shape[0] == 1:
        return keys[0].copy()
    words = np.empty(keys.shape[1], np.int64)
    for i in range(words.shape[0]):
        words[i] = hash_of_key(keys, i)
    return words


@kernel
def take_entries(
    rows: I64, start: int, key: I64, value: int, is_float: bool, nan: bool,
    keys: I64, values: I64, positions: I64,
) -> int:  # fmt: skip
    """Write the entries of the logged rows from position `start` on; return their number.

    Rows with a NULL in a key column or in the value have no entry; without `nan`, neither have rows
    with NaN as value.
    """
    nulls, most, n = np.int64(1) << value, np.int64(_MOST), 0
    for c in range(key.shape[0]):
        nulls |= np.int64(1) << key[c]
    if is_float and not nan:
        most = np.float64(np.inf).view(np.int64)
    for i in range(rows.shape[0]):
        word = rows[i, 1 + value]
        if is_float and word < 0:
            word ^= _MOST
        if rows[i, 0] & nulls or word > most:
            continue
        if key.shape[0] == 1:
            keys[n] = rows[i, 1 + key[0]]
        elif key.shape[0]:
            keys[n] = hash_of_row(rows, i, key)
        values[n], positions[n] = word, start + i
        n += 1
    return n


@kernel
def _sort_by(words: I64, order: I32) -> I32:
    """Sort indices by their words (stable radix sort)."""
    n, digits = order.shape[0], 1 << _DIGIT
    own, other, places = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    differ, starts = np.int64(0), np.empty(digits, np.int64)
    for i in range(n):
        own[i] = words[order[i]] ^ np.int64(-_MOST - 1)  # negative words come before the others
        differ |= own[i] ^ own[0]
    for shift in range(0, 64, _DIGIT):
        if (differ >> shift) & (digits - 1) == 0:
            continue
        starts[:] = 0
        for i in range(n):
            starts[(own[i] >> shift) & (digits - 1)] += 1
        at = 0
        for d in range(digits):
            count, starts[d] = starts[d], at
            at += count
        for i in range(n):
            d = (own[i] >> shift) & (digits - 1)
            other[starts[d]], places[starts[d]] = own[i], order[i]
            starts[d] += 1
        own, other = other, own
        order, places = places, order
    return order


@kernel
def sort_entries(keys: I64, values: I64, positions: I64) -> None:
    """Sort entries that are in order of position."""
    order = _sort_by(values, np.arange(values.shape[0]).astype(np.int32))
    if keys.shape[0]:
        order = _sort_by(keys, order)
        keys[:] = keys[order]
    values[:] = values[order]
    positions[:] = positions[order]


@kernel
def merge_entries(
    keys: I64, values: I64, positions: I64, begin: int, middle: int, end: int
) -> None:
    """Merge two adjacent runs in place.

    The merge runs backwards with the second run copied aside, and stops at that run's least entry.
    It selects entries without a branch, because the branch would be unpredictable.
    """
    by = keys if keys.shape[0] else values
    b_by, b_values = by[middle:end].copy(), values[middle:end].copy()
    b_positions = positions[middle:end].copy()
    i, j, out = middle - 1, end - middle - 1, end - 1
    while i >= begin and j >= 0:
        key, value, position = by[i], values[i], positions[i]
        b_key, b_value, b_position = b_by[j], b_values[j], b_positions[j]
        first = int((key > b_key) | ((key == b_key) & (value > b_value)))
        by[out] = b_key ^ ((key ^ b_key) & -first)
        values[out] = b_value ^ ((value ^ b_value) & -first)
        positions[out] = b_position ^ ((position ^ b_position) & -first)
        i -= first
        j -= 1 - first
        out -= 1
    for k in range(j + 1):
        by[begin + k], values[begin + k] = b_by[k], b_values[k]
        positions[begin + k] = b_positions[k]


@kernel
def drop_entries(keys: I64, values: I64, positions: I64, offsets: I64, first: int) -> None:
    """Drop the entries at positions before `first`; run r is at [offsets[r], offsets[r + 1])."""
    by = keys if keys.shape[0] else values
    out, begin = 0, offsets[0]
    for r in range(offsets.shape[0] - 1):
        end = offsets[r + 1]
        for k in range(begin, end):
            key, value, position = by[k], values[k], positions[k]
            by[out], values[out], positions[out] = key, value, position
            out += int(position >= first)
        begin, offsets[r + 1] = end, out


@inlined
def _upper_bound(values: I64, begin: int, end: int, value: int) -> int:
    """The first index in [begin, end) with a greater value; the values are sorted."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def part_of_key(keys: I64, begin: int, end: int, key: int) -> tuple[int, int]:
    """The part of the run at [begin, end) with this key word; all of it if there is no key."""
    if not keys.shape[0]:
        return begin, end
    least = lower_bound(keys, begin, end, key)
    until, step = least, 1  # entries at [least, until) have the key; this part is mostly short
    while until + step <= end and keys[until + step - 1] == key:
        until += step
        step *= 2
    return least, _upper_bound(keys, until, min(until + step, end), key)


@kernel
def count_keys(words: I64, keys: I64, offsets: I64) -> I64:
    """The number of entries with each key word, in all runs."""
    counts = np.zeros(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        for r in range(offsets.shape[0] - 1):
            begin, end = part_of_key(keys, offsets[r], offsets[r + 1], words[i])
            counts[i] += end - begin
    return counts
