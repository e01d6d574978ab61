"""FIFO, calendar and row list against a sorted list."""

import numpy as np
import pytest

from penstock.arrays import NEVER
from penstock.kernels.calendar import BLOCKS
from penstock.state.arena import Arena
from penstock.state.calendar import Calendar
from penstock.state.fifo import Fifo
from penstock.state.row_list import RowList


def bag(exp, words):
    return sorted(zip(exp.tolist(), map(tuple, words.tolist()), strict=True))


@pytest.mark.parametrize("kind", ["calendar", "row list"])
@pytest.mark.parametrize("seed", range(12))
def test_a_store_of_any_order_is_a_sorted_list(seed, kind):
    rng = np.random.default_rng(seed)
    arena = Arena()
    scope = arena.scope("c")
    store = RowList(scope, 2) if kind != "calendar" else Calendar(scope, 2, searched=seed % 2 == 0)
    model: list[tuple[int, int, tuple[int, ...]]] = []
    clock, seq = -50, 0
    for _ in range(120):
        n = int(rng.integers(0, 90))
        span = int(rng.choice([3, 60, 5000]))
        exp = clock + 1 + rng.integers(0, span, n)
        exp[rng.random(n) < 0.02] = NEVER
        words = rng.integers(0, 4, (n, 2))
        store.add(exp, words)
        for e, w in zip(exp.tolist(), map(tuple, words.tolist()), strict=True):
            model.append((e, seq, w))
            seq += 1
        if model and rng.random() < 0.5:
            gone = model[int(rng.integers(len(model)))]
            found = store.cancel(np.array([gone[0]]), np.array([gone[2]]))
            assert found.tolist() == [1]
            first = min(m for m in model if m[0] == gone[0] and m[2] == gone[2])
            model.remove(first)
            assert store.cancel(np.array([clock + 10**9]), np.array([[1, 1]])).tolist() == [0]
        if rng.random() < 0.1:
            _, all_words = store.entries()
            keep = np.flatnonzero(all_words[:, 0] != 3)
            store.filter(keep)
            model = [m for m in model if m[2][0] != 3]
            # a filter may reorder ties: compare as bags from here on
        if rng.random() < 0.1:
            arena.restore(arena.snapshot())
        clock += int(rng.integers(0, 40)) * int(rng.choice([1, 1, 1, 200]))
        got_exp, got_words = store.expire(clock)
        due = sorted(m for m in model if m[0] <= clock)
        assert got_exp.tolist() == [m[0] for m in due]
        assert bag(got_exp, got_words) == sorted((m[0], m[2]) for m in due)
        model = [m for m in model if m[0] > clock]
        assert len(store) == len(model)
        assert bag(*store.entries()) == sorted((m[0], m[2]) for m in model)


def test_calendar_keeps_insertion_order_of_ties():
    store = Calendar(Arena().scope("c"), 1)
    for i in range(300):
        store.add(np.array([10 + i % 3]), np.array([[i]]))
    _, words = store.expire(10)
    assert words[:, 0].tolist() == list(range(0, 300, 3))


@pytest.mark.parametrize("seed", range(6))
def test_fifo_is_a_sorted_list(seed):
    rng = np.random.default_rng(seed)
    arena = Arena()
    store = Fifo(arena.scope("f"), 1)
    model: list[tuple[int, int]] = []
    clock = last = 0
    for step in range(80):
        exp = last + np.cumsum(rng.integers(0, 3, int(rng.integers(1, 20))))
        if rng.random() < 0.1:
            exp = np.maximum(exp - 15, clock + 1)
        words = np.arange(exp.shape[0])[:, None] + step * 100
        store.add(exp, words)
        model += list(zip(exp.tolist(), words[:, 0].tolist(), strict=True))
        last = max(e for e, _ in model) if model else last
        clock = max(clock, last - int(rng.integers(0, 25)))
        if rng.random() < 0.5:
            got_exp, got = store.expire(clock)
        else:
            got_exp, places = store.take(clock)
            got = store.words[places]
        model.sort(key=lambda m: m[0])
        assert got_exp.tolist() == [e for e, _ in model if e <= clock]
        assert got[:, 0].tolist() == [w for e, w in model if e <= clock]
        model = [m for m in model if m[0] > clock]
        assert len(store) == len(model)
        if rng.random() < 0.2:
            arena.restore(arena.snapshot())
        exp, words = store.entries()
        assert list(zip(exp.tolist(), words[:, 0].tolist(), strict=True)) == model


def test_fifo_grows_with_what_it_holds_and_no_further():
    arena = Arena()
    store = Fifo(arena.scope("f"), 1)
    for now in range(3000):
        store.add(np.array([now + 100]), np.array([[now]]))
        exp, words = store.expire(now)
        assert exp.tolist() == ([now] if now >= 100 else [])
        assert (words[:, 0] == exp - 100).all()
    assert len(store) == 100
    assert arena.arrays()["f/exp"].shape[0] == 128


@pytest.mark.parametrize("searched", [True, False])
@pytest.mark.parametrize("span", [5, 60, 700])
def test_calendar_gives_back_what_expired(searched, span):
    arena = Arena()
    store = Calendar(arena.scope("c"), 1, searched)
    rng = np.random.default_rng(1)
    sizes = []
    for now in range(6000):
        store.add(now + 1 + rng.integers(0, span, 2), np.zeros((2, 1), np.int64))
        store.expire(now)
        if now in (2000, 5999):
            sizes.append(arena.nbytes)
    assert len(store) <= 2 * span
    assert sizes[1] <= 1.5 * sizes[0]


@pytest.mark.parametrize("searched", [True, False])
@pytest.mark.parametrize("window", [210, 250, 300, 370, 440])
def test_calendar_of_a_full_window_grows_no_further(searched, window):
    arena = Arena()
    store = Calendar(arena.scope("c"), 1, searched)
    blocks = []
    for now in range(2 * window):
        exp = np.arange(1000 * now, 1000 * (now + 1)) + 1000 * window
        store.add(exp, exp.reshape(-1, 1))
        store.expire(1000 * now)
        blocks.append(int(arena.arrays()["c/regs"][BLOCKS]))
    assert len(store) <= 1000 * (window + 1)
    assert blocks[-1] <= 1.1 * blocks[window + 5]


def test_a_row_list_keeps_the_order_of_insertion():
    store = RowList(Arena().scope("l"), 1)
    store.add(np.array([9, 5, 7, 5]), np.array([[0], [1], [2], [3]]))
    assert not store.due(4)
    assert store.due(5)
    exp, places = store.take(7)
    assert exp.tolist() == [5, 5, 7]
    assert store.words[places].reshape(-1).tolist() == [1, 3, 2]
    store.add(np.array([1]), np.array([[4]]))
    assert [part.reshape(-1).tolist() for part in store.entries()] == [[9, 1], [0, 4]]
    assert store.cancel(np.array([9, 9, 1]), np.array([[0], [0], [5]])).tolist() == [1, 0, 0]
    assert store.entries()[1].tolist() == [[4]]


def test_rows_of_a_row_list_lie_with_their_lineage():
    store = RowList(Arena().scope("l"), 3)
    store.add_rows(np.array([4, 2]), np.array([7, 8]), np.array([[0, 1], [5, 6]]))
    assert store.words[:2].tolist() == [[7, 0, 5], [8, 1, 6]]
