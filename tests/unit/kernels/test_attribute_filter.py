"""Regions of a value are cut where intervals begin and end."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels import attribute_filter as k

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@pytest.mark.parametrize("seed", range(20))
def test_cut_regions_begin_where_intervals_do_and_keep_what_they_were_part_of(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.array([LEAST, *sorted({*rng.integers(-20, 20, rng.integers(0, 6)).tolist()})])
    places = rng.permutation(starts.shape[0] + 1).astype(np.int32)
    lows = rng.choice([LEAST, *range(-25, 25)], rng.integers(0, 8))
    highs = np.array([rng.choice([MOST, *range(max(low, -25), 26)]) for low in lows], np.int64)
    used = 100
    new_starts, new_places, cut = k.cut_regions(starts, places, lows, highs, used)
    edges = {*starts.tolist(), *lows.tolist(), *(h + 1 for h in highs.tolist() if h < MOST)}
    assert new_starts.tolist() == sorted(edges)
    assert new_places[-1] == places[-1]
    was = places[np.searchsorted(starts, new_starts, side="right") - 1]
    is_new = ~np.isin(new_starts, starts)
    assert new_places[:-1][~is_new].tolist() == was[~is_new].tolist()
    assert new_places[:-1][is_new].tolist() == list(range(used, used + is_new.sum()))
    assert cut.tolist() == was[is_new].tolist()
