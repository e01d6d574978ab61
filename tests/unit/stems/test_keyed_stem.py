"""SteMs by key and order against a scan of the log, and how much work their upkeep is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.arrays import I64
from penstock.kernels import stem_runs
from penstock.logical.stem_kind import StemKind
from penstock.predicates.terms import ordered
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.convert import to_rows
from penstock.state.source_log import SourceLog
from penstock.state.strings import StringTable
from penstock.stems import stem as stem_module
from penstock.stems.keyed_stem import KeyedStem
from penstock.stems.stem import HashStem, OrderedStem
from penstock.stems.stems import Stems
from penstock.types import BIGINT, DOUBLE

SCHEMA = Schema((Field("k", BIGINT), Field("x", DOUBLE), Field("j", BIGINT)))
K, X, J = 0, 1, 2
FLOATS = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan, 1e300, -5e-324])
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
COLUMNS = ((X,), (K,), (K, X), (X, K), (X, X), (K, J, X), (X, J, K))


def new_log(arena: Arena) -> SourceLog:
    return SourceLog(arena.scope("streams/s"), SCHEMA, 0)


def as_rows(k: list[Any], x: list[Any], j: list[Any]) -> I64:
    """Rows as the engine stores them."""
    columns = [pa.array(k, pa.int64()), pa.array(x, pa.float64()), pa.array(j, pa.int64())]
    batch = pa.record_batch(columns, names=["k", "x", "j"])
    return to_rows(batch, SCHEMA, StringTable(Arena().scope("strings")))


def batch(rng: np.random.Generator, n: int, keys: int) -> I64:
    """Rows with NULLs in all columns, extreme integers, NaN, infinities and both zeros."""

    def some_null(values: I64) -> list[Any]:
        return [None if null else v for v, null in zip(values, rng.random(n) < 0.1, strict=True)]

    k = rng.integers(-keys, keys + 1, n)
    k[rng.random(n) < 0.05] = rng.choice([LEAST, MOST])
    x = np.where(rng.random(n) < 0.4, rng.choice(FLOATS, n), rng.normal(size=n).round(1))
    return as_rows(some_null(k), some_null(x), some_null(rng.integers(0, 3, n)))


def add(log: SourceLog, rows: I64, ts: I64) -> None:
    log.add(rows, ts, 1)
    log.advance(int(ts.max(initial=log.watermark)))


def acquire(stems: Stems, log: SourceLog) -> list[KeyedStem]:
    found = [stems.acquire("s", log, columns, StemKind.KEYED) for columns in COLUMNS]
    return [stem for stem in found if isinstance(stem, KeyedStem)]


def closed(log: SourceLog) -> int:
    """The position after the last row that cannot move."""
    return log.position(log.watermark, after=True)


def scanned(stem: KeyedStem) -> list[tuple[int, int, int]]:
    """The slow twin: key word (0 without a key), value and position of each row that has them."""
    *key, value = stem.columns
    rows = stem.log.read(stem.first, stem.built)[0]
    found = []
    for at, row in enumerate(rows):
        if any((row[0] >> c) & 1 for c in stem.columns):
            continue
        word = ordered(row[1 + value : 2 + value]) if value == X else row[1 + value : 2 + value]
        words = stem.words(np.array([[row[1 + c]] for c in key])) if key else [0]
        found.append((int(words[0]), int(word[0]), stem.first + at))
    return found


def check(stem: KeyedStem) -> int:
    """Entries are those of a scan, in runs in order, and few of rows that are gone."""
    keys, values, positions, offsets = stem.runs()
    has_key = len(stem.columns) > 1
    assert bool(keys.shape[0]) == has_key
    entries = []
    for begin, end in pairwise(offsets.tolist()):
        words = keys[begin:end].tolist() if has_key else [0] * (end - begin)
        run = list(
            zip(words, values[begin:end].tolist(), positions[begin:end].tolist(), strict=True)
        )
        assert run == sorted(run)
        assert not entries or not run or max(e[2] for e in entries) < min(e[2] for e in run)
        entries += run
    sizes = np.diff(offsets)
    assert (sizes[:-1] > 4 * sizes[1:]).all()
    assert (offsets[0], offsets[-1]) == (0, stem.rows())
    live = [entry for entry in entries if entry[2] >= stem.first]
    expected = scanned(stem)
    assert sorted(live) == sorted(expected)
    check_counts(stem, [entry[0] for entry in entries])
    return len(live)


def check_counts(stem: KeyedStem, words: list[int]) -> None:
    asked = np.array([*dict.fromkeys(words), 12345, LEAST, MOST], np.int64)
    if len(stem.columns) == 1:
        assert stem.count(asked).tolist() == [stem.rows()] * len(asked)
    else:
        assert stem.count(asked).tolist() == [words.count(word) for word in asked.tolist()]


def gone_of(stem: KeyedStem) -> int:
    """How many entries are of rows that are gone."""
    _, _, positions, offsets = stem.runs()
    return int((positions[: offsets[-1]] < stem.first).sum())


@pytest.mark.parametrize("seed", range(6))
def test_entries_are_those_of_a_scan(seed: int) -> None:
    """Batches of all sizes, purges, trims, purged rows reached again, restarts."""
    rng = np.random.default_rng(seed)
    keys = int(rng.choice([1, 5, 1000]))
    arena, now, found = Arena(), 0, 0
    log = new_log(arena)
    stems = acquire(Stems(arena), log)
    for step in range(50):
        n = int(rng.choice([0, 1, 3, 200 if seed % 2 else 20]))
        ts = np.sort(now + rng.integers(0, 30, n))
        add(log, batch(rng, n, keys), ts)
        now = log.watermark
        if rng.random() < 0.2:
            log.trim(int(rng.integers(log.discarded, min(s.built for s in stems) + 1)))
        for stem in stems:
            if rng.random() < 0.1:
                stem.purge(int(rng.integers(log.discarded, stem.built + 1)))
            if rng.random() < 0.1:
                stem.reach(int(rng.integers(log.discarded, stem.built + 1)))
            until = closed(log)
            stem.build(int(rng.integers(stem.built, until + 1)) if step % 3 else until)
            assert 4 * gone_of(stem) <= stem.rows()
            found += check(stem)
        if rng.random() < 0.15:
            kept, arena = arena.snapshot(), Arena()
            arena.restore(kept)
            log = new_log(arena)
            stems = acquire(Stems(arena), log)
    assert found > 5000


def test_special_floats_as_values_and_keys() -> None:
    """NaN is the largest value and equals itself as a key; both zeros are one; NULL is none."""
    arena = Arena()
    log = new_log(arena)
    x = [np.nan, np.inf, 0.0, None, -np.inf, -0.0, -np.nan, -1.0]
    n = len(x)
    add(log, as_rows([7] * n, x, [1] * n), np.arange(n))
    stems = Stems(arena)
    for columns in ((X,), (K, X), (K, J, X)):
        by_value = stems.acquire("s", log, columns, StemKind.KEYED)
        assert isinstance(by_value, KeyedStem)
        by_value.build(n)
        assert by_value.runs()[2][: by_value.rows()].tolist() == [4, 7, 2, 5, 1, 0, 6]
    by_key = stems.acquire("s", log, (X, K), StemKind.KEYED)
    assert isinstance(by_key, KeyedStem)
    by_key.build(n)
    asked = as_rows([7] * 4, [np.nan, 0.0, np.inf, 3.0], [1] * 4)[[1 + X]]
    assert by_key.count(by_key.words(asked)).tolist() == [2, 2, 1, 0]
    assert by_key.count(by_key.words(asked * 0)).tolist() == [2] * 4


def test_rows_with_a_null_in_any_column_have_no_entry() -> None:
    arena = Arena()
    log = new_log(arena)
    rows = as_rows([1, None, 1, 1, 2], [0.5, 0.5, None, 0.5, 0.25], [1, 1, 1, None, 1])
    add(log, rows, np.arange(5))
    for stem in acquire(Stems(arena), log):
        stem.build(5)
        null = [any((nulls >> c) & 1 for c in stem.columns) for nulls in rows[0].tolist()]
        assert sorted(stem.runs()[2][: stem.rows()]) == [p for p in range(5) if not null[p]]


def test_one_key_column_is_exact_and_several_are_hashed() -> None:
    arena = Arena()
    exact = [stem.exact_key for stem in acquire(Stems(arena), new_log(arena))]
    assert exact == [True, True, True, True, True, False, False]
    stem = KeyedStem(arena.scope("t"), new_log(arena), (K, J, X))
    one = np.array([[1, 1, 2, 2, 1], [1, 2, 1, 2, 1]])
    words = stem.words(one)
    assert words[0] == words[4]
    assert len(set(words.tolist())) == 4


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("columns", [(X,), (K, X)])
def test_gone_rows_are_few_beside_the_rest(columns: tuple[int, ...], in_order: bool) -> None:
    """Also where values rise with time, so that gone rows are neighbours, and no rows come."""
    arena = Arena()
    log = new_log(arena)
    stem = KeyedStem(arena.scope("t"), log, columns)
    n, window = 4000, 1500
    x = np.arange(n) if in_order else np.random.default_rng(1).permutation(n)
    for at in range(0, n, 50):
        part = slice(at, at + 50)
        # rows of the younger half of each window have no entry: those that have are older
        null = [None if at // 750 % 2 else float(v) for v in x[part]]
        add(log, as_rows([3] * 50, null, [0] * 50), np.arange(at, at + 50))
        stem.build(closed(log))
        log.trim(max(0, at + 50 - window))
        stem.build(closed(log))
        assert 4 * gone_of(stem) <= stem.rows()
    for first in range(n - window, n + 1, 100):
        log.trim(first)
        stem.build(closed(log))
        assert 4 * gone_of(stem) <= stem.rows()
    assert stem.rows() == 0


@pytest.mark.parametrize("null", [False, True])
def test_upkeep_takes_few_passes_over_a_row(null: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is merged some times per level of the runs, and dropped in passes over live ones."""
    work = {"merged": 0, "dropped": 0}

    def merge(*args: Any) -> None:
        work["merged"] += args[-1] - args[-3]
        stem_runs.merge_entries(*args)

    def drop(*args: Any) -> None:
        work["dropped"] += int(args[-2][-1])
        stem_runs.drop_entries(*args)

    monkeypatch.setattr(stem_module, "merge_entries", merge)
    monkeypatch.setattr(stem_module, "drop_entries", drop)
    arena = Arena()
    log = new_log(arena)
    stem = KeyedStem(arena.scope("t"), log, (K, X))
    n, step, window = 40_000, 10, 5_000
    rng = np.random.default_rng(2)
    most = 0
    for at in range(0, n, step):
        x = [None if null and i % 3 else v for i, v in enumerate(rng.random(step))]
        add(log, as_rows([1] * step, x, [0] * step), np.arange(at, at + step))
        log.trim(max(0, at - window))
        stem.build(closed(log))
        most = max(most, stem.runs()[3].shape[0] - 1)
    levels = np.log(window / step) / np.log(4)
    assert work["merged"] <= 5 * levels * n
    assert work["dropped"] <= 8 * n
    assert most <= levels + 2


def test_a_burst_is_forgotten() -> None:
    """Rows are sorted in parts when very many come at once; memory is given back."""
    arena = Arena()
    log = new_log(arena)
    stems = acquire(Stems(arena), log)
    before = [stem.nbytes for stem in stems]
    n = 150_000
    rng = np.random.default_rng(3)
    rows = np.zeros((4, n), np.int64)
    rows[1:] = rng.integers(0, 50, (3, n))
    add(log, rows, np.arange(n))
    log.trim(0)
    for stem in stems:
        stem.build(n)
        assert stem.rows() == n
        keys, values, positions, offsets = stem.runs()
        for begin, end in pairwise(offsets.tolist()):
            by = (keys[begin:end],) if keys.shape[0] else ()
            order = np.lexsort((positions[begin:end], values[begin:end], *by))
            assert (order == np.arange(end - begin)).all()
    log.trim(n)
    add(log, np.zeros((4, 1), np.int64), np.array([n]))
    for stem in stems:
        stem.build(closed(log))
        assert stem.rows() == 1
    assert [stem.nbytes for stem in stems] == before


def test_the_three_kinds_over_the_same_columns_are_different_stems() -> None:
    arena = Arena()
    log = new_log(arena)
    add(log, batch(np.random.default_rng(4), 100, 5), np.arange(100))
    log.trim(0)  # the step is over
    stems = Stems(arena)
    empty = arena.nbytes
    kinds = (StemKind.HASH, StemKind.ORDERED, StemKind.KEYED)
    found = [stems.acquire("s", log, (X,), kind) for kind in kinds]
    assert [type(stem) for stem in found] == [HashStem, OrderedStem, KeyedStem]
    assert [stem.kind for stem in found] == list(kinds)
    assert stems.acquire("s", log, (X,), StemKind.KEYED) is found[2]
    assert stems.acquire("s", log, (K, X), StemKind.KEYED) is not found[2]
    assert [stems.readers(stem) for stem in stems] == [1, 1, 2, 1]
    for stem in stems:
        stem.build(60)
    restored = Arena()
    restored.restore(arena.snapshot())
    again = Stems(restored)
    log = new_log(restored)
    other = [again.acquire("s", log, (X,), kind) for kind in kinds]
    assert [stem.built for stem in other] == [60] * 3
    assert [stem.rows() for stem in other] == [stem.rows() for stem in found]
    for stem in (*stems, found[2]):
        stems.release(stem)
    assert (len(stems), arena.nbytes) == (0, empty)
