"""Two windowed streams joined on a key: the operator against Polars and DuckDB, one thread each.

The others join the whole input at once on (key, time distance below the window), which gives
the same rows as the standing join emits over the run. Prints times and their ratios.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl

from penstock.delta import BEGINNING, I64, Clock, Delta, Level
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.context import Context, Failures
from penstock.physical.join import JoinOp
from penstock.physical.operator import Operator
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, TIMESTAMP

ROWS, SECONDS, KEYS, WINDOW, BATCH = 300_000, 300, 10_000, 60_000_000, 10_000


class Source(Operator):
    """Stands for a window scan: only its edge is used."""

    def __init__(self, names: str, arena: Arena) -> None:
        types = (BIGINT, BIGINT, TIMESTAMP)
        schema = Schema(tuple(Field(n, t) for n, t in zip(names.split(), types, strict=True)))
        edge = Edge(schema, Pattern.WKS, Level.EPOCH, True, False, fifo=True, span=WINDOW)
        super().__init__((), edge, arena.scope(names))


def make(rng: np.random.Generator) -> I64:
    """Columns key, value, ts of one stream."""
    ts = np.sort(rng.integers(0, SECONDS * 1_000_000, ROWS))
    return np.array([rng.integers(0, KEYS, ROWS), rng.integers(0, 1_000_000, ROWS), ts])


def batches(columns: I64) -> list[Delta]:
    """The stream cut into batches."""
    out = []
    for step, start in enumerate(range(0, ROWS, BATCH)):
        part = columns[:, start : start + BATCH]
        n = part.shape[1]
        rows = np.vstack([np.zeros((1, n), np.int64), part])
        lin = np.full(n, step)
        out.append(Delta(rows, part[2].copy(), part[2] + WINDOW, np.ones(n, np.int8), lin))
    return out


def run_operator(left: list[Delta], right: list[Delta]) -> tuple[int, float]:
    """Results and seconds of one run over fresh state."""
    arena = Arena()
    ctx = Context(StringTable(arena.scope("strings")), {}, Failures())
    sides = (Source("k a t", arena), Source("k2 b t2", arena))
    join = JoinOp(
        *sides, ((0, 0),), None, None, ctx, arena.scope("join"),
        lambda: np.zeros(1, np.int64), False, False,
    )  # fmt: skip
    found, before, start = 0, BEGINNING, time.perf_counter()
    for a, b in zip(left, right, strict=True):
        now = int(min(a.ts[-1], b.ts[-1]))
        found += len(join.step([a, b], Clock(before, now)))
        before = now
    return found, time.perf_counter() - start


def best(times: int, run: Callable[[], tuple[int, float]]) -> tuple[int, float]:
    """The fastest of several runs."""
    return min((run() for _ in range(times)), key=lambda result: result[1])


def run_polars(left: I64, right: I64) -> tuple[int, float]:
    """Join all, keep pairs within a window of each other."""
    a = pl.DataFrame({"k": left[0], "a": left[1], "t": left[2]})
    b = pl.DataFrame({"k2": right[0], "b": right[1], "t2": right[2]})
    start = time.perf_counter()
    near = (pl.col("t") - pl.col("t2")).abs() < WINDOW
    rows = (
        a.lazy().join(b.lazy(), left_on="k", right_on="k2", coalesce=False).filter(near).collect()
    )
    return rows.height, time.perf_counter() - start


def run_duckdb(left: I64, right: I64) -> tuple[int, float]:
    """The same in SQL, result as Arrow."""
    db = duckdb.connect(config={"threads": 1})
    db.register("l", pl.DataFrame({"k": left[0], "a": left[1], "t": left[2]}).to_arrow())
    db.register("r", pl.DataFrame({"k2": right[0], "b": right[1], "t2": right[2]}).to_arrow())
    db.execute("CREATE TABLE a AS FROM l; CREATE TABLE b AS FROM r")
    start = time.perf_counter()
    query = f"SELECT * FROM a JOIN b ON a.k = b.k2 WHERE abs(t - t2) < {WINDOW}"
    rows = db.sql(query).to_arrow_table()
    return rows.num_rows, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(7)
    left, right = make(rng), make(rng)
    cut = batches(left), batches(right)
    run_operator(*cut)  # compile
    results = {
        "penstock": best(args.repeat, lambda: run_operator(*cut)),
        "polars": best(args.repeat, lambda: run_polars(left, right)),
        "duckdb": best(args.repeat, lambda: run_duckdb(left, right)),
    }
    mine = results["penstock"][1]
    report = {
        name: {
            "rows": rows,
            "seconds": round(seconds, 4),
            "penstock_ratio": round(mine / seconds, 3),
        }
        for name, (rows, seconds) in results.items()
    }
    if args.json:
        print(json.dumps(report))
        return
    for name, line in report.items():
        print(
            f"{name:10} {line['rows']:>10} rows {line['seconds']:>8} s   penstock/{name} = "
            f"{line['penstock_ratio']}"
        )


if __name__ == "__main__":
    main()
