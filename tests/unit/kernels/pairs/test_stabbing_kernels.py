"""Kernels of stabbing partitions against plain twins; no partition is smaller than the greedy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.kernels.pairs import sorted_blocks, stabbing

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def intervals(rng: np.random.Generator, n: int, spread: int, length: int) -> tuple[I64, I64]:
    lows = rng.integers(0, spread, n)
    highs = lows + rng.integers(0, length, n)
    lows[rng.random(n) < 0.05], highs[rng.random(n) < 0.05] = LEAST, MOST
    return lows, highs


def greedy(lows: I64, highs: I64) -> list[list[int]]:
    """The canonical partition, as the paper describes it."""
    groups: list[list[int]] = []
    for i in np.argsort(lows, kind="stable").tolist():
        if not groups or lows[i] > min(highs[groups[-1]]):
            groups.append([])
        groups[-1].append(i)
    return groups


def smallest(lows: I64, highs: I64) -> int:
    """The size of the smallest partition, by trying all."""
    n = lows.shape[0]
    best = n
    for groups in product(range(n), repeat=n):
        used = set(groups)
        if len(used) < best and all(
            max(lows[np.equal(groups, g)]) <= min(highs[np.equal(groups, g)]) for g in used
        ):
            best = len(used)
    return best


@pytest.mark.parametrize("shape", [(5, 2), (9, 5), (30, 8)])
def test_the_canonical_partition_is_the_smallest(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    for _ in range(12):
        lows, highs = intervals(rng, 5, *shape)
        _, lefts, rights, _ = stabbing.canonical_partition(lows, highs)
        assert (lefts <= rights).all()
        assert lefts.shape[0] == smallest(lows, highs) == len(greedy(lows, highs))


@pytest.mark.parametrize("shape", [(10, 3), (1000, 30), (1000, 900), (1, 1)])
def test_the_canonical_partition_equals_its_twin(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    for n in (0, 1, 2, 300):
        lows, highs = intervals(rng, n, *shape)
        order = np.argsort(lows, kind="stable")
        starts, lefts, rights = stabbing.partition_sorted(lows[order], highs[order])
        expected = greedy(lows, highs)
        members = np.split(order, starts[1:-1]) if n else []
        assert [m.tolist() for m in members] == expected
        assert lefts.tolist() == [max(lows[g]) for g in expected]
        assert rights.tolist() == [min(highs[g]) for g in expected]
        group_of, *ends, sizes = stabbing.canonical_partition(lows, highs)
        assert all((group_of[group] == g).all() for g, group in enumerate(expected))
        assert sizes.tolist() == [len(group) for group in expected]
        np.testing.assert_array_equal(ends, [lefts, rights])
        blocks = sorted_blocks.new_blocks(n)
        sorted_blocks.fill(blocks, lows[order], highs[order], order)
        assert stabbing.fewest_groups(blocks) == len(expected)


def test_lists_are_merged_by_key_and_item() -> None:
    rng = np.random.default_rng(3)
    for n, m in ((0, 4), (5, 0), (40, 30)):
        ids = rng.permutation(n + m)
        keys, values = rng.integers(0, 6, n + m), rng.integers(0, 99, n + m)
        parts = [np.lexsort((ids[a:b], keys[a:b])) + a for a, b in ((0, n), (n, n + m))]
        lists = [(keys[part], values[part], ids[part]) for part in parts]
        every = np.lexsort((ids, keys))
        merged = stabbing.merge_sorted(*lists[0], *lists[1])
        for found, column in zip(merged, (keys, values, ids), strict=True):
            np.testing.assert_array_equal(found, column[every])


def test_members_are_listed_by_group() -> None:
    group_of = np.array([2, -1, 0, 2, 0, -1, 4])
    offsets, members = stabbing.list_members(group_of, 5)
    assert offsets.tolist() == [0, 2, 2, 4, 4, 5]
    assert members.tolist() == [2, 4, 0, 3, 6]


@pytest.mark.parametrize("least", [0.0, 3.0, 20.0, 1e9])
def test_intervals_are_assigned_to_the_point_that_most_contain(least: float) -> None:
    rng = np.random.default_rng(5)
    for shape in ((100, 5), (100, 60), (20, 200)):
        lows, highs = intervals(rng, 150, *shape)
        points = np.unique(rng.integers(0, shape[0], 25))
        found = stabbing.assign_most_stabbed(points, lows, highs, least)
        stabs = [int(((lows <= p) & (p <= highs)).sum()) for p in points]
        for i in range(150):
            inside = [
                (-stabs[p], p)
                for p in range(len(points))
                if lows[i] <= points[p] <= highs[i] and stabs[p] >= least
            ]
            assert found[i] == min(inside, default=(0, -1))[1]
