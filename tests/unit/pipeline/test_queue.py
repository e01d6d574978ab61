"""Queues: order, progress, births, figures, and memory of their own."""

from __future__ import annotations

import numpy as np

from penstock.delta import Delta
from penstock.pipeline.queue import Level, Queue


def rows(*ts: int, sign: int = 1) -> Delta:
    times = np.array(ts, np.int64)
    n = times.shape[0]
    words = np.vstack([np.zeros(n, np.int64), times * 10])
    return Delta(words, times, times + 5, np.full(n, sign, np.int8), np.zeros(n, np.int64))


def queue(reached: int = 0) -> tuple[Queue, list[int]]:
    woken: list[int] = []
    return Queue(1, reached, Level(), lambda: woken.append(1)), woken


def test_rows_leave_in_order_up_to_a_time() -> None:
    q, _ = queue()
    q.put(rows(1, 3, 3, 4), 4, born=0, now=0)
    q.put(rows(4, 6), 6, born=1, now=1)
    assert q.take(3, 2).ts.tolist() == [1, 3, 3]
    assert (q.first, q.rows, q.level.rows) == (4, 3, 3)
    taken = q.take(5, 3)
    assert (taken.ts.tolist(), taken.rows[1].tolist()) == ([4, 4], [40, 40])
    assert q.take(9, 4).ts.tolist() == [6]
    assert (q.first, q.rows, len(q.take(99, 5))) == (None, 0, 0)


def test_progress_alone_wakes_the_consumer_once() -> None:
    q, woken = queue()
    q.put(rows(), 7, born=3, now=4)
    assert (q.reached, q.since, woken) == (7, 3, [1])
    q.put(rows(), 7, born=8, now=9)
    assert (q.since, woken) == (3, [1])
    q.take(7, 10)
    assert q.since is None


def test_since_is_the_birth_of_the_oldest_content() -> None:
    q, _ = queue()
    q.put(rows(1), 1, born=5, now=6)
    q.put(rows(2), 2, born=7, now=8)
    q.take(1, 9)
    assert q.since == 7


def test_figures_count_signs_lengths_and_waiting() -> None:
    q, _ = queue()
    q.put(rows(1, 2, 3), 3, born=0, now=10)
    q.put(rows(3, sign=-1), 3, born=0, now=20)
    q.take(2, 30)
    q.take(3, 50)
    figures = q.figures
    assert (figures.plus, figures.minus, figures.most) == (3, 1, 4)
    assert figures.area == 2 * 20 + 1 * 40 + 1 * 30


def test_rows_keep_their_values_when_the_producer_reuses_its_memory() -> None:
    memory = np.arange(10, dtype=np.int64)
    given = rows(1, 2)
    given = given.with_(ts=memory[1:3], exp=memory[1:3], lin=memory[1:3])
    q, _ = queue()
    q.put(given, 2, born=0, now=0)
    memory[:] = 0
    taken = q.take(2, 0)
    assert taken.ts.tolist() == taken.exp.tolist() == taken.lin.tolist() == [1, 2]
