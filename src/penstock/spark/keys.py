"""Grouping keys that put every shard into its own partition.

Spark places an int key by murmur3 (x86, 32 bits, seed 42) modulo the partitions; shards 0 and 1
would share partition 0 of 2. So the key of shard `i` is the first int that lands in partition `i`.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int, as a signed 32-bit number."""
    word = (value & _MASK) * 0xCC9E2D51 & _MASK
    word = _rotate(word, 15) * 0x1B873593 & _MASK
    state = _rotate(seed ^ word, 13) * 5 + 0xE6546B64 & _MASK
    state ^= 4  # bytes hashed
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK


def shard_keys(count: int) -> tuple[int, ...]:
    """The key of each of `count` shards, for `count` partitions."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(murmur3(value) % count, value)
        value += 1
    return tuple(found[shard] for shard in range(count))
