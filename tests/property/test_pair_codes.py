"""Sets of queries that stay coded: the same answers as sets that are listed, and as DuckDB's."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from oracle.check import compare
from oracle.driver import Trace
from penstock.indexes.pairs.router import PairStrategy
from property.cases import seeds, tally
from property.pair_population import (
    Population,
    use_codes,
    use_index,
    use_no_codes,
    use_small_batches,
    use_strategy,
)
from property.pair_texts import Texts, scenario

CODING: tuple[PairStrategy, ...] = ("hotspot", "ssi", "auto")


def trace_of(seed: int, **options: Any) -> Trace:
    """A population of a template or two that are pure bands."""
    rng = Random(seed)
    templates = [Texts(rng, literals=0.0).pure() for _ in range(rng.choice((1, 1, 2)))]
    return Population(rng, scenario(rng, 48), templates, **options).run()


def use(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A strategy that codes."""
    use_index(monkeypatch)
    use_strategy(monkeypatch, CODING[seed % 3], seed)
    if seed % 5 < 2:
        use_small_batches(monkeypatch)


@pytest.mark.parametrize("chunk", range(6))
def test_coded_sets_are_exact(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = use_codes(monkeypatch)
    for seed in seeds(81, chunk, 200):
        use(monkeypatch, seed)
        trace = trace_of(seed)
        compare(trace)
        tally["pairs with coded sets"] += len(trace.sqls)
    tally["codes of sets"] += sum(codes)


@pytest.mark.parametrize("chunk", range(4))
def test_coded_sets_are_those_that_are_listed(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(82, chunk, 60):
        use(monkeypatch, seed)
        with monkeypatch.context() as patch:
            use_no_codes(patch)
            listed = trace_of(seed)
        with monkeypatch.context() as patch:
            use_codes(patch)
            coded = trace_of(seed)
        assert coded.seen == listed.seen
        tally["pairs with coded and listed sets"] += len(coded.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_coded_sets_on_shards(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = use_codes(monkeypatch)
    for seed in seeds(83, chunk, 60):
        use(monkeypatch, seed)
        trace = trace_of(seed, shards=(2, 4)[chunk % 2], restores=0.1)
        compare(trace)
        tally["pairs with coded sets on shards"] += len(trace.sqls)
    tally["codes of sets"] += sum(codes)


@pytest.mark.parametrize("chunk", range(4))
def test_coded_sets_are_put_away_and_come_back(
    chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes = use_codes(monkeypatch)
    for seed in seeds(84, chunk, 60):
        use(monkeypatch, seed)
        checkpoint = tmp_path / str(seed) if seed % 2 else None
        trace = trace_of(seed, restores=0.25, checkpoint=checkpoint)
        compare(trace)
        tally["pairs with coded sets after a restart"] += len(trace.sqls)
    tally["codes of sets"] += sum(codes)


# ---- as a user meets them, with as many queries as make codes worth it ---------------
TEXT = (
    "SELECT r.b, s.b AS t FROM r [RANGE 4] JOIN s [RANGE 9] ON s.b - r.b BETWEEN $low AND $high"
    " EMIT {emit} PER ROW"
)
POINTS, QUERIES = (-500, -460, 0, 30, 700), 600


def params(rng: Random, first: int, count: int) -> pa.Table:
    """Intervals around a few points; those of neighbours overlap."""
    rows = []
    for n in range(first, first + count):
        point = rng.choice(POINTS)
        low, high = point - rng.randrange(40), point + rng.randrange(40)
        rows.append({"qid": f"q{n:04}", "low": low, "high": high})
    return pa.Table.from_pylist(rows)


def told(emit: str, seed: int, shards: int | None) -> list[Any]:
    """Changes, views and answers while queries come and go; lists of names in their order."""
    rng, seen = Random(seed), list[Any]()
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        for stream in "rs":
            ps.sql(f"CREATE STREAM {stream} (b BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 99")
        groups = [ps.query_many(TEXT.format(emit=emit), params(rng, 0, QUERIES))]
        for step in range(1, 14):
            for stream in "rs":
                rows = [{"b": rng.randrange(-300, 300), "ts": step} for _ in range(12)]
                ps.push(stream, rows)
            seen += [group.changes().to_pylist() for group in groups]
            if step % 4 == 0:
                more = params(rng, QUERIES * step, 50)
                history = bool(step % 8)
                groups.append(ps.query_many(TEXT.format(emit=emit), more, history=history))
            if step % 3 == 0:
                ps[f"q{step:04}"].drop()
            seen += [group.view().to_pylist() for group in groups]
            seen.append(ps[f"q{100 + step:04}"].view().to_pylist())
            seen.append(ps[f"q{200 + step:04}"].changes().to_pylist())
    return seen


@pytest.mark.parametrize("emit", ["CHANGES", "ON COMMIT"])
@pytest.mark.parametrize("shards", [None, 2])
def test_readers_cannot_tell_how_sets_are_kept(
    emit: str, shards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_index(monkeypatch)
    traces = []
    for strategy in CODING[:2]:
        with monkeypatch.context() as patch:
            use_strategy(patch, strategy)
            codes = use_codes(patch)
            traces.append(told(emit, 5, shards))
            assert sum(codes) > 100
        with monkeypatch.context() as patch:
            use_strategy(patch, strategy)
            use_no_codes(patch)
            traces.append(told(emit, 5, shards))
    assert traces[0][0], "there are changes"
    assert all(trace == traces[0] for trace in traces[1:])
