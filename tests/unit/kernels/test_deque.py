from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernels import deque
from penstock.state.arena import Arena
from penstock.state.strings import StringTable


def new(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((nodes + 1, deque.WORDS), np.int64), np.zeros((3, deque.STATE_WORDS), np.int64)


def test_front_is_the_largest_of_a_sliding_window() -> None:
    rng = np.random.default_rng(1)
    pool, state = new(200)
    windows: list[list[int]] = [[], [], []]
    for _ in range(5000):
        g = int(rng.integers(3))
        window = windows[g]
        if window and (len(window) > 40 or rng.random() < 0.48):
            deque.leave(pool, state, g, 0, window.pop(0))
        else:
            window.append(int(rng.integers(-9, 10)))
            deque.push(pool, state, g, 0, window[-1])
        if window:
            assert state[g, deque.TOP] == pool[state[g, deque.FRONT], deque.KEY] == max(window)
        else:
            assert not state[g, : deque.TOP].any()
    for g, window in enumerate(windows):
        for key in window:
            deque.leave(pool, state, g, 0, key)
    assert not state[:, : deque.TOP].any()
    assert pool[0, deque.USED] == pool[0, deque.FREED]


@pytest.mark.parametrize("flip", [False, True])
def test_strings_by_their_bytes(flip: bool) -> None:
    rng = np.random.default_rng(2)
    table = StringTable(Arena().scope("strings"))
    texts = ["", "a", "aa", "b", "é", "z", "日本", "a" * 20, "a" * 20 + "b"]
    codes = table.intern(pa.array(texts))
    pool, state = new(100)
    window: list[int] = []
    best = min if flip else max
    for _ in range(2000):
        if window and (len(window) > 30 or rng.random() < 0.48):
            deque.leave(pool, state, 1, 0, int(codes[window.pop(0)]))
        else:
            window.append(int(rng.integers(len(texts))))
            code = int(codes[window[-1]])
            deque.push_string(pool, state, 1, 0, code, flip, *table.arrays())
        if window:
            expected = best((texts[i] for i in window), key=str.encode)
            assert table.text(int(state[1, deque.TOP])) == expected


def test_equal_keys_share_a_node_and_clearing_frees_all() -> None:
    pool, state = new(10)
    for key in [7] * 1000 + [5] * 3 + [4]:
        deque.push(pool, state, 0, 0, key)
    assert pool[0, deque.USED] == 3
    deque.clear_deques(pool, state, np.array([0, 1]), 0)
    assert pool[0, deque.FREED] == 3
    assert not state.any()
