"""Kernels of routing: a stable 64-bit hash of rows, and rows grouped by shard.

The hash depends on values only (never on codes, processes or Python's `hash`), so that equal keys
of two streams go to the same shard, now and after a restart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.kernels.jit import kernel

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]


@kernel
def _mix(word: int) -> int:
    x = np.uint64(word) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))  # type: ignore[return-value]


@kernel
def add_words(hashes: U64, words: I64) -> None:
    """Add one more column of 64-bit values to the hash of each row."""
    for i in range(hashes.shape[0]):
        hashes[i] = _mix(hashes[i] ^ np.uint64(words[i]))


@kernel
def hash_strings(offsets: I64, data: U8) -> I64:
    """A 64-bit hash of each string (FNV-1a, mixed)."""
    n = offsets.shape[0] - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        out[i] = np.int64(_mix(h))  # type: ignore[arg-type]
    return out


@kernel
def shards_of(hashes: U64, count: int) -> I64:
    """The shard of each row, from the high bits; a shard's own hash tables use the low bits."""
    out = np.empty(hashes.shape[0], np.int64)
    for i in range(hashes.shape[0]):
        out[i] = np.int64((hashes[i] >> np.uint64(32)) * np.uint64(count) >> np.uint64(32))
    return out


@kernel
def group_by_shard(shards: I64, count: int) -> tuple[I64, I64]:
    """Positions of the rows sorted by shard (stable), and the start of each shard."""
    starts = np.zeros(count + 1, np.int64)
    for i in range(shards.shape[0]):
        starts[shards[i] + 1] += 1
    for s in range(count):
        starts[s + 1] += starts[s]
    place = starts[:-1].copy()
    order = np.empty(shards.shape[0], np.int64)
    for i in range(shards.shape[0]):
        order[place[shards[i]]] = i
        place[shards[i]] += 1
    return order, starts
