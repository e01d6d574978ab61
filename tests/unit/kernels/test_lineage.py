"""Kernels on lineage bitmaps against sets of Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels import lineage as k


def _random(seed: int, n: int, words: int, density: float) -> tuple[np.ndarray, list[set[int]]]:
    rng = np.random.default_rng(seed)
    taken = rng.random((n, 64 * words)) < density
    sets = [set(np.flatnonzero(row).tolist()) for row in taken]
    bits = np.zeros((n, words), np.uint64)
    for i, row in enumerate(sets):
        bits[i] = k.full(np.array(sorted(row), np.int64), words)
    return bits, sets


def _sets(bits: np.ndarray) -> list[set[int]]:
    rows, slots = k.explode(bits)
    found: list[set[int]] = [set() for _ in range(bits.shape[0])]
    for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
        found[row].add(slot)
    return found


@pytest.mark.parametrize("density", [0.0, 0.004, 0.3, 1.0])
@pytest.mark.parametrize("words", [1, 3])
def test_bitmaps_are_sets(words: int, density: float) -> None:
    bits, sets = _random(words, 50, words, density)
    assert _sets(bits) == sets
    rows, slots = k.explode(bits)
    assert [(r, s) for r, s in zip(rows, slots, strict=True)] == sorted(
        zip(rows, slots, strict=True)
    )
    assert k.alive_rows(bits).tolist() == [i for i, s in enumerate(sets) if s]
    uses = {0, 5, 63, 64 * words - 1}
    mask = k.full(np.array(sorted(uses)), words)
    assert k.rows_using(bits, mask).tolist() == [i for i, s in enumerate(sets) if s & uses]
    assert k.count_bits(bits, mask) == sum(len(s & uses) for s in sets)
    everyone = k.full(np.array(sorted(set().union(*sets)), np.int64), words)
    assert k.wanted_by(bits).tolist() == everyone.tolist()


@pytest.mark.parametrize("words", [1, 3])
def test_what_rows_lost_and_whether_they_go_on(words: int) -> None:
    bits, sets = _random(words, 50, words, 0.3)
    uses, ahead = set(range(0, 64 * words, 3)), {1, 30, 64 * words - 1}
    mask, rest = (k.full(np.array(sorted(s)), words) for s in (uses, ahead))
    rows = np.arange(0, 50, 2)
    before = k.count_queries(bits, rows, mask)
    assert before.tolist() == [len(sets[i] & uses) for i in rows]
    gone = set(range(0, 64 * words, 6))
    bits &= ~k.full(np.array(sorted(gone)), words)
    lost = [(len(sets[i] & uses & gone), bool((sets[i] - gone) & ahead)) for i in rows]
    expected = sum(n for n, _ in lost), sum(n for n, goes_on in lost if goes_on)
    assert k.count_rejected(bits, rows, before, mask, rest) == expected


def test_slots_that_ask_for_more_are_cleared() -> None:
    bits, sets = _random(3, 80, 2, 0.4)
    rng = np.random.default_rng(4)
    values, least = rng.integers(0, 10, 80), rng.integers(0, 10, 128)
    k.clear_below(bits, values, least)
    assert _sets(bits) == [{s for s in row if values[i] >= least[s]} for i, row in enumerate(sets)]


def test_a_clause_without_a_true_term_rejects() -> None:
    bits, sets = _random(5, 60, 1, 0.5)
    satisfied, clauses = _random(6, 60, 2, 0.5)
    numbers, slots = np.array([3, 70, 100]), np.array([1, 1, 40])
    k.enforce(bits, satisfied, numbers, slots)
    expected = [
        {s for s in row if all(c in clauses[i] for c, o in ((3, 1), (70, 1), (100, 40)) if o == s)}
        for i, row in enumerate(sets)
    ]
    assert _sets(bits) == expected


def test_columns_are_gathered_with_their_nulls() -> None:
    rows = np.array([[0b10, 5, 0, 7], [0, 1, 2, 3], [0b100, 8, 9, 0]], np.int64)
    at = np.array([2, 0], np.int64)
    some = k.gather_columns(rows, at, np.array([1], np.int64))
    assert some[0].tolist() == [0b100, 0b10]
    assert some[2].tolist() == [9, 0]
    out = np.zeros((4, 2), np.int64)
    k.join_rows(out, rows, at, np.array([2, 1], np.int64), 1)
    assert out[2:].tolist() == [[0, 7], [9, 0]]
    assert out[0].tolist() == [0b010, 0b100]


def test_sorted_by_the_first_key_that_differs() -> None:
    assert k.is_sorted(np.array([[1, 1, 2], [5, 6, 0]]))
    assert k.is_sorted(np.array([[1, 1], [5, 5]]))
    assert k.is_sorted(np.empty((2, 0), np.int64))
    assert not k.is_sorted(np.array([[1, 1, 2], [5, 4, 0]]))
    assert not k.is_sorted(np.array([[2, 1], [0, 9]]))


def test_the_least_epoch_and_the_greatest_age_of_rows() -> None:
    rng = np.random.default_rng(7)
    epoch, ts, instants = rng.integers(3, 90, 30), rng.integers(0, 50, 30), rng.integers(0, 99, 20)
    positions, root = 100 + rng.integers(0, 30, 60), rng.integers(0, 20, 60)
    least, oldest = k.extremes(positions, 100, epoch, ts, instants, root)
    assert least == epoch[positions - 100].min()
    assert oldest == (instants[root] - ts[positions - 100]).max()


@pytest.mark.parametrize("after", [True, False])
def test_places_of_instants_among_times(after: bool) -> None:
    rng = np.random.default_rng(8)
    for n in (0, 1, 40):
        ts, instants = np.sort(rng.integers(0, 20, n)), np.sort(rng.integers(-2, 23, 30))
        expected = np.searchsorted(ts, instants, side="right" if after else "left")
        assert k.places_among(ts, instants, after).tolist() == expected.tolist()
    assert k.places_among(ts, instants[:0], after).shape == (0,)
