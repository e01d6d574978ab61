"""Prepares a chunk of rows for a bit-sliced scan: rows sorted by attribute, and bitmaps.

`prefixes[a, i]` is the set of rows with a value of attribute `a` below its distinct value number
``i << stride[a]``. The place of a constant among the distinct values then gives the rows on one
side of it as one bitmap, or as a bitmap minus a few rows. CACQ §3.2.6 does the converse: it sorts
the constants and looks up the row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.jit import inlined, kernel

MOST_PREFIXES = 256  # per attribute, so that their bitmaps stay in a second-level cache
_GROUPS = 2048
_DIGIT = 11


class Ranked(NamedTuple):
    """The arrays of a chunk; the first axis is the attribute."""

    size: I64  # (1,) number of rows in the chunk
    order: I32  # rows by value
    distinct: I64  # distinct values, ascending
    first: I32  # the start of each distinct value in `order`, and the end
    many: I64  # number of distinct values
    stride: I64  # 2 ** stride distinct values lie between neighbouring prefixes
    prefixes: U64
    groups: I32  # first distinct value of each group with equal high bits, and the end
    shift: I64  # number of low bits that groups ignore


def ranked(attributes: int, rows: int) -> Ranked:
    """Allocate room for chunks of up to `rows` rows (a multiple of 64)."""
    return Ranked(
        np.zeros(1, np.int64),
        np.empty((attributes, rows), np.int32),
        np.empty((attributes, rows), np.int64),
        np.empty((attributes, rows + 1), np.int32),
        np.zeros(attributes, np.int64),
        np.zeros(attributes, np.int64),
        np.empty((attributes, MOST_PREFIXES, rows // 64), np.uint64),
        np.empty((attributes, _GROUPS + 1), np.int32),
        np.zeros(attributes, np.int64),
    )


@inlined
def _bits_of(word: np.uint64) -> int:
    """The number of bits of `word`."""
    bits = 0
    while word:
        word = word >> np.uint64(1)
        bits += 1
    return bits


@kernel
def _sort_rows(values: I64, order: I32) -> None:
    """Fill `order` with the rows by value, equal values in row order (radix sort)."""
    n = values.shape[0]
    least = np.uint64(values.min())
    bits = _bits_of(np.uint64(values.max()) - least)
    digit = _DIGIT if n > 512 else 8
    mask = np.uint64((1 << digit) - 1)
    starts = np.empty(1 << digit, np.int32)
    source, target = np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(n):
        source[i] = i
    for low in range(0, bits, digit):
        shift = np.uint64(low)
        starts[:] = 0
        for i in range(n):
            starts[((np.uint64(values[i]) - least) >> shift) & mask] += 1
        total = 0
        for d in range(starts.shape[0]):
            starts[d], total = total, total + starts[d]
        for k in range(n):
            row = source[k]
            at = ((np.uint64(values[row]) - least) >> shift) & mask
            target[starts[at]] = row
            starts[at] += 1
        source, target = target, source
    order[:n] = source


@kernel
def _find_distinct(values: I64, order: I32, distinct: I64, first: I32) -> int:
    """List the distinct values and their starts; return their number."""
    n = values.shape[0]
    count = 0
    for k in range(n):
        value = values[order[k]]
        if k == 0 or value != distinct[count - 1]:
            distinct[count], first[count] = value, k
            count += 1
    first[count] = n
    return count


@kernel
def _fill_prefixes(
    order: I32, first: I32, count: int, stride: int, words: int, prefixes: U64
) -> None:
    for w in range(words):
        prefixes[0, w] = 0
    for i in range(1, ((count - 1) >> stride) + 1):
        for w in range(words):
            prefixes[i, w] = prefixes[i - 1, w]
        for k in range(first[(i - 1) << stride], first[i << stride]):
            row = order[k]
            prefixes[i, row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@kernel
def _fill_groups(distinct: I64, count: int, groups: I32) -> int:
    """Fill the groups of distinct values; return the number of low bits they ignore."""
    least = np.uint64(distinct[0])
    span = np.uint64(distinct[count - 1]) - least
    shift = max(_bits_of(span) - _DIGIT, 0)
    j = 0
    for g in range((span >> np.uint64(shift)) + np.uint64(1)):
        while (np.uint64(distinct[j]) - least) >> np.uint64(shift) < np.uint64(g):
            j += 1
        groups[g] = j
        groups[g + 1] = count
    return shift


@kernel
def rank_rows(values: I64, rows: I64, chunk: Ranked) -> None:
    """Prepare the chunk of the given `rows` of `values` (one matrix row per attribute)."""
    n = rows.shape[0]
    chunk.size[0] = n
    here = np.empty(n, np.int64)
    for a in range(values.shape[0]):
        for i in range(n):
            here[i] = values[a, rows[i]]
        _sort_rows(here, chunk.order[a])
        count = _find_distinct(here, chunk.order[a], chunk.distinct[a], chunk.first[a])
        stride = _bits_of(np.uint64((count - 1) // MOST_PREFIXES))
        chunk.many[a], chunk.stride[a] = count, stride
        words = (n + 63) >> 6
        _fill_prefixes(chunk.order[a], chunk.first[a], count, stride, words, chunk.prefixes[a])
        chunk.shift[a] = _fill_groups(chunk.distinct[a], count, chunk.groups[a])


@kernel
def find_places(chunk: Ranked, a: int, constants: I64, after: bool, places: I32) -> None:
    """For each constant, the number of distinct values below it (`after`: or equal to it)."""
    count = chunk.many[a]
    least, most = chunk.distinct[a, 0], chunk.distinct[a, count - 1]
    shift = np.uint64(chunk.shift[a])
    groups, distinct = chunk.groups[a], chunk.distinct[a]
    for q in range(constants.shape[0]):
        constant = constants[q]
        inside = min(max(constant, least), most)  # avoids overflow in the difference below
        group = (np.uint64(inside) - np.uint64(least)) >> shift
        low = groups[group]
        while distinct[low] < inside:  # groups are small unless the values are very uneven
            low += 1
        equal = after and distinct[low] == constant
        places[q] = low + (constant > most or equal)
