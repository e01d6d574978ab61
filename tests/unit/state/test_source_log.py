"""The source log against a sorted list: adding, reading by row and by column, trimming."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.types import BIGINT

SCHEMA = Schema((Field("a", BIGINT), Field("b", BIGINT)))


class Twin:
    """Rows as (ts, arrival, epoch) in order, and how many are gone."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []
        self.gone = 0

    def add(self, ts: list[int], first: int, epoch: int) -> None:
        self.rows += [(t, first + i, epoch) for i, t in enumerate(ts)]
        self.rows.sort()

    def trim(self, reader: int, watermark: int, retain: int) -> None:
        while self.rows and self.gone < reader and self.rows[0][0] <= watermark:
            if retain and self.rows[0][0] >= watermark - retain:
                break
            self.rows.pop(0)
            self.gone += 1


def new_log(retain: int = 0) -> tuple[Arena, SourceLog]:
    arena = Arena()
    return arena, SourceLog(arena.scope("s"), SCHEMA, retain)


def batch(first: int, n: int) -> np.ndarray:
    return np.stack([np.zeros(n, np.int64), first + np.arange(n), 100 - np.arange(n)])


def same(log: SourceLog, twin: Twin, start: int, end: int, by_row: bool) -> None:
    wanted = twin.rows[max(0, start - twin.gone) : max(0, end - twin.gone)]
    if by_row:
        rows, ts, epoch = log.read(start, end)
        arrival = rows[:, 1]
    else:
        words, ts, epoch = log.columns(start, end, np.array([0, 1]))
        arrival = words[1]
    assert [*zip(ts.tolist(), arrival.tolist(), epoch.tolist(), strict=True)] == wanted


@pytest.mark.parametrize("retain", [0, 7])
@pytest.mark.parametrize("seed", range(30))
def test_as_a_sorted_list(seed: int, retain: int) -> None:
    rng = np.random.default_rng(seed)
    _, log = new_log(retain)
    twin = Twin()
    arrivals = watermark = reader = 0
    for epoch in range(40):
        for _ in range(rng.integers(0, 3)):
            n = int(rng.integers(0, 6))
            ts = watermark + rng.integers(0, 10, n)
            log.add(batch(arrivals, n), ts, epoch if rng.random() < 0.5 else np.full(n, epoch))
            twin.add(ts.tolist(), arrivals, epoch)
            arrivals += n
        watermark += int(rng.integers(0, 8))
        log.advance(watermark)
        total = twin.gone + len(twin.rows)
        assert len(log) == len(twin.rows)
        rows, ts, epochs = log.passing()
        passing = zip(ts.tolist(), rows[:, 1].tolist(), epochs.tolist(), strict=True)
        assert [*passing] == twin.rows
        for _ in range(rng.integers(0, 3)):
            start, end = sorted(rng.integers(twin.gone, total + 1, 2).tolist())
            same(log, twin, start, end, bool(rng.random() < 0.3))
        reader = min(total, reader + int(rng.integers(0, 8)))
        log.trim(reader)
        twin.trim(reader, watermark, retain)
        if rng.random() < 0.2:
            log.shrink()
        assert (log.discarded, len(log)) == (twin.gone, len(twin.rows))
        same(log, twin, twin.gone, total, by_row=bool(rng.random() < 0.5))


def test_what_is_read_in_its_step_needs_no_memory() -> None:
    arena, log = new_log()
    empty = arena.nbytes
    for step in range(5):
        log.add(batch(0, 5_000), np.full(5_000, step), step)
        log.advance(step)
        words, _, _ = log.columns(log.discarded, log.discarded + 5_000, None)
        assert words.shape == (3, 5_000)
        log.trim(log.discarded + 5_000)
    assert (arena.nbytes, len(log), log.discarded) == (empty, 0, 25_000)


def test_what_is_left_after_its_step_is_in_the_arena() -> None:
    arena, log = new_log()
    log.add(batch(0, 10), np.arange(10), 1)
    log.advance(5)
    log.trim(6)
    other = SourceLog(arena.scope("s"), SCHEMA, 0)
    assert other.read(6, 10)[1].tolist() == [6, 7, 8, 9]


def test_room_follows_what_is_held_and_comes() -> None:
    _, log = new_log()
    for step in range(20):  # steps of 1,000 rows, 300 of which stay for the next one
        log.add(batch(0, 1_000), step * 1_000 + np.arange(1_000), step)
        log.advance((step + 1) * 1_000)
        log.trim((step + 1) * 1_000 - 300)
        assert log.scope["rows"].shape[0] <= 2 * 1_300
    log.shrink()
    assert log.scope["rows"].shape[0] == 300
    log.add(batch(0, 10), np.full(10, 20_001), 20)
    assert log.read(log.discarded, log.discarded + 310)[1].tolist() == [
        *range(19_700, 20_000), *([20_001] * 10),
    ]  # fmt: skip
