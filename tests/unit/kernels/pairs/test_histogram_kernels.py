"""Kernels of histograms against the mean over each value of each bucket."""

from __future__ import annotations

import numpy as np

from penstock.kernels.pairs import histogram

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
STARTS = np.array([LEAST, 0, 7, 8, 20, 31])


def test_levels_are_means_of_counts() -> None:
    rng = np.random.default_rng(0)
    lows = rng.integers(0, 31, 200)
    highs = np.minimum(lows + rng.integers(0, 30, 200), 30)
    lows[:5], highs[3:9] = LEAST, MOST
    steps, shares = np.zeros(STARTS.shape[0] + 1, np.int64), np.zeros(STARTS.shape[0])
    histogram.raise_levels(STARTS, steps, shares, lows, highs, 1)
    levels = np.cumsum(steps)[:-1] + shares
    for b in range(1, 5):
        inside = np.arange(STARTS[b], STARTS[b + 1])
        around = (lows[:, None] <= inside) & (inside <= highs[:, None])
        assert np.isclose(levels[b], around.sum(axis=0).mean())
    assert np.isclose(levels[0], 5)
    assert np.isclose(levels[5], 6)
    histogram.raise_levels(STARTS, steps, shares, lows, highs, -1)
    assert not steps.any()
    assert np.abs(shares).max() < 1e-9


def test_values_are_counted_between_ends() -> None:
    values = np.repeat(
        np.arange(0, 31), np.array([2, 5, 1, 3])[np.digitize(np.arange(31), STARTS[2:5])]
    )
    counts = np.zeros(STARTS.shape[0], np.int64)
    histogram.count_values(STARTS, counts, values, 1)
    lows, highs = (grid.ravel() for grid in np.meshgrid(np.arange(-3, 31), np.arange(-3, 40)))
    found = histogram.count_between(STARTS, counts, lows, highs)
    exact = [
        ((low <= values) & (values <= high)).sum() for low, high in zip(lows, highs, strict=True)
    ]
    np.testing.assert_allclose(found, exact, atol=1e-9)
    whole = histogram.count_between(STARTS, counts, np.array([LEAST, 5]), np.array([MOST, 4]))
    assert whole.tolist() == [values.shape[0], 0]
    histogram.count_values(STARTS, counts, values, -1)
    assert not counts.any()


def test_widths_reach_both_ends_of_the_integers() -> None:
    found = histogram.widths(STARTS)
    assert found.tolist() == [2.0**63, 7, 1, 12, 11, 2.0**63 - 31]


def test_groups_are_cut_into_equal_numbers() -> None:
    lows = np.array([0, 1, 2, 3, 50, LEAST, 60, 70])
    highs = np.array([10, 13, 11, 12, 90, MOST, 95, MOST])
    found = histogram.cut_groups(np.array([0, 4, 5, 8]), lows, highs, np.array([2, 0, 1]))
    assert found.tolist() == [0, 12, 2, 14, LEAST]
