"""Sorted blocks against a sorted list, through growth, emptiness and equal keys."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import pytest

from penstock.kernels.pairs import sorted_blocks
from penstock.kernels.pairs.sorted_blocks import CAPACITY, LAST, Blocks

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Entry = tuple[int, int, int]  # key, item, value


def entries(blocks: Blocks) -> list[Entry]:
    keys, values, items = sorted_blocks.flatten(blocks)
    return list(zip(keys.tolist(), items.tolist(), values.tolist(), strict=True))


def check(blocks: Blocks, expected: list[Entry], probes: list[int]) -> None:
    assert entries(blocks) == expected
    assert blocks.counts[1] == len(expected)
    assert blocks.least[1] == min((v for *_, v in expected), default=MOST)
    if expected:
        rank, at = sorted_blocks.place_of_least(blocks)
        first = min(range(len(expected)), key=lambda i: expected[i][2])
        assert sorted_blocks.count_before(blocks, rank, at) == first
    for key in probes:
        for item in (-1, 3, LAST):
            before = bisect_left(expected, (key, item, LEAST))
            rank, at = sorted_blocks.seek_entry(blocks, key, item)
            assert sorted_blocks.count_before(blocks, rank, at) == before
            assert sorted_blocks.is_end(blocks, rank, at) == (before == len(expected))
            least = min((v for *_, v in expected[before:]), default=MOST)
            assert sorted_blocks.least_from(blocks, rank, at) == least
    low, high = min(probes), max(probes)
    between = [item for key, item, _ in expected if low <= key <= high]
    assert sorted_blocks.items_between(blocks, low, high).tolist() == between


@pytest.mark.parametrize("spread", [1, 50, 10**6])
def test_blocks_equal_a_sorted_list(spread: int) -> None:
    rng = np.random.default_rng(spread)
    blocks, expected = sorted_blocks.new_blocks(0), list[Entry]()
    ends = [LEAST, MOST]
    for item, growing in enumerate([True] * 3 * CAPACITY + [False] * 4 * CAPACITY):
        if growing or rng.random() < 0.2:
            key = int(rng.choice(ends) if rng.random() < 0.05 else rng.integers(0, spread))
            value = int(rng.integers(-9, 9))
            if sorted_blocks.is_full(blocks):
                blocks = sorted_blocks.grown(blocks)
            sorted_blocks.insert(blocks, key, value, item)
            insort(expected, (key, item, value))
        elif expected:
            key, item, _ = expected.pop(int(rng.integers(len(expected))))
            sorted_blocks.remove(blocks, *sorted_blocks.seek_entry(blocks, key, item))
        if item % 97 == 0 or len(expected) < 3:
            check(blocks, expected, [LEAST, 0, spread // 2, spread, MOST])
    assert not sorted_blocks.is_full(blocks)


def test_emptied_blocks_are_used_again() -> None:
    blocks = sorted_blocks.new_blocks(CAPACITY)
    for turn in range(4):
        for i in range(CAPACITY):
            sorted_blocks.insert(blocks, i * 2 * (turn % 2) - i, -i, i)
        for key, item, _ in entries(blocks):
            sorted_blocks.remove(blocks, *sorted_blocks.seek_entry(blocks, key, item))
        check(blocks, [], [LEAST, 0, MOST])
    assert blocks.used[0] == 1


def test_entries_can_be_replaced() -> None:
    n = 3 * CAPACITY
    blocks = sorted_blocks.new_blocks(n)
    keys = np.arange(n) * 10
    sorted_blocks.fill(blocks, keys, np.arange(n) % 7, np.arange(n))
    expected = entries(blocks)
    rng = np.random.default_rng(0)
    for i in rng.integers(0, n, 400).tolist():
        new = (int(keys[i] + rng.integers(-4, 5)), n + i, int(rng.integers(-5, 9)))
        place = sorted_blocks.seek_entry(blocks, expected[i][0], -1)
        sorted_blocks.replace(blocks, *place, new[0], new[2], new[1])
        expected[i] = new
    check(blocks, expected, [0, 500, 10 * n])
