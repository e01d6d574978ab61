"""Packed R-trees against a test of every box."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.kernels.pairs.data import LEAST, MOST
from penstock.kernels.pairs.rtree import (
    FANOUT,
    Forest,
    build_forest,
    room_for_search,
    slices_of,
    stab_tree,
    tile_boxes,
)

SIZES = (1, 0, FANOUT, FANOUT + 1, 70, 3, 700, 0)


def some_boxes(seed: int, dimensions: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of all sizes, some of them without an end, some equal."""
    rng = np.random.default_rng(seed)
    lows = rng.integers(-100, 100, (dimensions, n))
    highs = lows + rng.choice([0, 40, 150], (dimensions, n))
    lows = np.where(rng.random(lows.shape) < 0.05, LEAST, lows)
    return lows, np.where(rng.random(lows.shape) < 0.05, MOST, highs)


def some_forest(dimensions: int) -> tuple[Forest, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = sum(SIZES)
    lows, highs = some_boxes(dimensions, dimensions, n + 20)
    slots = np.random.default_rng(9).permutation(n + 20)[:n]
    starts = np.cumsum([0, *SIZES])
    return build_forest(lows, highs, slots, starts), lows, highs, slots, starts


@pytest.mark.parametrize("dimensions", [0, 1, 2, 3])
def test_a_point_stabs_the_boxes_that_contain_it(dimensions: int) -> None:
    forest, lows, highs, slots, starts = some_forest(dimensions)
    rng, hits = np.random.default_rng(1), 0
    stack, items = room_for_search(), np.empty(slots.shape[0], np.int64)
    points = [*rng.integers(-110, 110, (40, dimensions)), np.full(dimensions, LEAST)]
    for tree, (begin, end) in enumerate(pairwise(starts)):
        members = slots[begin:end]
        for point in points:
            inside = (point >= lows[:, members].T) & (point <= highs[:, members].T)
            expected = sorted(members[inside.all(axis=1)].tolist())
            found = stab_tree(forest, tree, point, stack, items)
            assert sorted(forest.slots[items[:found]].tolist()) == expected
            hits += found
    assert hits > 300


@pytest.mark.parametrize("dimensions", [1, 2])
def test_every_node_covers_its_children(dimensions: int) -> None:
    forest, lows, highs, slots, starts = some_forest(dimensions)
    for item, slot in enumerate(forest.slots):
        assert forest.boxes[item].tolist() == [*lows[:, slot], *highs[:, slot]]
    for tree, (begin, end) in enumerate(pairwise(starts)):
        assert sorted(forest.slots[begin:end]) == sorted(slots[begin:end])
        assert forest.counts[tree, forest.heights[tree] - 1] <= FANOUT
        for level in range(1, forest.heights[tree]):
            for node in range(forest.counts[tree, level]):
                box = forest.boxes[forest.firsts[tree, level] + node]
                first, count = forest.firsts[tree, level - 1], forest.counts[tree, level - 1]
                children = forest.boxes[first : first + count][node * FANOUT : (node + 1) * FANOUT]
                assert box[:dimensions].tolist() == children[:, :dimensions].min(axis=0).tolist()
                assert box[dimensions:].tolist() == children[:, dimensions:].max(axis=0).tolist()


def test_tiles_keep_neighbours_together() -> None:
    """Leaves of points on a grid are about squares: their sides are short."""
    side = 32
    points = np.stack([grid.ravel() for grid in np.meshgrid(np.arange(side), np.arange(side))])
    shuffled = np.random.default_rng(2).permutation(side * side)
    points = np.ascontiguousarray(points[:, shuffled])
    order = np.arange(side * side)
    tile_boxes(points, points, order, np.array([0, side * side]))
    leaves = points[:, order].reshape(2, -1, FANOUT)
    assert (leaves.max(axis=2) - leaves.min(axis=2)).sum(axis=0).mean() < 8


def test_slabs_are_cut_where_boxes_differ() -> None:
    """Of boxes that all hold a point of one dimension, leaves are slabs of the other."""
    rng, n = np.random.default_rng(3), 4096
    place = rng.integers(0, 100_000, n)
    lows = np.stack([place, rng.integers(-1000, 0, n)])
    highs = np.stack([place + 20, rng.integers(0, 1000, n)])
    for turned in (slice(None), slice(None, None, -1)):
        low, high = np.ascontiguousarray(lows[turned]), np.ascontiguousarray(highs[turned])
        order = np.arange(n)
        tile_boxes(low, high, order, np.array([0, n]))
        leaf_low, leaf_high = (bound[:, order].reshape(2, -1, FANOUT) for bound in (low, high))
        extent = (leaf_high.max(axis=2) - leaf_low.min(axis=2))[turned][0]
        assert np.median(extent) < 4 * 100_000 / (n / FANOUT)


@pytest.mark.parametrize("leaves", [1, 2, 50, 4000])
@pytest.mark.parametrize(
    "selectivities", [[1.0], [3.0, 3.0], [300.0, 0.5], [0.01, 9.0, 4.0], [0.0, 2.0], [0.0, 0.0]]
)
def test_slabs_are_in_proportion(leaves: int, selectivities: list[float]) -> None:
    """The product of slabs is the number of leaves; their ratios are those of selectivities."""
    given = np.array(selectivities)
    slabs = np.array([slices_of(leaves, np.roll(given, -d)) for d in range(given.shape[0])])
    assert slices_of.py_func(leaves, given) == pytest.approx(slabs[0])
    if given.any():
        assert np.prod(slabs) == pytest.approx(leaves)
    cut = slabs > 1 + 1e-9
    ratios = slabs[cut] / given[cut]
    assert (ratios == pytest.approx(ratios[0])) if leaves > 1 and given.any() else not cut.any()


def test_kernels_equal_their_plain_twins() -> None:
    lows, highs = some_boxes(5, 2, 90)
    slots, starts = np.arange(90), np.array([0, 20, 90])
    compiled = build_forest(lows, highs, slots, starts)
    plain = build_forest.py_func(lows, highs, slots, starts)
    for one, other in zip(compiled, plain, strict=True):
        assert one.tolist() == other.tolist()
    stack, items = room_for_search.py_func(), np.empty(90, np.int64)
    for point in np.random.default_rng(6).integers(-100, 100, (20, 2)):
        found = stab_tree(compiled, 1, point, stack, items)
        expected = items[:found].tolist()
        assert stab_tree.py_func(plain, 1, point, stack, items) == found
        assert items[:found].tolist() == expected
