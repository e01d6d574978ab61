"""Kernels of the grouped filter of one value: each region of values has a row of query bits.

`starts` has the first value of each region, ascending from the least integer. `places` has the row
of each region in a matrix of bitmaps; its last element is the row of NULL.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.jit import inlined, kernel

_MOST = np.iinfo(np.int64).max


@inlined
def _region(starts: I64, value: int) -> int:
    """The region of a value."""
    low, size = 0, starts.shape[0]
    while size > 1:
        half = size >> 1
        low += half * (starts[low + half] <= value)
        size -= half
    return low


@kernel
def cut_regions(
    starts: I64, places: I32, lows: I64, highs: I64, row: int
) -> tuple[I64, I32, I32]:  # fmt: skip
    """Cut regions so that every interval consists of whole regions.

    Returns starts and places, and the rows that new regions copy; new regions have the rows from
    `row` on.
    """
    edges = np.sort(np.concatenate((lows, highs[highs < _MOST] + 1)))
    regions, most = starts.shape[0], starts.shape[0] + edges.shape[0]
    new_starts, new_places = np.empty(most, np.int64), np.empty(most + 1, np.int32)
    copied = np.empty(edges.shape[0], np.int32)
    end = new = r = 0
    for e in range(edges.shape[0] + 1):
        while r < regions and (e == edges.shape[0] or starts[r] <= edges[e]):
            new_starts[end], new_places[end] = starts[r], places[r]
            r, end = r + 1, end + 1
        if e < edges.shape[0] and new_starts[end - 1] != edges[e]:
            copied[new] = places[r - 1]
            new_starts[end], new_places[end] = edges[e], row + new
            new, end = new + 1, end + 1
    new_places[end] = places[regions]
    return new_starts[:end].copy(), new_places[: end + 1].copy(), copied[:new].copy()


@kernel
def paint(
    starts: I64, places: I32, matrix: U64, bits: I64, offsets: I64, lows: I64, highs: I64,
    null: Bool, narrow: bool,
) -> None:  # fmt: skip
    """Set column ``bits[i]`` in the regions of the intervals of i, which must all be region starts.

    If `narrow`, only clear the column in all other regions; otherwise only set it. Bits ascend.
    Each word of the matrix is visited once unless a bit occurs twice.
    """
    regions = starts.shape[0]
    turns = np.zeros(regions + 1, np.uint64)  # where a run of ones begins or ends
    i = 0
    while i < bits.shape[0]:
        word = bits[i] >> 6
        mask, at_null = np.uint64(0), np.uint64(0)
        while i < bits.shape[0] and bits[i] >> 6 == word:
            bit = np.uint64(1) << np.uint64(bits[i] & 63)
            if mask & bit:
                break
            mask |= bit
            if null[i]:
                at_null |= bit
            for j in range(offsets[i], offsets[i + 1]):
                turns[_region(starts, lows[j])] ^= bit
                last = _region(starts, highs[j])
                turns[last + 1] ^= bit
            i += 1
        inside = np.uint64(0)
        for r in range(regions + 1):
            inside = inside ^ turns[r] if r < regions else at_null
            turns[r] = np.uint64(0)
            if narrow:
                matrix[places[r], word] &= inside | ~mask
            else:
                matrix[places[r], word] |= inside


@kernel
def find_places(values: I64, null: Bool, starts: I64, places: I32, direct: I32) -> I32:
    """The place of each value's region.

    `direct`, if not empty, has the place of each value from the end of region 0 on.
    """
    found = np.empty(values.shape[0], np.int32)
    if direct.shape[0]:
        least, most = starts[1] - 1, starts[-1]
        for i in range(values.shape[0]):
            found[i] = direct[min(max(values[i], least), most) - least]
    else:
        for i in range(values.shape[0]):
            found[i] = places[_region(starts, values[i])]
    if null.shape[0]:
        for i in range(values.shape[0]):
            if null[i]:
                found[i] = places[-1]
    return found


@kernel
def keep_bits(found: I32, rows: I64, matrix: U64, first: int, last: int, bits: U64) -> None:
    """AND the words [first, last) of each row's bitmap with the bitmap of its place."""
    for i in range(rows.shape[0]):
        row, place = rows[i], found[i]
        for w in range(first, last):
            bits[row, w] &= matrix[place, w]


@kernel
def add_bits(found: I32, rows: I64, matrix: U64, bits: U64) -> None:
    """OR each row's bitmap with the bitmap of its place."""
    words = min(matrix.shape[1], bits.shape[1])
    for i in range(rows.shape[0]):
        row, place = rows[i], found[i]
        for w in range(words):
            bits[row, w] |= matrix[place, w]
