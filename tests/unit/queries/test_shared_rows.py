"""Rows of Q by what makes queries equal, against a dictionary."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from penstock.queries.shared_rows import SharedRows
from penstock.state.arena import Arena


def enter(shared: SharedRows, words: list[tuple[int, ...]], since: int) -> tuple[list[int], ...]:
    params = np.array(words, np.int64).reshape(len(words), -1).T
    rows, first = shared.enter(np.ascontiguousarray(params), since)
    return rows.tolist(), first.tolist()


def test_equal_queries_have_one_row() -> None:
    shared = SharedRows(Arena().scope("rows/1"), 1)
    rows, first = enter(shared, [(0, 7), (0, 8), (0, 7)], 5)
    assert rows[0] == rows[2] != rows[1]
    assert first == [0, 1]
    again, first = enter(shared, [(0, 9), (0, 8)], 5)
    assert (again[1], first) == (rows[1], [0])
    later, first = enter(shared, [(0, 8)], 6)  # it does not see the same rows
    assert (later[0] != rows[1], first) == (True, [0])


def test_a_row_goes_with_its_last_query() -> None:
    arena = Arena()
    shared = SharedRows(arena.scope("rows/1"), 1)
    (seven, eight, _), _ = enter(shared, [(0, 7), (0, 8), (0, 7)], 5)
    assert shared.leave(np.array([seven])).tolist() == []
    assert shared.leave(np.array([eight, seven])).tolist() == sorted([seven, eight])
    assert list(arena.names()) == []
    shared = SharedRows(arena.scope("rows/1"), 2)
    assert enter(shared, [(0, 7, 1)], 5)[1] == [0]  # as new


@pytest.mark.parametrize("seed", range(20))
def test_like_a_dictionary(seed: int) -> None:
    rng, arena = Random(seed), Arena()
    shared = SharedRows(arena.scope("rows/1"), 2)
    row_of: dict[tuple[int, ...], int] = {}
    size: Counter[int] = Counter()
    for _ in range(60):
        since = rng.randint(0, 2)
        words = [(0, rng.randint(0, 3), rng.randint(0, 3)) for _ in range(rng.randint(0, 6))]
        rows, first = enter(shared, words, since) if words else ([], [])
        keys = [(since, *w) for w in words]
        assert first == [i for i, k in enumerate(keys) if k not in row_of and k not in keys[:i]]
        for key, row in zip(keys, rows, strict=True):
            assert row_of.setdefault(key, row) == row
        assert len(set(row_of.values())) == len(row_of)
        size.update(rows)
        gone = [row for row in sorted(size.elements()) if rng.random() < 0.4]
        size.subtract(gone)
        empty = {row for row in gone if not size[row]}
        assert shared.leave(np.array(gone, np.int64)).tolist() == sorted(empty)
        row_of = {key: row for key, row in row_of.items() if row not in empty}
        if rng.random() < 0.2 or not row_of:  # the arena is all there is
            kept, arena = arena.snapshot(), Arena()
            arena.restore(kept)
            shared = SharedRows(arena.scope("rows/1"), 2)
