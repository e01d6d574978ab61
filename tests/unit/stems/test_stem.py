"""SteMs against a scan of the log: keys, ranges, NULLs, disorder, trims, growth, restarts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.arrays import I64, Bool
from penstock.logical.stem_kind import StemKind
from penstock.predicates.terms import ordered
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.stems.stem import HashStem, OrderedStem, Stem
from penstock.stems.stems import Stems
from penstock.types import BIGINT, DOUBLE

SCHEMA = Schema((Field("k", BIGINT), Field("x", DOUBLE), Field("ts", BIGINT)))
K, X = 0, 1
FLOATS = np.array([0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e300, -5e-324])
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def new_log(arena: Arena, retain: int = 0) -> SourceLog:
    return SourceLog(arena.scope("streams/s"), SCHEMA, retain)


def batch(rng: np.random.Generator, n: int, keys: int, ts: I64) -> I64:
    """Rows with NULLs in both columns; floats with NaN and infinities."""
    rows = np.zeros((4, n), np.int64)
    rows[1] = rng.integers(-keys, keys + 1, n)
    some = np.where(rng.random(n) < 0.3, rng.choice(FLOATS, n), rng.normal(size=n).round(1) + 0.0)
    rows[2] = some.view(np.int64)
    rows[3] = ts
    for c in (K, X):
        null = rng.random(n) < 0.1
        rows[0] |= null.astype(np.int64) << c
        rows[1 + c, null] = 0
    return rows


def closed(log: SourceLog) -> int:
    """The position after the last row that cannot move."""
    return log.position(log.watermark, after=True)


def by_scan(
    log: SourceLog, stem: Stem, n: int, floor: int, limit: I64, hit: Callable[[int, I64], bool]
) -> tuple[list[int], list[int]]:
    """The slow twin: every probe against every row."""
    first = max(floor, log.discarded)
    rows = log.read(first, stem.built)[0]
    pairs = [
        (i, first + j)
        for i in range(n)
        for j in range(rows.shape[0])
        if first + j < limit[i] and hit(i, rows[j])
    ]
    return [i for i, _ in pairs], [p for _, p in pairs]


def check_hash(rng: np.random.Generator, stem: HashStem, keys: int, floor: int) -> int:
    log, n = stem.log, 9
    probes = batch(rng, n, keys, np.zeros(n, np.int64))
    probes[2] = rng.choice(FLOATS, n).view(np.int64)
    wanted = np.ascontiguousarray(probes[[1 + c for c in stem.columns]])
    limit = rng.integers(floor, stem.built + 3, n)
    null: Bool | None = rng.random(n) < 0.2 if rng.random() < 0.8 else None

    def hit(i: int, row: I64) -> bool:
        if (null is not None and null[i]) or any((row[0] >> c) & 1 for c in stem.columns):
            return False
        return all(row[1 + c] == wanted[j, i] for j, c in enumerate(stem.columns))

    found = stem.probe(wanted, null, floor, limit)
    expected = by_scan(log, stem, n, floor, limit, hit)
    assert [part.tolist() for part in found] == list(expected)
    return len(expected[0])


def check_ordered(rng: np.random.Generator, stem: OrderedStem, keys: int, floor: int) -> int:
    log, n, (column,) = stem.log, 9, stem.columns
    if column == X:
        a = np.where(rng.random(n) < 0.5, rng.choice(FLOATS, n), rng.normal(size=n))
        low = ordered(a.view(np.int64))
        high = ordered((np.nan_to_num(a, nan=1.0, posinf=np.inf) + 0.7).view(np.int64))
    else:
        low = rng.integers(-keys, keys + 1, n)
        high = low + rng.integers(-1, keys, n)
    low[0], high[0] = LEAST, MOST
    limit = rng.integers(floor, stem.built + 3, n)
    null: Bool | None = rng.random(n) < 0.2 if rng.random() < 0.8 else None

    def hit(i: int, row: I64) -> bool:
        if (null is not None and null[i]) or (row[0] >> column) & 1:
            return False
        word = row[1 + column : 2 + column]
        if column == X:
            if np.isnan(word.view(np.float64)[0]):
                return False
            word = ordered(word)
        return bool(low[i] <= word[0] <= high[i])

    found = stem.probe(low, high, null, floor, limit)
    expected = by_scan(log, stem, n, floor, limit, hit)
    assert [part.tolist() for part in found] == list(expected)
    return len(expected[0])


def acquire(stems: Stems, log: SourceLog) -> list[Stem]:
    hashes = [stems.acquire("s", log, columns, StemKind.HASH) for columns in ((K,), (K, X), (X,))]
    return hashes + [stems.acquire("s", log, (column,), StemKind.ORDERED) for column in (K, X)]


@pytest.mark.parametrize("seed", range(6))
def test_stems_find_what_a_scan_finds(seed: int) -> None:
    """Batches in disorder, rows not yet closed, purges, trims, and a restart now and then."""
    rng = np.random.default_rng(seed)
    keys = int(rng.choice([1, 5, 1000]))
    delay, now, found = 20, 0, 0
    arena = Arena()
    log = new_log(arena)
    stems = acquire(Stems(arena), log)
    for step in range(60):
        n = int(rng.choice([0, 1, 3, 200 if seed % 2 else 20]))
        ts = np.maximum(now + rng.integers(0, 30, n), log.watermark)
        log.add(batch(rng, n, keys, ts), ts, step)
        now = max(now, int(ts.max(initial=now)))
        log.advance(now - delay)
        if rng.random() < 0.8:
            for stem in stems:
                until = closed(log)
                stem.build(int(rng.integers(stem.built, until + 1)) if step % 3 else until)
        if rng.random() < 0.3:
            gone = int(rng.integers(log.discarded, min(s.built for s in stems) + 1))
            for stem in stems:
                stem.purge(gone)
            log.trim(gone)
        if rng.random() < 0.15:
            kept, arena = arena.snapshot(), Arena()
            arena.restore(kept)
            log = new_log(arena)
            stems = acquire(Stems(arena), log)
        for stem in stems:
            floor = int(rng.integers(log.discarded, max(log.discarded, stem.built) + 1))
            floor = log.discarded if rng.random() < 0.5 else floor
            check = check_hash if isinstance(stem, HashStem) else check_ordered
            found += check(rng, stem, keys, floor)  # type: ignore[arg-type]
    assert found > 1000


def filled(n: int, keys: int = 7) -> tuple[Arena, SourceLog]:
    arena = Arena()
    log = new_log(arena)
    rows = batch(np.random.default_rng(1), n, keys, np.arange(n))
    log.add(rows, np.arange(n), 1)
    log.advance(n)
    log.trim(0)  # the step is over
    return arena, log


def test_rows_that_readers_are_done_with_need_no_memory() -> None:
    """A window of 500 rows over a long stream: state stays that of the window."""
    arena = Arena()
    log = new_log(arena)
    stems = acquire(Stems(arena), log)
    rng = np.random.default_rng(2)
    sizes = []
    for step in range(200):
        ts = np.arange(100 * step, 100 * step + 100)
        log.add(batch(rng, 100, 50, ts), ts, step)
        log.advance(int(ts[-1]))
        for stem in stems:
            stem.build(closed(log))
            stem.purge(closed(log) - 500)
        log.trim(closed(log) - 500)
        sizes.append([stem.nbytes for stem in stems])
    assert max(sizes) == max(sizes[:20])
    assert all(stem.rows() <= 2 * 600 for stem in stems)


def test_a_burst_is_forgotten() -> None:
    arena, log = filled(50_000)
    stems = acquire(Stems(arena), log)
    before = [stem.nbytes for stem in stems]
    for stem in stems:
        stem.build(closed(log))
        stem.purge(closed(log))
    large = [stem.nbytes for stem in stems]
    log.trim(closed(log))
    log.add(np.zeros((4, 1), np.int64), np.array([60_000]), 2)
    log.advance(60_000)
    for stem in stems:
        stem.build(closed(log))
        assert stem.rows() == 1
    assert [stem.nbytes for stem in stems] == before
    assert min(large) > 100 * max(before)


def test_purged_rows_of_the_log_can_be_reached_again() -> None:
    arena, log = filled(300)
    stems = acquire(Stems(arena), log)
    rng = np.random.default_rng(3)
    for stem in stems:
        stem.build(300)
        whole = stem.rows()
        stem.purge(200)
        assert stem.first == 200
        stem.reach(40)
        assert (stem.first, stem.built) == (40, 300)
        assert stem.rows() <= whole
        check = check_hash if isinstance(stem, HashStem) else check_ordered
        assert sum(check(rng, stem, 7, 40) for _ in range(20)) > 20  # type: ignore[arg-type]
        stem.reach(250)
        assert stem.first == 40


def test_rows_beyond_the_watermark_move_until_they_are_built() -> None:
    arena = Arena()
    log = new_log(arena)
    stem = Stems(arena).acquire("s", log, (K,), StemKind.HASH)
    for k, ts in ((1, 10), (2, 5), (1, 7)):
        log.add(np.array([[0], [k], [0], [ts]]), np.array([ts]), 1)
        log.advance(5)
    stem.build(closed(log))
    assert stem.built == 1
    log.advance(10)
    stem.build(closed(log))
    rows, positions = stem.probe(np.array([[1, 2]]), None, 0, np.array([3, 3]))
    assert (rows.tolist(), positions.tolist()) == ([0, 0, 1], [1, 2, 0])


def test_positions_beyond_32_bits() -> None:
    """Heads keep the low 32 bits of a position only."""
    arena = Arena()
    log = new_log(arena)
    log.pass_by(2**32 - 50)
    rows = batch(np.random.default_rng(4), 200, 3, np.arange(200))
    log.add(rows, np.arange(200), 1)
    log.advance(200)
    rng = np.random.default_rng(5)
    for stem in acquire(Stems(arena), log):
        for until in (2**32 - 20, 2**32 + 3, closed(log)):
            stem.build(until)
            check = check_hash if isinstance(stem, HashStem) else check_ordered
            assert sum(check(rng, stem, 3, log.discarded) for _ in range(20)) > 0  # type: ignore[arg-type]


def test_readers_share_and_the_last_one_frees() -> None:
    arena, log = filled(100)
    stems = Stems(arena)
    empty = arena.nbytes
    one = stems.acquire("s", log, (K,), StemKind.HASH)
    two = stems.acquire("s", log, (K,), StemKind.HASH)
    assert one is two
    assert stems.readers(one) == 2
    by_value = stems.acquire("s", log, (K,), StemKind.ORDERED)
    assert set(stems) == {one, by_value}
    one.build(100)
    stems.release(one)
    assert two.rows() == 100
    stems.release(two)
    stems.release(by_value)
    assert (len(stems), stems.readers(one), arena.nbytes) == (0, 0, empty)


def test_acquiring_again_finds_what_was_built() -> None:
    arena, log = filled(100)
    for stem in acquire(Stems(arena), log):
        stem.build(60)
    restored = Arena()
    restored.restore(arena.snapshot())
    again = acquire(Stems(restored), new_log(restored))
    assert [stem.built for stem in again] == [60] * 5
    assert restored.nbytes == arena.nbytes
