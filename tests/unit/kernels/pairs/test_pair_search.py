"""Gaps, searches in stretches and nearest partners, against plain Python."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from penstock.kernels.pairs.data import (
    FLOAT,
    GAP,
    INTEGER,
    LEAST,
    MOST,
    NAN,
    Entries,
    Partner,
    Probes,
    Queries,
)
from penstock.kernels.pairs.near import Groups, find_near, new_near
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    find_stretches,
    first_above,
    first_gap_above,
    first_gap_from,
    gap_of,
    grown,
    keep_partners,
    new_parts,
    view_of,
)

INTS = [LEAST, LEAST + 1, -5, -1, 0, 1, 7, MOST - 1, MOST]
FLOATS = [-np.inf, -1e308, -0.1, -5e-324, -0.0, 0.0, 0.1, 0.3, 1e308, np.inf, np.nan]
NONE = np.empty(0, np.int64)


def word_of(value: float) -> int:
    if np.isnan(value):
        return NAN
    word = int(np.float64(value + 0.0).view(np.int64))
    return word ^ MOST if word < 0 else word


def looking(shift: int, is_float: bool, undefined: int = NAN) -> View:
    return View(0, 0, 0, 1 << 40, shift, is_float, undefined)


def test_gaps_of_integers_end_where_int64_does() -> None:
    for value, shift in product(INTS, INTS):
        expected = max(LEAST, min(MOST, value - shift))
        assert gap_of(value, looking(shift, False)) == expected


@pytest.mark.parametrize("undefined", [NAN, LEAST])
def test_gaps_of_floats_are_rounded_differences(undefined: int) -> None:
    for value, shift in product(FLOATS, FLOATS):
        with np.errstate(all="ignore"):
            gap = np.float64(value) - np.float64(shift)
        expected = undefined if np.isnan(gap) else word_of(float(gap))
        assert gap_of(word_of(value), looking(word_of(shift), True, undefined)) == expected


@pytest.mark.parametrize("is_float", [False, True])
def test_bounds_are_found_in_a_stretch(is_float: bool) -> None:
    finite = [word_of(x) for x in FLOATS if np.isfinite(x)]
    words = sorted(finite * 2) if is_float else sorted(INTS * 2)
    bounds = sorted({*words, LEAST, MOST, word_of(np.inf), word_of(-np.inf), NAN})
    shifts = [word_of(x) for x in FLOATS] if is_float else INTS
    values = np.array(words)
    for shift, (begin, end) in product(shifts, [(0, len(words)), (3, 11), (5, 5)]):
        view = looking(shift, is_float)
        gaps = [gap_of(word, view) for word in words]
        assert gaps == sorted(gaps)
        for bound in bounds:
            above = next((k for k in range(begin, end) if gaps[k] > bound), end)
            since = next((k for k in range(begin, end) if gaps[k] >= bound), end)
            assert first_gap_above(values, begin, end, bound, view) == above
            assert first_gap_from(values, begin, end, bound, view) == since


def test_stretches_are_cut_so_that_gaps_never_decrease() -> None:
    words = np.array(sorted([word_of(x) for x in FLOATS] * 3 + [word_of(0.5)] * 5))
    runs = np.array([0, words.shape[0], words.shape[0], 2 * words.shape[0]])
    entries = Entries(NONE, np.concatenate([words, words]), np.arange(2 * len(words)), runs)
    stretches = new_parts(entries).stretches
    n = find_stretches(entries, 0, True, stretches)
    assert n == 8
    covered = [k for begin, end in stretches[:n].tolist() for k in range(begin, end)]
    assert covered == list(range(2 * len(words)))
    for shift, undefined in product(FLOATS, (NAN, LEAST)):
        view = looking(word_of(shift), True, undefined)
        for begin, end in stretches[:n].tolist():
            gaps = [gap_of(value, view) for value in entries.values[begin:end].tolist()]
            assert gaps == sorted(gaps)


@pytest.mark.parametrize("has_keys", [False, True])
def test_stretches_are_the_parts_of_runs_with_the_key(has_keys: bool) -> None:
    rng = np.random.default_rng(3)
    sizes = [0, 9, 1, 30]
    offsets = np.cumsum([0, *sizes])
    keys = [np.sort(rng.choice([LEAST, -1, 5, MOST], size)) for size in sizes]
    key_of = np.concatenate(keys)
    entries = Entries(key_of if has_keys else NONE, np.zeros(40, np.int64), np.arange(40), offsets)
    stretches = new_parts(entries).stretches
    for key in (LEAST, -1, 0, 5, MOST):
        for find in (find_stretches, find_stretches.py_func):
            n = find(entries, key, False, stretches)
            found = [list(range(*pair)) for pair in stretches[:n].tolist()]
            parts = [
                [k for k in range(*ends) if not has_keys or key_of[k] == key]
                for ends in pairwise(offsets.tolist())
            ]
            assert found == [part for part in parts if part]


def some_probes(shifts: list[int], keys: list[int], limit: int) -> Probes:
    own, limits = np.empty((0, len(shifts)), np.int64), np.full(len(shifts), limit)
    return Probes(np.array(keys), np.array(shifts), own, NONE, NONE, limits, NONE > 0, 10)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_the_partners_nearest_to_points_are_found(is_sorted: bool) -> None:
    """Also for rows in no order, though they are slower then."""
    rng = np.random.default_rng(4)
    m, reached = 400, 0
    offsets = np.array([0, 150, 150, m])
    keys, values = rng.integers(0, 2, m), rng.integers(-500, 500, m)
    order = np.concatenate([b + np.lexsort((values[b:e], keys[b:e])) for b, e in pairwise(offsets)])
    entries = Entries(keys[order], values[order], rng.integers(0, 60, m), offsets)
    points = np.sort(rng.integers(-300, 300, 12))
    groups = Groups(points, points - rng.integers(0, 9, 12), points + rng.integers(0, 9, 12))
    shifts, wanted = rng.integers(-300, 300, 80), rng.integers(0, 2, 80)
    rows = np.lexsort((shifts, wanted)) if is_sorted else np.arange(80)
    probes = some_probes(shifts.tolist(), wanted.tolist(), 50)
    parts, near = new_near(entries, groups)
    for row in rows:
        view = view_of(probes, row)
        assert find_parts(entries, view, parts)
        found = find_near(groups, entries.values, entries.positions, view, parts, near)
        seen = (entries.positions >= 10) & (entries.positions < 50)
        gaps = entries.values[seen & (entries.keys == wanted[row])] - shifts[row]
        expected = []
        for g in range(12):
            left = gaps[(gaps >= groups.lows[g]) & (gaps <= points[g])]
            right = gaps[(gaps > points[g]) & (gaps <= groups.highs[g])]
            if left.size or right.size:
                ends = left.max(initial=LEAST), right.min(initial=MOST)
                expected.append((g, (left.size > 0) + 2 * (right.size > 0), *ends))
        columns = (near.sides, near.left, near.right)
        at = near.groups[:found]
        assert list(zip(at, *(c[at] for c in columns), strict=True)) == expected
        reached += found
    assert reached > 100


def test_kernels_equal_their_plain_twins() -> None:
    words = np.arange(5)
    assert grown.py_func(words, 9)[:5].tolist() == grown(words, 9)[:5].tolist() == words.tolist()
    assert grown(words, 6).shape == (10,)
    values = np.array([1, 3, 3, 8])
    for bound in range(10):
        twin = first_above.py_func(values, 0, 4, bound)
        assert first_above(values, 0, 4, bound) == twin == np.searchsorted(values, bound, "right")


def test_partners_are_kept_by_rest_conditions_windows_and_epochs() -> None:
    rows = np.array([[0, 5, 0], [1, 5, 0], [2, 5, 0], [0, 9, 0], [0, 5, word_of(-2.0) ^ MOST]])
    log = Partner(rows, np.array([10, 20, 30, 40, 50]), np.array([0, 1, 2, 2, 2]), 100)
    probes = some_probes([0], [0], 200)._replace(
        instants=np.array([60]), epochs=np.array([1]), floor=100
    )
    none = np.empty((0, 2), np.int64)
    bounds = np.array([5, 5]), np.array([8, 8])
    words = np.array([at << 1 | slot for at in range(5) for slot in range(2)])

    def kept(queries: Queries) -> list[tuple[int, int]]:
        answers = []
        for keep in (keep_partners, keep_partners.py_func):
            copy = words.copy()
            end = keep(copy, 2, 10, 0, 1, probes, log, queries)
            answers.append([(int(w) >> 1, int(w) & 1) for w in copy[2:end]])
        assert answers[0] == answers[1]
        return answers[0]

    plain = Queries(*bounds, none, none, none, none, NONE, NONE, NONE, NONE)
    everything = [(at, slot) for at in range(1, 5) for slot in range(2)]
    assert kept(plain) == everything
    rest = plain._replace(
        rest_low=np.array([[5, 9]]), rest_high=np.array([[6, 9]]),
        rest_columns=np.array([0]), rest_kinds=np.array([INTEGER]),
    )  # fmt: skip
    assert kept(rest) == [(2, 0), (3, 1), (4, 0)]
    floats = plain._replace(
        rest_low=np.array([[word_of(-2.0), word_of(-1.0)]]), rest_high=np.array([[0, 0]]),
        rest_columns=np.array([1]), rest_kinds=np.array([FLOAT]),
    )  # fmt: skip
    assert kept(floats) == [(1, 0), (1, 1), (3, 0), (3, 1), (4, 0)]
    probes = probes._replace(rest_shifts=np.array([4]))
    gaps = rest._replace(
        rest_low=np.array([[1, 5]]), rest_high=np.array([[2, 5]]), rest_kinds=np.array([GAP])
    )
    assert kept(gaps) == [(2, 0), (3, 1), (4, 0)]
    probes = probes._replace(rest_shifts=np.array([word_of(1.0)]), is_float=True)
    gaps = floats._replace(
        rest_low=np.array([[word_of(-3.0), word_of(-1.0)]]),
        rest_high=np.array([[word_of(-2.0), word_of(-0.5)]]), rest_kinds=np.array([GAP]),
    )  # fmt: skip
    assert kept(gaps) == [(1, 1), (3, 1), (4, 0)]
    some_lengths = plain._replace(lengths=np.array([30, 31]))
    assert kept(some_lengths) == [(2, 1), (3, 0), (3, 1), (4, 0), (4, 1)]
    assert kept(plain._replace(since=np.array([1, 2]))) == [(at, 0) for at in range(1, 5)]
