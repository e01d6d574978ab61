"""Hotspots: promotion, demotion, versions, coverage; Figures 1 and 2 of the paper."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.indexes.pairs.hotspots import Hotspots

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FIGURE_1 = [
    (0, 9), (2, 6), (4, 12), (5, 8),
    (10, 22), (13, 18), (14, 25), (16, 20),
    (24, 30), (27, 33),
]  # fmt: skip


def of(alpha: float, intervals: list[tuple[int, int]]) -> Hotspots:
    hotspots = Hotspots(alpha)
    add(hotspots, 0, intervals)
    return hotspots


def add(hotspots: Hotspots, first: int, intervals: list[tuple[int, int]]) -> None:
    hotspots.add(first + np.arange(len(intervals)), *np.array(intervals).T)


def members(hotspots: Hotspots) -> list[list[int]]:
    groups = hotspots.groups()
    ends = pairwise(groups.offsets.tolist())
    return [groups.members[start:end].tolist() for start, end in ends]


def zipf_coverage(groups: int, top: int, beta: float) -> float:
    """The share of the `top` largest of groups whose sizes are Zipfian (Figure 2)."""
    sizes = np.arange(1, groups + 1) ** -beta
    return float(sizes[:top].sum() / sizes.sum())


def test_figure_1() -> None:
    """The text on Definition 2: I1 and I2 are 0.4-hotspots."""
    hotspots = of(0.4, FIGURE_1)
    assert members(hotspots) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert hotspots.coverage == 0.8
    assert hotspots.scattered.members().tolist() == [8, 9]
    assert hotspots.group_of(np.arange(11)).tolist() == [0] * 4 + [1] * 4 + [-1] * 3
    assert hotspots.size == 3


def test_figure_2() -> None:
    """Of 5000 groups the 500 largest cover about 70 % at beta = 1, and more with a larger beta."""
    shares = [zipf_coverage(5000, 500, beta) for beta in (1.0, 1.05, 1.1, 1.15, 1.2)]
    assert 0.70 < shares[0] < 0.76
    assert shares == sorted(shares)
    assert shares[-1] > 0.85


def test_coverage_of_zipfian_groups_is_that_of_figure_2() -> None:
    sizes = np.maximum(200_000 / np.arange(1, 5001) / 9.1, 1).astype(np.int64)
    points = np.repeat(np.arange(5000) * 100, sizes)
    hotspots = Hotspots(float(sizes[499]) / float(sizes.sum()))
    rng = np.random.default_rng(2)
    lows, highs = (points + sign * rng.integers(0, 40, points.shape[0]) for sign in (-1, 1))
    hotspots.add(rng.permutation(points.shape[0]), lows, highs)
    top = int((sizes >= sizes[499]).sum())
    assert hotspots.groups().outline.sizes.shape[0] == top
    assert hotspots.coverage == pytest.approx(zipf_coverage(5000, top, 1.0), abs=0.02)


def test_groups_are_promoted_at_alpha_and_demoted_below_half_of_it() -> None:
    apart = [(1000 + 10 * i, 1000 + 10 * i) for i in range(200)]
    hotspots = of(0.1, [(0, 9)] * 8 + apart[:92])
    assert members(hotspots) == []
    add(hotspots, 100, [(5, 20)] * 3)
    assert members(hotspots) == [[*range(8), 100, 101, 102]]  # 11 of 103
    assert hotspots.moves == 11
    add(hotspots, 103, apart[92:])
    assert len(hotspots) == 211
    assert len(members(hotspots)) == 1
    hotspots.remove(np.array([0]))  # 10 of 210 are less than 5 %
    assert members(hotspots) == []
    assert hotspots.moves == 21
    assert hotspots.coverage == 0.0


def test_an_interval_joins_the_hot_group_of_a_point_in_it() -> None:
    hotspots = of(0.3, [(0, 9)] * 50 + [(20, 29)] * 50)
    points = hotspots.outline().points
    add(hotspots, 100, [(int(points[1]), 1000), (LEAST, MOST), (10, 19), (5, 4)])
    assert hotspots.group_of(np.arange(100, 104)).tolist() == [1, 0, -1, -1]
    assert hotspots.moves == 100


def test_versions_tell_which_groups_have_changed() -> None:
    hotspots = of(0.2, [(0, 9)] * 50 + [(20, 29)] * 50 + [(40, 49)] * 50)
    before, seen = hotspots.outline(), hotspots.version
    hotspots.remove(np.array([60]))
    after = hotspots.outline()
    assert (after.versions > seen).tolist() == [False, True, False]
    assert after.versions[[0, 2]].tolist() == before.versions[[0, 2]].tolist()
    chosen = hotspots.chosen(np.array([2, 1]))
    assert chosen.outline.sizes.tolist() == [50, 49]
    assert chosen.members[:50].tolist() == list(range(100, 150))
    assert 60 not in chosen.members
    scattered = hotspots.scattered.version
    add(hotspots, 150, [(21, 28)])
    assert hotspots.scattered.version == scattered


def test_a_cluster_among_short_intervals_is_one_hotspot() -> None:
    """The canonical partition cuts it at each short interval."""
    cluster = [(i, 2000 + i) for i in range(990)]
    short = [(10 * i, 10 * i + 3) for i in range(100)]
    hotspots = of(0.5, cluster + short)
    assert members(hotspots) == [[*range(990), 1089]]
    assert hotspots.scattered.size == 99


def test_the_last_interval_of_all_can_go() -> None:
    hotspots = of(0.5, [(LEAST, MOST), (3, 3)])
    hotspots.remove(np.array([1, 0, 7]))
    assert (len(hotspots), hotspots.size, hotspots.coverage) == (0, 0, 0.0)
    add(hotspots, 1, [(4, 4)])
    assert members(hotspots) == [[1]]
    assert hotspots.nbytes > 0
