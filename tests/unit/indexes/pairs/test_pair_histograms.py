"""Histograms against exact counts: of equal width, and with borders that follow the groups."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.histogram import (
    IntervalHistogram,
    ValueHistogram,
    borders_of_groups,
    equal_borders,
)
from penstock.indexes.pairs.stabbing_partition import StabbingPartition
from penstock.kernels.pairs.histogram import F64

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def exact(lows: I64, highs: I64, values: I64) -> F64:
    """How many intervals are around each value."""
    begun = np.searchsorted(np.sort(lows), values, side="right")
    return (begun - np.searchsorted(np.sort(highs), values)).astype(np.float64)


def clustered(rng: np.random.Generator, n: int) -> tuple[I64, I64]:
    """Intervals around seven points, some of them with few."""
    points = np.array([1_000, 1_700, 30_000, 500_000, 501_000, 800_000, 999_000])
    point = rng.choice(points, n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.07, 0.03])
    return point - rng.integers(0, 600, n), point + rng.integers(0, 600, n)


def by_groups(lows: I64, highs: I64, buckets: int) -> I64:
    partition = StabbingPartition()
    partition.add(np.arange(lows.shape[0]), lows, highs)
    return borders_of_groups(partition.groups(), lows, highs, buckets)


def filled(borders: I64, lows: I64, highs: I64) -> IntervalHistogram:
    histogram = IntervalHistogram(borders)
    histogram.add(lows, highs)
    return histogram


def test_equal_borders_cut_into_equal_widths() -> None:
    assert equal_borders(0, 999, 4).tolist() == [0, 250, 500, 750, 1000]
    widest = equal_borders(LEAST, MOST)
    assert (np.diff(widest.astype(np.float64)) > 0).all()
    assert widest[0] == LEAST


def test_values_are_counted() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 10_000, 200_000)
    histogram = ValueHistogram(equal_borders(0, 9_999))
    histogram.add(values)
    asked = np.array([0, 77, 5_000, 9_999])
    np.testing.assert_allclose(histogram.equal(asked), 20, rtol=0.15)
    np.testing.assert_allclose(histogram.between(asked[:1], asked[2:3]), 100_020, rtol=0.02)
    assert histogram.equal(np.array([LEAST, -1, 10_000, MOST])).tolist() == [0.0] * 4
    histogram.remove(values)
    assert histogram.equal(asked).tolist() == [0.0] * 4
    assert histogram.nbytes < 10_000


def test_sparse_values_are_as_frequent_as_distinct_ones_are_few() -> None:
    histogram = ValueHistogram(equal_borders(0, 10**9))
    histogram.add(np.repeat(np.arange(1000) * 10**6, 50))
    asked = np.array([10**6, 500 * 10**6])
    assert (histogram.equal(asked) < 1).all()
    np.testing.assert_allclose(histogram.equal(asked, distinct=1000), 50, rtol=0.15)


def test_intervals_are_counted_with_shares_of_buckets() -> None:
    histogram = filled(equal_borders(0, 99, 10), np.array([0, 5, 23]), np.array([9, 24, 27]))
    assert np.round(histogram.around(np.array([0, 9, 10, 19, 20, 30])), 9).tolist() == [
        1.5, 1.5, 1.0, 1.0, 1.0, 0.0
    ]  # fmt: skip
    histogram.remove(np.array([5]), np.array([24]))
    assert np.round(histogram.around(np.array([5, 15, 25])), 9).tolist() == [1.0, 0.0, 0.5]
    histogram.add(np.array([LEAST, 50]), np.array([MOST, 40]))
    assert np.round(histogram.around(np.array([LEAST, 45, MOST])), 9).tolist() == [1.0] * 3
    assert histogram.nbytes < 1_000


def test_a_hundred_buckets_are_near_the_exact_number() -> None:
    rng = np.random.default_rng(2)
    lows = rng.integers(0, 900_000, 50_000)
    highs = lows + rng.integers(0, 100_000, 50_000)
    histogram = filled(equal_borders(0, 999_999), lows, highs)
    values = rng.integers(0, 1_000_000, 2_000)
    error = np.abs(histogram.around(values) - exact(lows, highs, values))
    assert error.mean() < 0.02 * exact(lows, highs, values).mean()


def test_borders_of_groups_follow_clusters() -> None:
    """With as many buckets, the error is a small part of that of equal widths."""
    rng = np.random.default_rng(3)
    lows, highs = clustered(rng, 20_000)
    values = np.sort(rng.choice(np.concatenate((lows, highs)), 4_000))
    truth = exact(lows, highs, values)
    even = filled(equal_borders(int(lows.min()), int(highs.max())), lows, highs).around(values)
    ours = filled(by_groups(lows, highs, 100), lows, highs).around(values)
    assert by_groups(lows, highs, 100).shape[0] <= 100
    assert np.abs(ours - truth).max() < 20_000 * 0.05
    assert np.square(ours - truth).mean() < np.square(even - truth).mean() / 100


def test_borders_for_every_end_make_it_exact() -> None:
    rng = np.random.default_rng(4)
    lows, highs = clustered(rng, 60)
    lows[0], highs[1] = LEAST, MOST
    values = np.concatenate((lows, highs, lows - (lows > LEAST), highs + (highs < MOST)))
    ours = filled(by_groups(lows, highs, 10_000), lows, highs).around(values)
    np.testing.assert_allclose(ours, exact(lows, highs, values), atol=1e-9)


def test_groups_too_small_for_a_border_have_none() -> None:
    lows = np.array([0] * 100 + [10_000, 20_000, 30_000])
    borders = by_groups(lows, lows + 5, 4)
    assert sorted({*borders.tolist()}) == [0, 6]
    assert by_groups(lows[:0], lows[:0], 4).tolist() == []
