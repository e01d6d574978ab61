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
    some, counts = k.rows_using(bits, mask)
    assert some.tolist() == [i for i, s in enumerate(sets) if s & uses]
    assert counts.tolist() == [len(s & uses) for s in sets if s & uses]
    assert k.count_bits(bits, mask) == sum(len(s & uses) for s in sets)
    everyone = k.full(np.array(sorted(set().union(*sets)), np.int64), words)
    assert k.wanted_by(bits).tolist() == everyone.tolist()


@pytest.mark.parametrize("words", [1, 3])
def test_what_rows_lost_and_whether_they_go_on(words: int) -> None:
    bits, sets = _random(words, 50, words, 0.3)
    uses, ahead = set(range(0, 64 * words, 3)), {1, 30, 64 * words - 1}
    mask, rest = (k.full(np.array(sorted(s)), words) for s in (uses, ahead))
    rows, before = k.rows_using(bits, mask)
    gone = set(range(0, 64 * words, 6))
    bits &= ~k.full(np.array(sorted(gone)), words)
    lost = [(len(sets[i] & uses & gone), bool((sets[i] - gone) & ahead)) for i in rows]
    rejected, early = sum(n for n, _ in lost), sum(n for n, goes_on in lost if goes_on)
    assert 0 < early < rejected
    found = k.count_rejected(bits, rows, before, mask, rest)
    assert found == (before.sum(), rejected, early)


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
    k.join_rows(out, rows, at + 10, 10, np.array([2, 1], np.int64), 1)
    assert out[2:].tolist() == [[0, 7], [9, 0]]
    assert out[0].tolist() == [0b010, 0b100]


def _is_sorted(*keys: list[int]) -> bool:
    first, *places, last = (np.array(key, np.int64) for key in keys)
    return bool(k.is_sorted(first, np.vstack(places), last))


def test_sorted_by_the_first_key_that_differs() -> None:
    assert _is_sorted([1, 1, 2], [5, 6, 0], [9, 8, 7])
    assert _is_sorted([1, 1], [5, 5], [3, 3])
    assert _is_sorted([], [], [])
    assert _is_sorted([1, 1, 1], [5, 5, 6], [0, 1, 1], [7, 2, 1])
    assert not _is_sorted([1, 1, 2], [5, 4, 0], [0, 0, 0])
    assert not _is_sorted([2, 1], [0, 9], [0, 0])
    assert not _is_sorted([1, 1], [5, 5], [3, 2])
    assert not _is_sorted([1, 1], [5, 5], [1, 0], [3, 4])


@pytest.mark.parametrize("aliases", [1, 2, 3])
@pytest.mark.parametrize("span", [3, 5000, 1 << 40])
@pytest.mark.parametrize("per_instant", [1, 7, 400])
def test_rows_of_an_instant_are_put_into_the_order_of_their_places(
    aliases: int, span: int, per_instant: int
) -> None:
    rng = np.random.default_rng(span + per_instant)
    instants = np.sort(rng.integers(0, 1 + 1000 // per_instant, 1000))
    places = rng.integers(-span, span, (aliases, 1000))
    moved, order = k.order_rows(instants, places)
    assert moved
    assert order.tolist() == np.lexsort((*places[::-1], instants)).tolist()
    moved, order = k.order_rows(instants, np.take(places, order, axis=1))
    assert not moved


def test_keys_of_rows_and_which_have_none() -> None:
    rows = np.array([[0b00, 7, 8], [0b10, 5, 0], [0b01, 0, 9]])
    keys, null = np.empty(3, np.int64), np.array([False, False, True])
    k.gather_key(rows, np.array([12, 11, 10]), 10, 0, keys, null)
    assert keys.tolist() == [0, 5, 7]
    assert null.tolist() == [True, False, True]
    k.gather_key(rows, np.array([12, 11, 10]), 10, 1, keys, null)
    assert keys.tolist() == [9, 0, 8]
    assert null.tolist() == [True, True, True]


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
        found = k.positions_among(ts, 100, instants, after, 107)
        assert found.tolist() == np.maximum(100 + expected, 107).tolist()
    assert k.positions_among(ts, 100, instants[:0], after, 0).shape == (0,)
