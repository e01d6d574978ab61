"""Builds a part of the grouped filter's index: queries in buckets, big buckets in blocks.

Queries with equal constants in all equality predicates share a bucket, found by hashing. A query
has a list of bounds, in a form such that it takes a row if each bound ≤ the row's value for it. A
bucket of more than 64 queries is cut into blocks of 64 similar queries, by halving it along one
bound after another. Blocks store their least and largest bounds; groups of 8, 64 and 512 blocks
store their least. Within a block, queries ascend.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.jit import inlined, kernel

BLOCK = 64
NEVER_REACHED = np.iinfo(np.int64).max


class Part(NamedTuple):
    """Queries in slots; the slots of a bucket, and of a block, are adjacent."""

    table: I32  # hash table of bucket numbers, −1: empty
    keys: I64  # [bucket, equality]
    starts: I32  # first slot of each bucket, and the end
    blocks: I32  # first block of each bucket, −1: a small bucket
    qids: I32  # by slot, −1: removed
    bounds: I64  # [bound, slot]
    differs: I64  # [≠, slot]
    least: I64  # [block, bound]
    most: I64  # [block, bound]
    least8: I64  # the same of groups of 8, 64, 512 blocks
    least64: I64
    least512: I64


@inlined
def hashed(keys: I64, i: int, mask: int) -> np.int64:
    """The first place in a table to look for column `i` of `keys`."""
    word = np.uint64(0x9E3779B97F4A7C15)
    for e in range(keys.shape[0]):
        word = (word ^ np.uint64(keys[e, i])) * np.uint64(0xD6E8FEB86659FD93)
        word ^= word >> np.uint64(32)
    return np.int64(word & np.uint64(mask))


@inlined
def has_key(stored: I64, bucket: int, keys: I64, i: int) -> bool:
    """Whether a bucket has the key in column `i` of `keys`."""
    same = True
    for e in range(keys.shape[0]):
        same &= stored[bucket, e] == keys[e, i]
    return same


@kernel
def _assign_buckets(keys: I64, table: I32, stored: I64, bucket_of: I32) -> int:
    """Number the distinct keys; return their number."""
    mask = table.shape[0] - 1
    used = 0
    for i in range(keys.shape[1]):
        at = hashed(keys, i, mask)
        while table[at] >= 0 and not has_key(stored, table[at], keys, i):
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = used
            for e in range(keys.shape[0]):
                stored[used, e] = keys[e, i]
            used += 1
        bucket_of[i] = table[at]
    return used


@kernel
def _sort_by_bucket(bucket_of: I32, starts: I32, order: I32) -> None:
    """Sort queries by bucket (stable), and store where each bucket starts."""
    starts[:] = 0
    for i in range(bucket_of.shape[0]):
        starts[bucket_of[i] + 1] += 1
    for b in range(1, starts.shape[0]):
        starts[b] += starts[b - 1]
    at = starts.copy()
    for i in range(bucket_of.shape[0]):
        order[at[bucket_of[i]]] = i
        at[bucket_of[i]] += 1


@kernel
def _select(values: I64, order: I32, low: int, high: int, middle: int) -> None:
    """Partition [low, high) so that [low, middle) holds the smallest values."""
    high -= 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@kernel
def _arrange(bounds: I64, order: I32, start: int, end: int, values: I64) -> None:
    """Order the queries of a bucket so that neighbours are similar: halve by bound after bound."""
    stack = [(start, end, 0)]
    dims = bounds.shape[0]
    while len(stack):
        low, high, dim = stack.pop()
        if high - low <= BLOCK:
            order[low:high].sort()
            continue
        differ = False
        for _ in range(dims):
            dim = (dim + 1) % dims
            for i in range(low, high):
                values[i] = bounds[dim, order[i]]
            differ = values[low:high].min() < values[low:high].max()
            if differ:
                break
        half = BLOCK
        while half * 2 < high - low:
            half *= 2
        if differ:
            _select(values, order, low, high, low + half)
        stack.append((low, low + half, dim))
        stack.append((low + half, high, dim))


@kernel
def _number_blocks(starts: I32, blocks: I32) -> int:
    """Assign the first block of each big bucket, so that no group of blocks spans two buckets."""
    used = 0
    for b in range(blocks.shape[0]):
        size = (starts[b + 1] - starts[b] + BLOCK - 1) // BLOCK
        blocks[b] = -1
        if size > 1:
            step = 1
            while step < 512 and step * 8 <= size:
                step *= 8
            used = (used + step - 1) // step * step
            blocks[b] = used
            used += size
    return used


@kernel
def _measure_blocks(starts: I32, blocks: I32, bounds: I64, least: I64, most: I64) -> None:
    for b in range(blocks.shape[0]):
        if blocks[b] < 0:
            continue
        for slot in range(starts[b], starts[b + 1]):
            block = blocks[b] + (slot - starts[b]) // BLOCK
            for d in range(bounds.shape[0]):
                least[block, d] = min(least[block, d], bounds[d, slot])
                most[block, d] = max(most[block, d], bounds[d, slot])


@kernel
def _least_of_groups(least: I64) -> I64:
    """The least bounds of each group of eight."""
    grouped = np.full(((least.shape[0] + 7) // 8, least.shape[1]), NEVER_REACHED)
    for i in range(least.shape[0]):
        for d in range(least.shape[1]):
            grouped[i >> 3, d] = min(grouped[i >> 3, d], least[i, d])
    return grouped


@kernel
def build_part(keys: I64, bounds: I64, differs: I64, qids: I64) -> Part:
    """Build a part from the queries `qids` (ascending); each matrix has one column per query."""
    n = qids.shape[0]
    size = 2
    while size < 2 * n and keys.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int32)
    stored = np.empty((n, keys.shape[0]), np.int64)
    bucket_of = np.empty(n, np.int32)
    used = _assign_buckets(keys, table, stored, bucket_of)
    while size > 4 * used:
        size >>= 1
    if size < table.shape[0]:  # few distinct keys: use a smaller table that fits a cache
        table = np.full(size, -1, np.int32)
        distinct = np.ascontiguousarray(stored[:used].T)
        _assign_buckets(distinct, table, stored, np.empty(used, np.int32))
    starts = np.empty(used + 1, np.int32)
    order = np.empty(n, np.int32)
    _sort_by_bucket(bucket_of, starts, order)
    blocks = np.empty(used, np.int32)
    count = _number_blocks(starts, blocks)
    values = np.empty(n if count else 0, np.int64)
    for b in range(used):
        if blocks[b] >= 0 and bounds.shape[0]:
            _arrange(bounds, order, starts[b], starts[b + 1], values)
    slots = np.empty((bounds.shape[0], n), np.int64)
    unequal = np.empty((differs.shape[0], n), np.int64)
    for slot in range(n):
        for d in range(bounds.shape[0]):
            slots[d, slot] = bounds[d, order[slot]]
        for d in range(differs.shape[0]):
            unequal[d, slot] = differs[d, order[slot]]
    least = np.full((count, bounds.shape[0]), NEVER_REACHED)
    most = np.full((count, bounds.shape[0]), -NEVER_REACHED - 1)
    _measure_blocks(starts, blocks, slots, least, most)
    least8 = _least_of_groups(least)
    least64 = _least_of_groups(least8)
    return Part(
        table, stored[:used].copy(), starts, blocks, qids[order].astype(np.int32), slots, unequal,
        least, most, least8, least64, _least_of_groups(least64),
    )  # fmt: skip
