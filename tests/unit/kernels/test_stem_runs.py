"""Kernels of sorted runs against NumPy: sort, merge, drop, the part of a key."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.stem_runs import (
    count_keys,
    drop_entries,
    key_words,
    merge_entries,
    part_of_key,
    sort_entries,
)

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Entries = tuple[I64, I64, I64]


def some(rng: np.random.Generator, n: int, keyed: bool) -> Entries:
    """Entries in order of position: few or many different words, extreme ones among them."""

    def words() -> I64:
        wide = rng.integers(LEAST, MOST, n, endpoint=True)
        return np.where(rng.random(n) < rng.random(), rng.choice([LEAST, -1, 0, 9, MOST], n), wide)

    return words() if keyed else np.empty(0, np.int64), words(), np.arange(n) + 10**12


def in_order(entries: Entries) -> Entries:
    """The slow twin of all: the entries by key, value and position."""
    keys, values, positions = entries
    by = (keys,) if keys.shape[0] else ()
    order = np.lexsort((positions, values, *by))
    return keys[order] if by else keys, values[order], positions[order]


def same(a: Entries, b: Entries) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 50, 3000])
def test_sort(n: int, keyed: bool) -> None:
    rng = np.random.default_rng(n)
    for _ in range(5):
        entries = some(rng, n, keyed)
        expected = in_order(entries)
        sort_entries(*entries)
        assert same(entries, expected)


@pytest.mark.parametrize("keyed", [False, True])
def test_merge_of_neighbours_leaves_the_rest_alone(keyed: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        before, a, b, after = (int(rng.integers(0, most)) for most in (5, 40, 40, 5))
        entries = some(rng, before + a + b + after, keyed)
        for begin, end in ((before, before + a), (before + a, before + a + b)):
            sort_entries(*(part[begin:end] for part in entries))
        expected = tuple(part.copy() for part in entries)
        both = slice(before, before + a + b)
        for part, merged in zip(
            expected, in_order(tuple(p[both] for p in entries)), strict=True  # type: ignore[arg-type]
        ):  # fmt: skip
            part[both] = merged
        merge_entries(*entries, before, before + a, before + a + b)
        assert same(entries, expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("keyed", [False, True])
def test_drop_keeps_the_order_of_what_stays(keyed: bool) -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        offsets = np.cumsum([0, *rng.integers(0, 20, rng.integers(1, 5))])
        entries = some(rng, int(offsets[-1]), keyed)
        rng.shuffle(entries[2])
        first = 10**12 + int(rng.integers(-1, offsets[-1] + 2))
        keep = entries[2] >= first
        expected = tuple(part[keep] if part.shape[0] else part.copy() for part in entries)
        ends = [int(keep[:end].sum()) for end in offsets]
        drop_entries(*entries, offsets, first)
        assert offsets.tolist() == ends
        kept = tuple(part[: ends[-1]] for part in entries)
        assert same(kept, expected)  # type: ignore[arg-type]


@kernel
def _part(keys: I64, begin: int, end: int, key: int) -> tuple[int, int]:
    return part_of_key(keys, begin, end, key)


def test_part_of_a_key() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        n = int(rng.integers(1, 60))
        keys = np.sort(rng.choice([LEAST, -5, 0, 1, 2, 3, MOST], n))
        begin, end = sorted(rng.integers(0, n + 1, 2).tolist())
        for key in (LEAST, LEAST + 1, -5, 0, 1, 2, 4, MOST - 1, MOST):
            low, high = _part(keys, begin, end, key)
            sides = (np.searchsorted(keys[begin:end], key, side) for side in ("left", "right"))
            assert (low - begin, high - begin) == tuple(sides)
    assert _part(np.empty(0, np.int64), 3, 8, 5) == (3, 8)


def test_counts_of_all_runs() -> None:
    keys = np.array([1, 1, 4, 0, 1, 9])
    words, offsets = np.array([1, 4, 9, 5]), np.array([0, 3, 5])
    assert count_keys(words, keys, offsets).tolist() == [3, 1, 0, 0]
    assert count_keys(words, keys[:0], offsets).tolist() == [5] * 4


def test_words_of_keys() -> None:
    one = np.array([[5, LEAST, 5, MOST]])
    assert key_words(one).tolist() == one[0].tolist()
    words = key_words(np.array([[5, 6, 5, 5], [6, 5, 6, 5]]))
    assert words[0] == words[2]
    assert len(set(words.tolist())) == 3
