"""Window join: every result inserted and deleted, beside Polars and DuckDB joining once, offline.

The others join the whole input on (key, times less than a window apart), which are the rows the
standing join inserts over the run; Penstock's time includes deleting each of them again. All
start from the same Arrow tables, give Arrow, use one thread and take turns in one process. Each
of the others is written in the way that was fastest of those tried.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when polars is imported

from collections.abc import Callable

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipeline import (
    MINUTE,
    SECOND,
    Cost,
    Result,
    at_most,
    connect,
    cut,
    plain,
    push,
    stream,
    take_turns,
    timed,
)

ROWS, KEYS, SECONDS = 300_000, 10_000, 300  # of each of the two streams
TARGET = 2.0
END = SECONDS * SECOND + MINUTE  # everything has expired
WINDOW = f"[RANGE {MINUTE}]"
SQL = f"SELECT r.k, r.a, s.a AS b FROM r {WINDOW} JOIN s {WINDOW} ON r.k = s.k"
OFFLINE = f"SELECT r.k, r.a, s.a AS b FROM r JOIN s ON r.k = s.k WHERE abs(r.ts - s.ts) < {MINUTE}"


def penstock(streams: dict[str, pa.Table]) -> tuple[int, Cost]:
    """Changes and cost of the standing join, until all has expired."""
    batches = cut(streams)
    ps = connect(*streams)
    query = ps.query(SQL)
    with timed() as cost:
        changes = push(ps, query, batches)
        ps.advance(ts=END)
        changes += query.changes().num_rows
    return changes, cost


def polars(streams: dict[str, pa.Table], engine: str) -> pa.Table:
    """The joined rows by one of Polars' engines."""
    r, s = (pl.from_arrow(t).lazy() for t in streams.values())
    near = (pl.col("ts") - pl.col("ts_right")).abs() < MINUTE
    rows = r.join(s, on="k").filter(near).select("k", "a", b="a_right")
    return rows.collect(engine=engine).to_arrow()


def database(streams: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the streams as Arrow tables that it reads in place."""
    db = duckdb.connect(config={"threads": 1})
    for name, table in streams.items():
        db.register(name, table)
    return db


def check(streams: dict[str, pa.Table], offline: pa.Table) -> int:
    """Inserted, deleted and offline rows are the same ones; how many."""
    ps = connect(*streams)
    query = ps.query(SQL)
    sums: dict[str, list[int]] = {"insert": [0, 0], "delete": [0, 0]}
    for name, table in [*cut(streams), ("", None)]:
        ps.push(name, table) if name else ps.advance(ts=END)
        changes = query.changes()
        for kind, total in sums.items():
            rows = changes.filter(pc.equal(changes["_change_type"].cast(pa.string()), kind))
            total[0] += rows.num_rows
            total[1] += _fingerprint(rows)
    joined: int = offline.num_rows
    expected = [joined, _fingerprint(offline)]
    if sums["insert"] != expected or sums["delete"] != expected:
        raise AssertionError(f"rows and fingerprints: {sums}, offline {expected}")
    return joined


def _fingerprint(rows: pa.Table) -> int:
    if not rows.num_rows:
        return 0
    mixed = pc.multiply(pc.add(rows["a"], 1), pc.add(rows["b"], rows["k"]))
    total: int = pc.sum(mixed).as_py()
    return total


def _offline(join: Callable[[], pa.Table]) -> tuple[int, Cost]:
    with timed() as cost:
        rows = join()
    return rows.num_rows, cost


def run(scale: float = 1.0) -> Result:
    rows = int(ROWS * scale)
    streams = {name: stream(rows, KEYS, SECONDS, seed) for seed, name in enumerate("rs")}
    db = database(streams)
    joined = check(streams, db.sql(OFFLINE).to_arrow_table())
    runs = take_turns({
        "penstock": lambda: penstock(streams),
        "polars, streaming": lambda: _offline(lambda: polars(streams, "streaming")),
        "polars, in memory": lambda: _offline(lambda: polars(streams, "in-memory")),
        "duckdb": lambda: _offline(lambda: db.sql(OFFLINE).to_arrow_table()),
    }, times=5)  # fmt: skip
    mine = runs.pop("penstock")[1]
    out: Result = {"rows in": 2 * rows, "joined rows": joined}
    out["penstock"] = plain(mine.cpu, mine.wall, "s")
    for name, (found, cost) in runs.items():
        if found != joined:
            raise AssertionError(f"{name} joined {found} rows, not {joined}")
        out[name] = plain(cost.cpu, cost.wall, "s")
    for name, (_, cost) in runs.items():
        ratio = at_most(mine.cpu / cost.cpu, mine.wall / cost.wall, TARGET)
        out[f"penstock / {name}"] = ratio
    return out
