"""The set table against a Python model: churn, collection, codes that are used again."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np

from penstock.arrays import I64
from penstock.state.arena import Arena
from penstock.state.sets import SetTable

Set = tuple[int, ...]


def intern(table: SetTable, sets: list[Set]) -> list[int]:
    sizes = [len(s) for s in sets]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    items = np.array([q for s in sets for q in s], np.int64)
    return table.intern(offsets, items).tolist()


def explode(table: SetTable, codes: list[int]) -> list[Set]:
    offsets, items = table.explode(np.array(codes, np.int64))
    assert items.dtype == np.int64
    return [tuple(items[a:b].tolist()) for a, b in pairwise(offsets)]


def some(rng: random.Random, most: int) -> Set:
    size = rng.choice([0, 1, 1, 2, 5, 9, 64, 500])
    return tuple(sorted(rng.sample(range(most), min(size, most))))


def test_each_set_has_one_code_and_the_empty_set_is_zero() -> None:
    table = SetTable(Arena().scope("sets"))
    codes = intern(table, [(1, 2), (), (2,), (1, 2), (1,), (0,), (2**31 - 1,)])
    assert codes[1] == 0
    assert codes[0] == codes[3]
    assert len(set(codes)) == 6
    assert len(table) == 5
    assert explode(table, codes[:3]) == [(1, 2), (), (2,)]
    assert intern(table, []) == explode(table, []) == []


def test_against_a_model_with_churn() -> None:
    rng = random.Random(3)
    arena = Arena()
    table = SetTable(arena.scope("sets"))
    held: dict[int, Set] = {}
    collected = 0
    for turn in range(150):
        sets = [some(rng, 700) for _ in range(rng.randint(0, 60))]
        codes = intern(table, sets)
        assert explode(table, codes) == sets
        held.update(zip(codes, sets, strict=True))
        for code in rng.sample(sorted(held), len(held) // 3):
            del held[code]
        if turn % 5 == 4:
            collected += table.collect([np.array([*held, -1, 10**9], np.int64)])
        if turn % 40 == 20:
            arena.restore(arena.snapshot())
        assert explode(table, list(held)) == list(held.values())
    assert collected > 1000
    assert len(table) < 1000


def test_a_dropped_query_vanishes_from_the_sets_that_are_held() -> None:
    table = SetTable(Arena().scope("sets"))
    codes = np.array(intern(table, [(1, 2, 5), (2,), (1, 5), (3,), (1, 2, 5)]))
    left: I64 = table.without(codes, np.array([2, 9]))
    assert explode(table, left.tolist()) == [(1, 5), (), (1, 5), (3,), (1, 5)]
    assert left[0] == left[2] == codes[2]
    assert left[1] == 0
    again = intern(table, [(1, 2, 5)])  # another query has got the number 2
    assert explode(table, again) == [(1, 2, 5)]


def test_distinct_and_only() -> None:
    table = SetTable(Arena().scope("sets"))
    codes = np.array(intern(table, [(1, 2), (3,), (1, 2), (7, 8)]))
    sets, which = table.distinct(codes)
    assert len(sets) == 3
    assert [tuple(sets.items[sets.offsets[w] : sets.offsets[w + 1]]) for w in which] == [
        (1, 2), (3,), (1, 2), (7, 8),
    ]  # fmt: skip
    chosen, which = table.only(codes, np.array([2, 3]))
    sizes = chosen.sizes[which]
    assert sizes.tolist() == [1, 1, 1, 0]
    empty, none = table.distinct(np.empty(0, np.int64))
    assert (len(empty), none.shape) == (0, (0,))


def test_collection_is_due_when_sets_have_doubled() -> None:
    table = SetTable(Arena().scope("sets"))
    assert not table.should_collect()
    intern(table, [(i,) for i in range(10_000)])
    assert table.should_collect()
    assert table.collect([np.arange(50)]) == 10_000 - 49
    assert not table.should_collect()
