"""Kernels of query sets against plain twins."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrays import I8
from penstock.delta import Sets, concat_sets, start_offsets
from penstock.kernels.rows import first_equal
from penstock.kernels.sets import count_before, split_pairs

Row = tuple[int, int, list[int]]


def sets_of(lists: list[list[int]]) -> Sets:
    items = [item for some in lists for item in some]
    sizes = np.array([len(some) for some in lists], np.int64)
    return Sets(start_offsets(sizes), np.array(items, np.int64))


def lists_of(sets: Sets) -> list[list[int]]:
    return [part.tolist() for part in np.split(sets.items, sets.offsets[1:-1])][: len(sets)]


def some_sets(rng: np.random.Generator, n: int) -> list[list[int]]:
    shares = rng.choice([0.0, 0.2, 0.7], n)
    return [np.flatnonzero(rng.random(12) < share).tolist() for share in shares]


def split_twin(lists: list[list[int]], sign: I8) -> list[Row]:
    found: list[Row] = []
    i = 0
    while i < len(lists):
        if sign[i] == -2:
            old, new = set(lists[i]), set(lists[i + 1])
            found += [(i, -1, sorted(old - new)), (i, -2, sorted(old & new))]
            found += [(i + 1, 2, sorted(old & new)), (i + 1, 1, sorted(new - old))]
        else:
            found.append((i, int(sign[i]), lists[i]))
        i += 2 if sign[i] == -2 else 1
    return [row for row in found if row[2]]


@pytest.mark.parametrize("seed", range(60))
def test_split_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sign: list[int] = []
    for _ in range(int(rng.integers(0, 12))):
        sign += [-2, 2] if rng.random() < 0.5 else [int(rng.choice([-1, 1]))]
    signs = np.array(sign, np.int8)
    lists = some_sets(rng, len(sign))
    sets = sets_of(lists)
    rows, kinds, offsets, items = split_pairs(sets.offsets, sets.items, signs)
    found = zip(rows.tolist(), kinds.tolist(), lists_of(Sets(offsets, items)), strict=True)
    assert list(found) == split_twin(lists, signs)


@pytest.mark.parametrize("seed", range(30))
def test_first_equal_and_count_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.integers(-2, 2, (int(rng.integers(0, 60)), int(rng.integers(1, 4))))
    rows = [tuple(r) for r in words.tolist()]
    first = first_equal(words)
    assert first.tolist() == [rows.index(row) for row in rows]
    assert count_before(first).tolist() == [rows[:i].count(row) for i, row in enumerate(rows)]


def test_sets_take_keep_group_and_concat() -> None:
    rng = np.random.default_rng(5)
    lists = some_sets(rng, 20)
    sets = sets_of(lists)
    index = rng.integers(0, 20, 33)
    assert lists_of(sets.take(index)) == [lists[i] for i in index]
    kept = sets.keep(sets.items % 3 != 0)
    assert lists_of(kept) == [[x for x in some if x % 3] for some in lists]
    both = concat_sets([sets, kept])
    assert lists_of(both) == [*lists, *lists_of(kept)]
    keys = rng.integers(0, 5, 40)
    grouped = Sets.group(keys, np.arange(40), 6)
    assert lists_of(grouped) == [np.flatnonzero(keys == k).tolist() for k in range(6)]
    assert sets.owners.tolist() == [i for i, some in enumerate(lists) for _ in some]
