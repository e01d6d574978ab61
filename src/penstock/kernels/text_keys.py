"""Integers in the order of texts: the first seven bytes of a text, then its length.

Shorter texts are padded with zeros; a length above seven counts as eight. So the key is strictly
increasing over texts of up to seven bytes, including NUL bytes, and a longer text comes after all
its prefixes. Longer texts with the same first seven bytes have the same key.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.strings import U8

KEY_BYTES = 7
WHOLE, PREFIX, PATTERN = 0, 1, 2
"""Kinds of LIKE patterns: no wildcard, only a closing %, anything else."""


@inlined
def _key(data: U8, start: int, size: int, fill: int) -> np.int64:
    """The key of data[start : start + size], padded with `fill`."""
    word = np.uint64(0)
    for k in range(KEY_BYTES):
        byte = np.uint64(data[start + k]) if k < size else np.uint64(fill)
        word = (word << np.uint64(8)) | byte
    last = np.uint64(min(size, KEY_BYTES + 1) | fill)
    return np.int64(((word << np.uint64(8)) | last) ^ np.uint64(1 << 63))


@kernel
def keys_of_codes(codes: I64, starts: I64, lengths: I64, heap: U8) -> I64:
    """The key of the text of each code."""
    keys = np.empty(codes.shape[0], np.int64)
    for i in range(codes.shape[0]):
        keys[i] = _key(heap, starts[codes[i]], lengths[codes[i]], 0)
    return keys


@kernel
def keys_of_texts(offsets: I64, data: U8, sizes: I64) -> tuple[I64, I64]:
    """For the first `sizes` bytes of each text: the key, and the largest key with that prefix."""
    n = sizes.shape[0]
    least, most = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        least[i] = _key(data, offsets[i], sizes[i], 0)
        most[i] = _key(data, offsets[i], sizes[i], 0xFF)
    return least, most


@kernel
def read_patterns(offsets: I64, data: U8) -> tuple[I64, I64]:
    """For each LIKE pattern, the number of bytes before the first wildcard, and its kind."""
    n = offsets.shape[0] - 1
    sizes, kinds = np.empty(n, np.int64), np.full(n, WHOLE, np.int64)
    for i in range(n):
        at, end = offsets[i], offsets[i + 1]
        while at < end and data[at] != 0x25 and data[at] != 0x5F:  # % and _
            at += 1
        sizes[i] = at - offsets[i]
        if at < end:
            kinds[i] = PREFIX
        while at < end:
            if data[at] != 0x25:
                kinds[i] = PATTERN
            at += 1
    return sizes, kinds
