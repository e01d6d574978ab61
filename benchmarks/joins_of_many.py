"""What `band_join_many` and `select_join_many` share: a full window of S, and rows of R past it.

Everything goes through the public session, in one process, with EMIT CHANGES PER ROW. A row of R
brings about `TAKEN` pairs of a query and a row of S, however many queries there are: the ranges
are the narrower the more queries. Results leave with the row of R after 100 ms of event time, and
their deletions are measured too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.chart import chart
from benchmarks.pipeline import SECOND, Cost, Result, plain, scaled, timed
from penstock.indexes.pairs.router import PairStrategy
from penstock.session import Queries, Session

S_ROWS, BATCH, BATCHES = 100_000, 2_000, 12
RATE = 10_000  # rows of R per second of event time
TAKEN, GROUPS = 5, 30
WINDOWS = f"r [RANGE {SECOND // 10}] JOIN s [RANGE {3_600 * SECOND}]"
SLOW_ROWS = 50  # rows of R for the strategies that are compared with
_BUDGET = 2.0  # seconds of the rows that are measured, about


@dataclass(frozen=True, slots=True)
class Workload:
    """A template, parameters of so many queries, and columns of so many rows of either stream."""

    sql: str
    params: Callable[[int], pa.Table]
    columns: Callable[[str, int], dict[str, np.ndarray]]


@dataclass(slots=True)
class Pace:
    """Cost of a row of R, changes that it brings, and the cost of registering all queries."""

    row: Cost
    changes: float
    registering: Cost


def started(
    workload: Workload, queries: int, s_rows: int, strategy: PairStrategy = "auto"
) -> tuple[Session, Queries, Cost]:
    """A session in which the queries stand and the window of S is full."""
    ps = penstock.connect(runner="inprocess", pairs=strategy)
    for name in "rs":
        columns = ", ".join(f"{column} BIGINT" for column in workload.columns(name, 1))
        ps.sql(f"CREATE STREAM {name} ({columns}, ts BIGINT) TIMESTAMP BY ts")
    with timed() as cost:
        many = ps.query_many(workload.sql, workload.params(queries))
    ps.push("s", _clocked(workload.columns("s", s_rows), 0, s_rows))
    return ps, many, cost


@contextmanager
def listed_sets() -> Iterator[None]:
    """No set of queries is coded meanwhile: the queries of each pair are listed."""
    with patch("penstock.physical.pair_matches.PairMatches._coding", lambda matches: None):
        yield


def pace(
    workload: Workload, queries: int, s_rows: int, batch: int = BATCH, batches: int = BATCHES,
    strategy: PairStrategy = "auto",
) -> Pace:  # fmt: skip
    """What a row of R costs: the first two batches are not counted, then as many as time allows."""
    ps, many, registering = started(workload, queries, s_rows, strategy)
    columns, total, rows, changes = workload.columns("r", batch * batches), Cost(0.0, 0.0), 0, 0
    table = _clocked(columns, 1, RATE)
    for number in range(batches):
        with timed() as cost:
            some = table.slice(number * batch, batch)
            ps.push("r", some)
            ps.advance("s", some["ts"][-1].as_py())
            found = many.changes().num_rows
        if number >= 2:
            total.cpu, total.wall = total.cpu + cost.cpu, total.wall + cost.wall
            rows, changes = rows + batch, changes + found
        if total.cpu > _BUDGET:
            break
    ps.close()
    return Pace(Cost(total.cpu / rows, total.wall / rows), changes / rows, registering)


def _clocked(columns: dict[str, np.ndarray], second: int, rate: int) -> pa.Table:
    """Columns with times from a second on, so many in a second."""
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "ts": second * SECOND + np.arange(rows) * SECOND // rate})


def measure(
    workload: Workload, counts: tuple[int, ...], beside: PairStrategy, compared: int, scale: float
) -> tuple[Result, dict[int, Pace], Pace]:
    """Each number of queries by the engine's choice; the number `compared` also by another way."""
    s_rows, batch = int(S_ROWS * scale), max(int(BATCH * scale), 10)
    paces = {n: pace(workload, n, s_rows, batch) for n in scaled(counts, max(scale, 0.02))}
    n = scaled((compared,), max(scale, 0.02))[0]
    other = pace(workload, n, s_rows, SLOW_ROWS, 4, beside)
    out: Result = {"rows in S": s_rows}
    for n, found in paces.items():
        out[f"{n:,} queries"] = plain(1 / found.row.cpu, 1 / found.row.wall, "rows/s")
        out[f"{n:,} queries: changes per row"] = round(found.changes, 2)
        out[f"{n:,} queries: registering"] = plain(
            n / found.registering.cpu, n / found.registering.wall, "queries/s"
        )
    return out, paces, other


def lines_of(title: str, paces: dict[int, Pace]) -> Result:
    """The chart of the throughput by number of queries."""
    rates = {"rows of R": [1 / found.row.cpu for found in paces.values()]}
    return {"throughput": chart(title, "queries", "rows/s", list(paces), rates, log=True)}
