"""Partners within a band against a test of every row: few, some and most of a window."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.kernels.band_join import Bounds, Sorted, find_all, find_in_band
from penstock.kernels.window_timeline import Events

ROWS, START, BASE, RUNS, SIZE = 6000, 4500, 77, (0, 2500, 4000, 4800), 300
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
INTS = ((-3, 4), (0, 0), (-40, 900), (5, MOST), (LEAST, -1), (LEAST, MOST), (MOST, MOST), (3, 2))
FLOATS = ((-0.3, 0.1), (0.1, 0.1), (-50.0, 800.0), (0.0, np.inf), (-np.inf, 0.2), (1e300, np.inf))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.1, 0.2, 0.30000000000000004, 1e308, -1e308])


def ordered(words: np.ndarray) -> np.ndarray:
    return np.where(words < 0, words ^ MOST, words)


def sorted_rows(words: np.ndarray, known: np.ndarray) -> Sorted:
    """Rows of earlier steps in runs, one of them built too far; the others in blocks."""

    def run(begin: int, end: int) -> np.ndarray:
        at = begin + np.flatnonzero(known[begin:end])
        return at[np.argsort(words[at])]

    runs = [run(*ends) for ends in pairwise(RUNS)]
    blocks = [run(b, min(b + SIZE, ROWS)) for b in range(START, ROWS, SIZE)]
    old, fresh = np.concatenate(runs), np.concatenate(blocks)
    offsets = np.cumsum([0, *map(len, runs)])
    starts = np.cumsum([0, *map(len, blocks)])
    born = BASE + np.array(RUNS)
    stem = (words[old], BASE + old, offsets, born)
    return Sorted(BASE, START, *stem, words[fresh], fresh, starts, SIZE)


def moves(rng: np.random.Generator, n: int) -> Events:
    first = rng.integers(0, ROWS, n)
    until = np.minimum(ROWS, first + rng.choice([0, 1, 30, 2000], n))
    columns = (rng.integers(0, n, n), first, until, np.zeros(n), np.zeros(n))
    return Events(*(np.asarray(c, np.int32) for c in columns))


def check(found: tuple[np.ndarray, np.ndarray], some: Events, hits: list[np.ndarray]) -> None:
    counts, partners = found
    expected = [
        (first + np.flatnonzero(hit[first:until]))[::-1].tolist()
        for first, until, hit in zip(some.first, some.until, hits, strict=True)
    ]
    assert counts.tolist() == [len(e) for e in expected]
    assert partners.tolist() == [place for e in expected for place in e]


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize(("low", "high"), INTS)
def test_integers_within_a_band(low: int, high: int, is_left: bool) -> None:
    rng = np.random.default_rng(1)
    values, known = rng.integers(-1000, 1000, ROWS), rng.random(ROWS) < 0.9
    values[:3] = LEAST, MOST, 0
    own = np.zeros((60, 2), np.int64)
    own[:, 1] = rng.integers(-1000, 1000, 60)
    own[:2, 1] = LEAST, MOST
    some = moves(rng, 60)
    bounds = Bounds(is_left, False, low, high, -np.inf, np.inf)
    found = find_in_band(some, own, 0, bounds, sorted_rows(values, known))
    hits = []
    for row in some.row:
        gap = values.astype(object) - int(own[row, 1])
        gap = gap if is_left else -gap
        least, most = low == LEAST or gap >= low, high == MOST or gap <= high
        hits.append(np.asarray(known & least & most, np.bool_))
    check(found, some, hits)


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize(("low", "high"), FLOATS)
def test_floats_within_a_band(low: float, high: float, is_left: bool) -> None:
    rng = np.random.default_rng(2)
    values = np.where(rng.random(ROWS) < 0.2, rng.choice(SPECIAL, ROWS), rng.normal(0, 300, ROWS))
    mine = np.where(rng.random(60) < 0.3, rng.choice(SPECIAL, 60), rng.normal(0, 300, 60))
    known = ~np.isnan(values)
    own = np.zeros((60, 2), np.int64)
    own[:, 1] = mine.view(np.int64)
    some = moves(rng, 60)
    bounds = Bounds(is_left, True, LEAST, MOST, low, high)
    rows = sorted_rows(ordered(values.view(np.int64)), known)
    hits = []
    with np.errstate(all="ignore"):
        for row in some.row:
            gap = values - mine[row] if is_left else mine[row] - values
            hits.append((low <= gap) & (gap <= high))
    check(find_in_band(some, own, 0, bounds, rows), some, hits)


def test_all_that_is_there() -> None:
    some = moves(np.random.default_rng(3), 40)
    check(find_all(some), some, [np.ones(ROWS, np.bool_)] * 40)
