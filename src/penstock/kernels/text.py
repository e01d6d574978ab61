"""Kernels on UTF-8 columns (offsets and bytes): cutting by characters and searching.

String i is data[offsets[i] : offsets[i + 1]]. A column of one string stands for all rows.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.strings import U8, copy_bytes, same_bytes


@kernel
def skip_chars(data: U8, start: int, end: int, count: int) -> int:
    """Byte position `count` characters after `start`, at most `end`."""
    at = start
    while count > 0 and at < end:
        at += 1
        while at < end and (data[at] & 0xC0) == 0x80:
            at += 1
        count -= 1
    return at


@kernel
def cut_chars(offsets: I64, data: U8, begin: I64, end: I64) -> I64:
    """Byte ranges (2 × n) of the characters begin ≤ c < end of each string."""
    n = begin.shape[0]
    step = offsets.shape[0] > 2
    out = np.empty((2, n), np.int64)
    for i in range(n):
        j = i if step else 0
        start = skip_chars(data, offsets[j], offsets[j + 1], begin[i])
        out[0, i] = start
        out[1, i] = skip_chars(data, start, offsets[j + 1], end[i] - begin[i])
    return out


@kernel
def copy_ranges(data: U8, ranges: I64, offsets: I64) -> U8:
    """The bytes of all ranges one after another; `offsets` are their running lengths."""
    out = np.empty(offsets[-1], np.uint8)
    for i in range(ranges.shape[1]):
        copy_bytes(data, ranges[0, i], out, offsets[i], ranges[1, i] - ranges[0, i])
    return out


@kernel
def find_text(offsets: I64, data: U8, part_offsets: I64, part: U8, where: int) -> I64:
    """Byte position of `part` in each string, −1 when absent.

    `where` is −1 (only at the start), 1 (only at the end) or 0 (first occurrence).
    """
    n = max(offsets.shape[0], part_offsets.shape[0]) - 1
    step, part_step = offsets.shape[0] > 2, part_offsets.shape[0] > 2
    out = np.full(n, -1, np.int64)
    for i in range(n):
        j, p = (i if step else 0), (i if part_step else 0)
        length = part_offsets[p + 1] - part_offsets[p]
        first, last = offsets[j], offsets[j + 1] - length
        if last < first:
            continue
        if where < 0:
            last = first
        elif where > 0:
            first = last
        for at in range(first, last + 1):
            if same_bytes(data, at, part, part_offsets[p], length):
                out[i] = at - offsets[j]
                break
    return out


@kernel
def count_chars(offsets: I64, data: U8, bytes_: I64) -> I64:
    """Characters in the first `bytes_` bytes of each string (−1 stays −1)."""
    n = bytes_.shape[0]
    step = offsets.shape[0] > 2
    out = np.full(n, -1, np.int64)
    for i in range(n):
        if bytes_[i] >= 0:
            start = offsets[i if step else 0]
            chars = 0
            for at in range(start, start + bytes_[i]):
                if (data[at] & 0xC0) != 0x80:
                    chars += 1
            out[i] = chars
    return out
