"""Sorts the pairs that were found by (row, position, slot)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Found, Triples

_FEW = 24  # words that are sorted by insertion
_DIGIT = 9  # bits
_DIGITS = 8  # of a word


@kernel
def _insert_each(words: I64, begin: int, end: int) -> None:
    for i in range(begin + 1, end):
        word, j = words[i], i
        while j > begin and words[j - 1] > word:
            words[j] = words[j - 1]
            j -= 1
        words[j] = word


@inlined
def _differing_digits(words: I64, begin: int, end: int, shifts: I64) -> int:
    """Write the shifts of the digits in which words differ; how many they are."""
    differing, n = 0, 0
    for i in range(begin, end):
        differing |= words[i] ^ words[begin]
    for shift in range(0, 64, _DIGIT):
        if differing >> shift & ((1 << _DIGIT) - 1):
            shifts[n] = shift
            n += 1
    return n


@kernel
def _sort_digits(words: I64, begin: int, end: int, spare: I64, counts: I64, shifts: I64) -> None:
    """Sort words (not negative) by the digits in which they differ, the last digit first.

    All digits are counted at once. Words go to `spare` and back, once for each digit.
    """
    digits, mask = _differing_digits(words, begin, end, shifts), np.uint64((1 << _DIGIT) - 1)
    for d in range(digits):
        for value in range(1 << _DIGIT):
            counts[d, value] = 0
    for i in range(begin, end):
        for d in range(digits):
            counts[d, np.uint64(words[i]) >> np.uint64(shifts[d]) & mask] += 1
    source, first, target, other = words, begin, spare, 0
    for d in range(digits):
        shift, place = np.uint64(shifts[d]), other
        for value in range(1 << _DIGIT):
            count = counts[d, value]
            counts[d, value] = place
            place += count
        for i in range(first, first + end - begin):
            digit = np.uint64(source[i]) >> shift & mask
            target[counts[d, digit]] = source[i]
            counts[d, digit] += 1
        source, first, target, other = target, other, source, first
    for i in range(end - begin if digits % 2 else 0):
        words[begin + i] = spare[i]


@kernel
def sort_words(words: I64, starts: I64) -> None:
    """Sort each piece at [starts[i], starts[i + 1]); the words are not negative."""
    most = 0
    for i in range(starts.shape[0] - 1):
        most = max(most, starts[i + 1] - starts[i])
    spare, shifts = np.empty(most, np.int64), np.empty(_DIGITS, np.int64)
    counts = np.empty((_DIGITS, 1 << _DIGIT), np.int64)
    for i in range(starts.shape[0] - 1):
        if starts[i + 1] - starts[i] <= _FEW:
            _insert_each(words, starts[i], starts[i + 1])
        else:
            _sort_digits(words, starts[i], starts[i + 1], spare, counts, shifts)


@kernel
def order_triples(found: Found, order: I64, floor: int, bits: int) -> Triples:
    """The found triples in order; `order` has the rows in the order in which they were probed."""
    words, starts, n = found.words, found.starts, order.shape[0]
    sort_words(words, starts)
    ends = np.zeros(n + 1, np.int64)
    for i in range(n):
        ends[order[i] + 1] = starts[i + 1] - starts[i]
    for i in range(n):
        ends[i + 1] += ends[i]
    rows = np.empty(ends[n], np.int64)
    positions, slots = np.empty(ends[n], np.int64), np.empty(ends[n], np.int64)
    mask = (1 << bits) - 1
    for i in range(n):
        out = ends[order[i]]
        for k in range(starts[i], starts[i + 1]):
            rows[out] = order[i]
            positions[out] = floor + (words[k] >> bits)
            slots[out] = words[k] & mask
            out += 1
    return Triples(rows, positions, slots)


@kernel
def join_found(one: Found, other: Found) -> Found:
    """Join what two strategies found for the same rows in the same order."""
    n = one.starts.shape[0] - 1
    starts = one.starts + other.starts
    words = np.empty(starts[n], np.int64)
    for i in range(n):
        out = starts[i]
        for part in (one, other):
            for k in range(part.starts[i], part.starts[i + 1]):
                words[out] = part.words[k]
                out += 1
    return Found(words, starts)
