"""Sorted entries of rows, with a Fenwick tree over those that are alive.

An entry stands for 1 and for the words of the sums to which its row adds. A sum is held in two
words, high · 2³² + low, so that neither overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries
from penstock.kernels.stem_runs import part_of_key

SUM_WORDS = 3
"""Words of a sum: how many values, high, low."""
LOW_BITS = 32
LOW = (1 << LOW_BITS) - 1


class Alive(NamedTuple):
    """Rows of a side as partners: sorted entries, and the totals of those that are alive.

    Entry k stands for `amounts[k]`: 1, then the words of each sum. `tree` is a Fenwick tree.
    """

    entries: Entries
    amounts: I64
    tree: I64


# ---- entries -------------------------------------------------------------------------
@kernel
def gather_entries(
    keys: I64, values: I64, positions: I64, offsets: I64, wanted: I64, first: int, until: int
) -> tuple[I64, I64, I64, I64]:
    """Copy the entries at positions in [first, until) that have a wanted key, run by run.

    Without keys, all entries are wanted. Returns keys, values, positions and the starts of runs.
    """
    count = 0
    lookups = wanted.shape[0] if keys.shape[0] else 1
    for r in range(offsets.shape[0] - 1):
        for w in range(lookups):
            key = wanted[w] if keys.shape[0] else 0
            begin, end = part_of_key(keys, offsets[r], offsets[r + 1], key)
            count += end - begin
    out_keys = np.empty(count if keys.shape[0] else 0, np.int64)
    out_values, out_positions = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, n = np.zeros(offsets.shape[0], np.int64), 0
    for r in range(offsets.shape[0] - 1):
        for w in range(lookups):
            key = wanted[w] if keys.shape[0] else 0
            begin, end = part_of_key(keys, offsets[r], offsets[r + 1], key)
            for k in range(begin, end):
                if first <= positions[k] < until:
                    if keys.shape[0]:
                        out_keys[n] = key
                    out_values[n], out_positions[n] = values[k], positions[k]
                    n += 1
        starts[r + 1] = n
    return out_keys[: n if keys.shape[0] else 0], out_values[:n], out_positions[:n], starts


@kernel
def amounts_of(rows: I64, places: I64, columns: I64, first: int) -> I64:
    """The words of each sum for rows of a log (row-major, NULL word first), from word `first` on.

    The words before it are 1.
    """
    out = np.ones((places.shape[0], first + SUM_WORDS * columns.shape[0]), np.int64)
    for i in range(places.shape[0]):
        at = places[i]
        for c in range(columns.shape[0]):
            word, to = rows[at, 1 + columns[c]], first + SUM_WORDS * c
            if (rows[at, 0] >> columns[c]) & 1:
                out[i, to], word = 0, 0
            out[i, to + 1], out[i, to + 2] = word >> LOW_BITS, word & LOW
    return out


@kernel
def find_entries(positions: I64, moving: I64) -> I64:
    """The entry of each moving row, given its position; positions ascend. −1: it has none."""
    found = np.full(moving.shape[0], -1)
    if moving.shape[0] == 0:
        return found
    first = moving[0]
    places = np.full(moving[-1] - first + 1, -1)
    for i in range(moving.shape[0]):
        places[moving[i] - first] = i
    for k in range(positions.shape[0]):
        at = positions[k] - first
        if 0 <= at < places.shape[0] and places[at] >= 0:
            found[places[at]] = k
    return found


@kernel
def grow_tree(amounts: I64, alive: Bool) -> I64:
    """The Fenwick tree of the amounts of the entries that are alive."""
    n, width = amounts.shape
    tree = np.zeros((n + 1, width), np.int64)
    for k in range(1, n + 1):
        above = k + (k & -k)
        for c in range(width):
            if alive[k - 1]:
                tree[k, c] += amounts[k - 1, c]
            if above <= n:
                tree[above, c] += tree[k, c]
    return tree


# ---- the tree ------------------------------------------------------------------------
@inlined
def move_entry(tree: I64, amounts: I64, entry: int, sign: int) -> None:
    """Add or remove an entry."""
    k = entry + 1
    while k < tree.shape[0]:
        for c in range(tree.shape[1]):
            tree[k, c] += sign * amounts[entry, c]
        k += k & -k


@inlined
def count_before(tree: I64, entry: int) -> int:
    """How many entries before this one are alive."""
    found = 0
    while entry > 0:
        found += tree[entry, 0]
        entry &= entry - 1
    return found


@inlined
def nth_alive(tree: I64, rank: int) -> int:
    """The entry that is alive and has `rank` − 1 such entries before it."""
    at, step = 0, 1
    while 2 * step < tree.shape[0]:
        step *= 2
    while step:
        if at + step < tree.shape[0] and tree[at + step, 0] < rank:
            at += step
            rank -= tree[at, 0]
        step >>= 1
    return at


@inlined
def add_between(tree: I64, begin: int, end: int, total: I64) -> None:
    """Add the totals of the entries at [begin, end)."""
    while end > begin:
        for c in range(total.shape[0]):
            total[c] += tree[end, c]
        end &= end - 1
    while begin > end:
        for c in range(total.shape[0]):
            total[c] -= tree[begin, c]
        begin &= begin - 1
