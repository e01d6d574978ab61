"""The stabbing partition: the paper's Figure 1, what calls give, and what versions say."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.indexes.pairs.stabbing_partition import StabbingPartition
from penstock.kernels.pairs.stabbing import TAU

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FIGURE_1 = np.array([
    (0, 9), (2, 6), (4, 12), (5, 8),
    (10, 22), (13, 18), (14, 25), (16, 20),
    (24, 30), (27, 33),
]).T  # fmt: skip
"""Ten intervals in groups of four, four and two, as Figure 1 has them."""


def of(*intervals: tuple[int, int], epsilon: float = 1.0) -> StabbingPartition:
    partition = StabbingPartition(epsilon)
    partition.add(np.arange(len(intervals)), *np.array(intervals).reshape(-1, 2).T)
    return partition


def members(partition: StabbingPartition) -> list[list[int]]:
    groups = partition.groups()
    return [sorted(m.tolist()) for m in np.split(groups.members, groups.offsets[1:-1])]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_figure_1(one_by_one: bool) -> None:
    partition = StabbingPartition(0.01)
    for ids in np.arange(10)[:, None] if one_by_one else np.arange(10)[None]:
        partition.add(ids, *FIGURE_1[:, ids])
    assert partition.tau() == partition.size == 3
    assert members(partition) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert partition.outline().sizes.tolist() == [4, 4, 2]
    for point, group in zip(partition.outline().points, members(partition), strict=True):
        assert (FIGURE_1[0, group] <= point).all()
        assert (point <= FIGURE_1[1, group]).all()
    assert partition.largest >= 0.4 * len(partition)


def test_no_intervals() -> None:
    partition = of()
    assert (len(partition), partition.size, partition.tau(), partition.largest) == (0, 0, 0, 0)
    assert partition.groups().offsets.tolist() == [0]
    assert partition.group_of(np.array([0, 7])).tolist() == [-1, -1]
    partition.remove(np.array([4]))
    partition.add(*np.zeros((3, 0), np.int64))
    assert partition.groups().members.tolist() == []


def test_empty_intervals_take_nothing() -> None:
    partition = of((3, 2), (0, 1), (MOST, LEAST), (1, 1))
    assert len(partition) == 2
    assert partition.group_of(np.arange(5)).tolist() == [-1, 0, -1, 0, -1]
    partition.remove(np.array([0, 1]))
    assert members(partition) == [[3]]


def test_the_ends_of_the_integers_are_values() -> None:
    partition = of((LEAST, MOST), (LEAST, LEAST), (MOST, MOST), (0, 0), (LEAST, 0))
    assert partition.size == partition.tau() == 3
    assert members(partition) == [[0, 1, 4], [3], [2]]
    partition.remove(np.array([1]))
    assert partition.tau() == 2


def test_touching_ends_share_a_point() -> None:
    assert of((0, 5), (5, 9)).outline().points.tolist() == [5]
    assert of((0, 5), (6, 9)).size == 2


def test_only_the_removal_of_a_witness_makes_tau_uncertain() -> None:
    around = [(10 * at - 4 - extra, 10 * at + extra) for extra in range(4) for at in range(200)]
    partition = of(*around)  # those without extra end at the greedy points
    books = partition._state.books
    assert books[TAU] == partition.tau() == 200
    for at in range(200, 800):
        partition.remove(np.array([at]))
    assert books[TAU] == 200
    for at in range(20):
        partition.remove(np.array([at]))
        assert books[TAU] <= partition.tau() == 199 - at
        assert partition.size <= 2 * partition.tau()


def test_equal_intervals_share_a_group() -> None:
    partition = of(*[(4, 7)] * 1000)
    assert partition.outline().sizes.tolist() == [1000]
    partition.remove(np.arange(1, 1000))
    assert members(partition) == [[0]]


def test_a_point_moves_into_a_new_interval_if_its_group_allows_that() -> None:
    partition = of(*[(0, 100)] * 300, epsilon=3.0)
    partition.add(np.array([300]), np.array([10]), np.array([20]))
    assert partition.outline().points.tolist() == [20]
    partition.add(np.array([301]), np.array([15]), np.array([99]))
    partition.add(np.array([302]), np.array([2]), np.array([12]))
    assert members(partition) == [[*range(300), 300, 302], [301]]


def test_a_group_keeps_its_version_until_it_changes() -> None:
    partition = of(*[(10 * i, 10 * i + 5) for i in range(300)])
    before = partition.outline()
    seen = partition.version
    partition.add(np.array([300]), np.array([40]), np.array([47]))
    partition.remove(np.array([20]))
    after = partition.outline()
    changed = after.versions > seen
    assert after.points[changed].tolist() == [45]
    assert np.isin(after.versions[~changed], before.versions).all()
    new = partition.chosen(np.flatnonzero(changed))
    assert new.members.tolist() == [4, 300]
    assert new.outline.versions.tolist() == after.versions[changed].tolist()


def test_new_points_leave_versions_of_groups_with_the_same_members() -> None:
    """Two groups become one when an interval is removed; no other group changes."""
    lots = [(10 * i + 1000, 10 * i + 1005) for i in range(200)]
    partition = of((0, 4), (3, 9), (5, 6), *lots, epsilon=0.0)
    before = partition.outline()
    assert before.points[:3].tolist() == [4, 6, 1005]
    partition.remove(np.array([2]))
    after = partition.outline()
    assert after.points[:2].tolist() == [4, 1005]
    np.testing.assert_array_equal(after.versions[1:], before.versions[2:])


@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_batches_of_any_size_hold_the_same_intervals(batch: int) -> None:
    rng = np.random.default_rng(batch)
    lows = rng.integers(0, 10**6, 5000)
    highs = lows + rng.integers(0, 2000, 5000)
    ids: I64 = rng.permutation(5000)
    partition = StabbingPartition(0.5)
    for start in range(0, 5000, batch):
        some = ids[start : start + batch]
        partition.add(some, lows[some], highs[some])
    assert sorted(partition.members().tolist()) == list(range(5000))
    fresh = StabbingPartition()
    fresh.add(np.arange(5000), lows, highs)
    assert partition.tau() == fresh.tau() == fresh.size
    assert partition.size <= 1.5 * fresh.size
    groups = partition.groups()
    numbers = partition.group_of(groups.members)
    np.testing.assert_array_equal(
        numbers, np.repeat(np.arange(partition.size), groups.outline.sizes)
    )
    assert partition.nbytes > 5000 * 5 * 8


def test_the_same_calls_give_the_same_groups() -> None:
    def run() -> list[list[int]]:
        rng = np.random.default_rng(9)
        partition = StabbingPartition(0.3)
        for step in range(60):
            lows = rng.integers(0, 500, 20)
            partition.add(step * 20 + np.arange(20), lows, lows + rng.integers(0, 40, 20))
            partition.remove(rng.integers(0, step * 20 + 20, 9))
        return members(partition)

    assert run() == run()
