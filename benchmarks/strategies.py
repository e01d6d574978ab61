"""Strategies beside each other: cost per row of each query, with a short and a long window.

All strategies take the same rows in turn, in batches, and must come to the same answer. The query
over few rows has one row per instant and is for re-evaluation, which does all its work anew at
each.
"""

from __future__ import annotations

from functools import partial

from benchmarks.pipeline import (
    SECOND,
    Batches,
    Cost,
    Result,
    connect,
    cut,
    plain,
    push,
    stream,
    take_turns,
    timed,
)
from penstock.logical.strategy import STRATEGIES, UPA
from penstock.session import Query

NAMES = tuple(s.name for s in STRATEGIES)
ROWS, RATE = 200_000, 1_000
FEW_ROWS, FEW_RATE = 600, 10
WINDOWS = (6, 60)  # seconds
QUERIES = {
    "DISTINCT": (1_000, "SELECT DISTINCT k FROM r [RANGE {0}]"),
    "GROUP BY": (1_000, "SELECT k, count(*) AS n, sum(a) AS t FROM r [RANGE {0}] GROUP BY k"),
    "JOIN": (10_000, "SELECT r.k, r.a, s.a FROM r [RANGE {0}] JOIN s [RANGE {0}] ON r.k = s.k"),
    "EXCEPT": (10_000, "SELECT k FROM r [RANGE {0}] EXCEPT SELECT k FROM s [RANGE {0}]"),
}


def under(strategy: str, sql: str, batches: Batches) -> tuple[int, Cost]:
    """Rows of the last answer, and the cost of all rows."""
    ps = connect("r", "s")
    query: Query = ps.query(sql, strategy=strategy)
    with timed() as cost:
        push(ps, query, batches)
    return query.view().num_rows, cost


def costs(names: tuple[str, ...], sql: str, values: int, rows: int, rate: int) -> Result:
    """Nanoseconds per row under each strategy, and how many times those of the default."""
    seconds = max(1, rows // rate)
    tables = {n: stream(rows // 2, values, seconds, seed) for seed, n in enumerate("rs", 1)}
    batches = cut(tables if "s [" in sql else {"r": tables["r"]})
    runs = take_turns({name: partial(under, name, sql, batches) for name in names}, times=2)
    assert len({answer for answer, _ in runs.values()}) == 1
    total = sum(table.num_rows for _, table in batches)
    own = runs[UPA.name][1]
    out: Result = {}
    for name, (_, cost) in runs.items():
        out[name] = plain(cost.cpu / total * 1e9, cost.wall / total * 1e9, "ns/row")
        if name != UPA.name:
            ratio = plain(cost.cpu / own.cpu, cost.wall / own.wall, f"× {UPA.name}")
            out[f"{name} / {UPA.name}"] = ratio
    return out


def run(scale: float = 1.0) -> Result:
    out: Result = {}
    for name, (values, sql) in QUERIES.items():
        for seconds in WINDOWS:
            text = sql.format(seconds * SECOND)
            fast = tuple(n for n in NAMES if n != "reevaluate")
            many = costs(fast, text, values, int(ROWS * scale), RATE)
            few = costs((UPA.name, "reevaluate"), text, values, int(FEW_ROWS * scale), FEW_RATE)
            few = {f"few rows: {part}": measure for part, measure in few.items()}
            for part, measure in (many | few).items():
                out[f"{name}, {seconds} s: {part}"] = measure
    return out
