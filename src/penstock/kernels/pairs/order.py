"""Sorts the pairs that were found by (row, position, slot)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Found, Triples

_FEW = 24  # words that are sorted by insertion
_MANY = 800  # words that are sorted by large digits
_DIGIT, _LARGE_DIGIT = 8, 11  # bits


@kernel
def _insert_each(words: I64, begin: int, end: int) -> None:
    for i in range(begin + 1, end):
        word, j = words[i], i
        while j > begin and words[j - 1] > word:
            words[j] = words[j - 1]
            j -= 1
        words[j] = word


@kernel
def _sort_digits(words: I64, begin: int, end: int, spare: I64, counts: I64) -> None:
    """Sort words (not negative) by the digits in which they differ, the last digit first."""
    differing = 0
    for i in range(begin, end):
        differing |= words[i] ^ words[begin]
    bits = _DIGIT if end - begin < _MANY else _LARGE_DIGIT
    mask, shift = (1 << bits) - 1, 0
    while differing >> shift:
        if differing >> shift & mask:
            counts[: mask + 1] = 0
            for i in range(begin, end):
                counts[words[i] >> shift & mask] += 1
            total = 0
            for d in range(mask + 1):
                count = counts[d]
                counts[d] = total
                total += count
            for i in range(begin, end):
                digit = words[i] >> shift & mask
                spare[counts[digit]] = words[i]
                counts[digit] += 1
            for i in range(begin, end):
                words[i] = spare[i - begin]
        shift += bits


@kernel
def sort_words(words: I64, starts: I64) -> None:
    """Sort each piece at [starts[i], starts[i + 1]); the words are not negative."""
    most = 0
    for i in range(starts.shape[0] - 1):
        most = max(most, starts[i + 1] - starts[i])
    spare, counts = np.empty(most, np.int64), np.empty(1 << _LARGE_DIGIT, np.int64)
    for i in range(starts.shape[0] - 1):
        if starts[i + 1] - starts[i] <= _FEW:
            _insert_each(words, starts[i], starts[i + 1])
        else:
            _sort_digits(words, starts[i], starts[i + 1], spare, counts)


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
