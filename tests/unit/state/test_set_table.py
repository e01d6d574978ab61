"""The set table against a Python model: churn, collection, codes that are used again."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.delta import Ranked, Sets
from penstock.state.arena import Arena
from penstock.state.prefixes import plain
from penstock.state.sets import SetTable, prefix_codes

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


# ---- prefixes and unions -------------------------------------------------------------
_FIRST_LISTED = 3_000
"""Queries that are in no ranked list."""


class Coded:
    """A table with ranked lists, and sets that are unions of their prefixes and of listed sets."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.arena = Arena()
        self.table = SetTable(self.arena.scope("sets"))
        sizes = rng.choice([0, 1, 2, 5, 40, 700], int(rng.integers(1, 5)))
        pool = np.split(rng.permutation(_FIRST_LISTED), np.cumsum(sizes))[: sizes.shape[0]]
        self.lists = [np.sort(part) for part in pool]
        self.ranks = [rng.permutation(n) for n in sizes]
        self.numbers = self.table.intern_lists(self.ranked())
        made = [self._made() for _ in range(30)]
        self.sets = [tuple(sorted(queries)) for _, queries in made]
        codes = np.array([code for some, _ in made for code in some], np.int64)
        starts = np.cumsum([0, *(len(some) for some, _ in made)])
        self.codes = self.table.unite(starts, codes)

    def ranked(self) -> Ranked:
        offsets = np.cumsum([0, *map(len, self.lists)])
        return Ranked(Sets(offsets, np.concatenate(self.lists)), np.concatenate(self.ranks))

    def _made(self) -> tuple[list[int], list[int]]:
        """Codes, and the queries that they stand for together."""
        rng, codes, queries = self.rng, list[int](), list[int]()
        for at in rng.permutation(len(self.lists))[: int(rng.integers(0, 5))]:
            size = len(self.lists[at])
            length = min(size, int(rng.choice([1, 3, rng.integers(1, size + 2)])))
            if length:
                codes.append(int(prefix_codes(self.numbers[at : at + 1], np.array([length]))[0]))
                queries += self.lists[at][self.ranks[at] < length].tolist()
        if rng.random() < 0.3:
            listed = sorted(set((_FIRST_LISTED + rng.integers(0, 9, 4)).tolist()))
            codes += intern(self.table, [tuple(listed)])
            queries += listed
        return codes, queries

    def shown(self, codes: np.ndarray) -> list[Set]:
        return explode(self.table, codes.tolist())


def listed(sets: Sets, which: np.ndarray) -> list[Set]:
    taken = sets.take(which)
    return [tuple(taken.items[a:b].tolist()) for a, b in pairwise(taken.offsets)]


@pytest.mark.parametrize("seed", range(40))
def test_prefixes_and_unions_are_sets(seed: int) -> None:
    made = Coded(seed)
    table, codes = made.table, made.codes
    assert made.shown(codes) == made.sets
    assert (table.intern_lists(made.ranked()) == made.numbers).all(), "a list is kept once"
    sets, which = table.distinct(codes)
    assert listed(plain(sets), which) == made.sets
    assert sets.sizes[which].tolist() == [len(some) for some in made.sets]
    one = int(made.rng.integers(0, _FIRST_LISTED + 9))
    assert sets.holding(one)[which].tolist() == [one in some for some in made.sets]
    some = made.rng.choice(_FIRST_LISTED + 9, 400, replace=False)
    chosen = set(some.tolist())
    left = table.without(codes, some)
    assert made.shown(left) == [tuple(q for q in s if q not in chosen) for s in made.sets]
    assert (left == 0).tolist() == [chosen.issuperset(s) for s in made.sets]
    sets, which = table.only(codes, some)
    assert listed(plain(sets), which) == [tuple(q for q in s if q in chosen) for s in made.sets]


@pytest.mark.parametrize("seed", range(20))
def test_lists_are_freed_with_their_last_prefix(seed: int) -> None:
    made = Coded(seed)
    table, version = made.table, made.table.version
    half = made.codes[::2]
    table.collect([half, made.codes[:1]])
    assert made.shown(half) == made.sets[::2]
    assert table.version[1] != version[1], "numbers of lists have to be asked for again"
    numbers = table.intern_lists(made.ranked())
    whole = [(at, some) for at, some in enumerate(made.lists) if len(some)]
    for at, members in whole:
        code = prefix_codes(numbers[at : at + 1], np.array([len(members)]))
        assert made.shown(code) == [tuple(members.tolist())]
    table.collect([])
    assert len(table) == table.lists == 0


def test_prefixes_are_in_the_arena() -> None:
    made = Coded(3)
    again = SetTable(made.arena.scope("sets"))
    assert explode(again, made.codes.tolist()) == made.sets
    assert made.table.version[0] is again.version[0]
