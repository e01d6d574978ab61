"""Stabbing partitions and hotspots keep their bounds after every change of the intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.indexes.pairs.hotspots import Hotspots
from penstock.indexes.pairs.stabbing_partition import Groups, StabbingPartition
from penstock.kernels.pairs.stabbing import TAU
from property.cases import seeds, tally

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SHAPES = ("scattered", "clustered", "nested", "identical", "touching", "extreme", "staircase")
STEPS = 150


def smallest(lows: I64, highs: I64) -> int:
    """Tau, by the points that the paper's greedy algorithm chooses."""
    found, last = 0, None
    for high, low in sorted(zip(highs.tolist(), lows.tolist(), strict=True)):
        if last is None or low > last:
            found, last = found + 1, high
    return found


@dataclass
class Churn:
    """Intervals of a shape that come and go; adds are batches of one, a few or very many."""

    shape: str
    rng: np.random.Generator
    lows: I64 = field(default_factory=lambda: np.full(2000, MOST))
    highs: I64 = field(default_factory=lambda: np.full(2000, LEAST))

    def live(self) -> I64:
        return np.flatnonzero(self.lows <= self.highs)

    def drawn(self, n: int) -> tuple[I64, I64]:
        rng = self.rng
        at = rng.integers(0, 10_000, n)
        match self.shape:
            case "clustered":
                at = rng.choice([100, 150, 3_000, 9_000], n)
                return at - rng.integers(0, 70, n), at + rng.integers(0, 70, n)
            case "nested":
                half = rng.integers(0, 5_000, n)
                return 5_000 - half, 5_000 + half + rng.integers(0, 3, n)
            case "identical":
                at = rng.integers(0, 4, n) * 10
                return at, at + 10 * (at % 3)
            case "touching":
                at = rng.integers(0, 30, n) * 5
                return at, at + 5 * rng.integers(0, 3, n)
            case "extreme":
                ends = np.sort(rng.choice([LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST], (2, n)), 0)
                return ends[0], ends[1]
            case "staircase":
                at = (np.arange(n) + int(rng.integers(0, 1000))) * 7 % 1_000
                return at, at + 40
        return at, at + rng.integers(-5, 60, n)  # some are empty

    def steps(self, most: int) -> Iterator[tuple[bool, I64, I64, I64]]:
        """Whether intervals come, their ids, and their ends."""
        growing = True
        for _ in range(STEPS):
            live, free = self.live(), np.flatnonzero(self.lows > self.highs)
            growing = live.shape[0] < 20 or (growing and live.shape[0] < most)
            size = int(self.rng.choice([1, 1, 1, 2, 5, 60], p=[0.3, 0.3, 0.2, 0.1, 0.08, 0.02]))
            if self.rng.random() < (0.8 if growing else 0.3):
                ids = self.rng.permutation(free)[:size]
                lows, highs = self.drawn(size)
                self.lows[ids], self.highs[ids] = lows, highs
                yield True, ids, lows, highs
            elif live.shape[0]:
                ids = self.gone(live, size)
                self.lows[ids], self.highs[ids] = MOST, LEAST
                yield False, ids, ids, ids

    def gone(self, live: I64, size: int) -> I64:
        """Ids to remove: any, or those that end first and so decide where points are."""
        if self.rng.random() < 0.5:
            return live[np.argsort(self.highs[live], kind="stable")][:size]
        return self.rng.permutation(live)[:size]

    def check(self, groups: Groups, ids: I64) -> None:
        """The members are these ids, and each group's point is in all of its intervals."""
        np.testing.assert_array_equal(np.sort(groups.members), ids)
        outline = groups.outline
        points = np.repeat(outline.points, np.diff(groups.offsets))
        assert (self.lows[groups.members] <= points).all()
        assert (points <= self.highs[groups.members]).all()
        assert (outline.sizes == np.diff(groups.offsets)).all()
        assert (outline.sizes > 0).all()
        assert (outline.points[:-1] <= outline.points[1:]).all()
        assert np.unique(outline.versions).shape[0] == outline.versions.shape[0]


class Followed:
    """What an index remembers of groups by their versions; it must stay true."""

    def __init__(self) -> None:
        self.known: dict[int, list[int]] = {}

    def follow(self, groups: Groups) -> None:
        now = {}
        parts = np.split(groups.members, groups.offsets[1:-1])
        for version, part in zip(groups.outline.versions.tolist(), parts, strict=False):
            now[version] = sorted(part.tolist())
            assert self.known.get(version, now[version]) == now[version]
        self.known |= now


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_partition_is_near_the_smallest_after_every_call(shape: str, epsilon: float) -> None:
    for seed in seeds(61, SHAPES.index(shape), 40):
        churn = Churn(shape, np.random.default_rng(seed))
        partition, followed = StabbingPartition(epsilon), Followed()
        for come, ids, lows, highs in churn.steps(250):
            partition.add(ids, lows, highs) if come else partition.remove(ids)
            live = churn.live()
            tau = smallest(churn.lows[live], churn.highs[live])
            assert partition.tau() == tau
            assert partition.size <= (1 + epsilon) * tau
            assert partition._state.books[TAU] <= tau  # else the bound above could be missed
            groups = partition.groups()
            churn.check(groups, live)
            followed.follow(groups)
            assert partition.largest == groups.outline.sizes.max(initial=0)
        tally["stabbing partitions"] += 1


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2, 0.6])
@pytest.mark.parametrize("shape", SHAPES)
def test_hotspots_keep_their_invariants(shape: str, alpha: float) -> None:
    epsilon = 0.5
    for seed in seeds(62, SHAPES.index(shape), 40):
        churn = Churn(shape, np.random.default_rng(seed))
        hotspots, followed, updates = Hotspots(alpha, epsilon), Followed(), 0
        for come, ids, lows, highs in churn.steps(400):
            hotspots.add(ids, lows, highs) if come else hotspots.remove(ids)
            updates += int((lows <= highs).sum())  # empty intervals are none
            live = churn.live()
            n = live.shape[0]
            hot, scattered = hotspots.groups(), hotspots.scattered.groups()
            churn.check(hot, np.sort(hot.members))
            churn.check(scattered, np.setdiff1d(live, hot.members, assume_unique=True))
            followed.follow(hot)
            assert (hot.outline.sizes >= alpha / 2 * n).all()  # I1
            assert (scattered.outline.sizes < alpha * n).all()
            tau = smallest(churn.lows[live], churn.highs[live])
            assert hotspots.size <= (1 + epsilon) * tau + 2 / alpha  # I2
            assert hotspots.moves <= 5 * updates  # I3
            assert hotspots.coverage == hot.members.shape[0] / max(n, 1)
        tally["hotspots"] += 1


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
def test_rotating_interest_moves_few_intervals(share: float) -> None:
    """The worst for (I3): a cluster after the other becomes hot and shrinks at once."""
    hotspots, updates, ids = Hotspots(0.05), 1_000, 1_000
    hotspots.add(np.arange(1_000), np.arange(1_000) * 10, np.arange(1_000) * 10 + 3)
    for turn in range(40):
        point = np.array([10 * (turn % 7) - 100])
        first = ids
        while not hotspots.group_of(np.array([ids - 1]))[0] >= 0 or ids == first:
            hotspots.add(np.array([ids]), point, point + 1)
            ids += 1
        gone = first + np.arange(int((ids - first) * share))
        for at in gone:
            hotspots.remove(at[None])
        updates += ids - first + gone.shape[0]
        assert hotspots.moves <= 5 * updates
    assert hotspots.moves > updates / 4
