from __future__ import annotations

import bisect

import numpy as np
import pyarrow as pa

from penstock.kernels import multiset as ms
from penstock.state.arena import Arena
from penstock.state.strings import StringTable

TABLE = StringTable(Arena().scope("strings"))
PATH = np.empty(ms.DEPTH, np.int64)


def change(insert: bool, pool: np.ndarray, state: np.ndarray, g: int, key: int, text: bool) -> None:
    root = int(state[g, 0])
    if text:
        depth = ms.descend_text(pool, root, key, *TABLE.arrays(), PATH)
    else:
        depth = ms.descend(pool, root, key, PATH)
    if insert:
        state[g, 0] = ms.insert_key(pool, root, key, depth, PATH)
    else:
        state[g, 0] = ms.remove_key(pool, root, depth, PATH)


def height(pool: np.ndarray, node: int) -> int:
    if node == 0:
        return 0
    return 1 + max(height(pool, int(pool[node, side])) for side in (ms.LEFT, ms.RIGHT))


def test_like_sorted_lists() -> None:
    rng = np.random.default_rng(1)
    pool, state = np.zeros((400, ms.WORDS), np.int64), np.zeros((3, 1), np.int64)
    lists: list[list[int]] = [[], [], []]
    for _ in range(6000):
        g = int(rng.integers(3))
        keys = lists[g]
        if keys and (len(keys) > 100 or rng.random() < 0.48):
            key = keys.pop(int(rng.integers(len(keys))))
            change(False, pool, state, g, key, False)
        else:
            key = int(rng.integers(-30, 30)) * 2**56
            bisect.insort(keys, key)
            change(True, pool, state, g, key, False)
        root = int(state[g, 0])
        assert (root == 0) == (not keys)
        if keys:
            assert pool[root, ms.SIZE] == len(keys)
            assert ms.least(pool, root) == keys[0]
            assert ms.greatest(pool, root) == keys[-1]
            at = int(rng.integers(len(keys)))
            assert ms.nth(pool, root, at) == keys[at]
    ms.clear_multisets(pool, state, np.arange(3), 0)
    assert not state.any()
    assert pool[0, ms.USED] == pool[0, ms.FREED]


def test_sorted_input_keeps_it_shallow() -> None:
    n = 20_000
    pool, state = np.zeros((n + 1, ms.WORDS), np.int64), np.zeros((1, 1), np.int64)
    for key in range(n):
        change(True, pool, state, 0, key, False)
    assert height(pool, int(state[0, 0])) < 60
    for key in range(0, n, 2):
        change(False, pool, state, 0, key, False)
    assert [ms.nth(pool, int(state[0, 0]), i) for i in (0, 1, 5000)] == [1, 3, 10001]


def test_removing_what_is_not_there_does_nothing() -> None:
    pool, state = np.zeros((4, ms.WORDS), np.int64), np.zeros((1, 1), np.int64)
    for key in (5, 5, 3):
        change(True, pool, state, 0, key, False)
    before = pool.copy()
    change(False, pool, state, 0, 4, False)
    assert np.array_equal(pool, before)


def test_strings_by_their_bytes() -> None:
    texts = ["z", "", "é", "a", "ab", "日本", "a" * 30]
    codes = TABLE.intern(pa.array(texts))
    pool, state = np.zeros((20, ms.WORDS), np.int64), np.zeros((1, 1), np.int64)
    for code in codes:
        change(True, pool, state, 0, int(code), True)
    root = int(state[0, 0])
    found = [TABLE.text(ms.nth(pool, root, i)) for i in range(len(texts))]
    assert found == sorted(texts, key=str.encode)
