"""Copies rows between deltas (one matrix row per column) and state (one matrix row per row)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel


@kernel
def gather_rows(state: I64, slots: I64) -> I64:
    """Rows of row-major `state` at `slots`, as a column-major matrix."""
    n, width = slots.shape[0], state.shape[1]
    out = np.empty((width, n), np.int64)
    for i in range(n):
        slot = slots[i]
        for c in range(width):
            out[c, i] = state[slot, c]
    return out


@kernel
def scatter_rows(state: I64, slots: I64, rows: I64) -> None:
    """Write the columns of `rows` into row-major `state` at `slots`."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        for c in range(rows.shape[0]):
            state[slot, c] = rows[c, i]


@kernel
def key_rows(rows: I64, lin: I64, columns: I64) -> I64:
    """Key of each row, row-major: [lin, NULL bits of the key columns, values…]."""
    n, k = rows.shape[1], columns.shape[0]
    out = np.empty((n, 2 + k), np.int64)
    for i in range(n):
        nulls = rows[0, i]
        bits = 0
        out[i, 0] = lin[i]
        for j in range(k):
            bits |= ((nulls >> columns[j]) & 1) << j
            out[i, 2 + j] = rows[1 + columns[j], i]
        out[i, 1] = bits
    return out


@inlined
def hash_key(keys: I64, i: int) -> np.int64:
    """A 64-bit mix of row i of row-major `keys`, non-negative."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for j in range(keys.shape[1]):
        h ^= np.uint64(keys[i, j])
        h *= np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h >> np.uint64(1))


def select_columns(rows: I64, columns: tuple[int, ...]) -> I64:
    """The chosen columns of a column-major matrix; the NULL bits move with them."""
    out = np.empty((1 + len(columns), rows.shape[1]), np.int64)
    nulls = rows[0]
    some_null = bool(nulls.any())
    out[0] = 0
    for j, c in enumerate(columns):
        out[1 + j] = rows[1 + c]
        if some_null:
            out[0] |= ((nulls >> c) & 1) << j
    return out


@kernel
def first_equal(words: I64) -> I64:
    """For each row of row-major `words`, the first row that is equal to it."""
    n = words.shape[0]
    size = 16
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int64)
    first = np.empty(n, np.int64)
    for i in range(n):
        pos = hash_key(words, i) & (size - 1)
        while table[pos] >= 0:
            same = True
            for c in range(words.shape[1]):
                if words[table[pos], c] != words[i, c]:
                    same = False
                    break
            if same:
                break
            pos = (pos + 1) & (size - 1)
        if table[pos] < 0:
            table[pos] = i
        first[i] = table[pos]
    return first
