"""cacq_fig6: many random queries over one stream, together and each alone (CACQ §3.2.8, figure 6).

Readings of five fields in [0, 100); a query compares each field with probability ½. Together all
queries stand in one session; alone each has a session of its own that reads the same batches.
Time covers pushing the rows and reading every changelog; what counts is rows delivered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import penstock
from benchmarks.cacq_workloads import create_sensors, random_queries, readings
from benchmarks.chart import chart
from benchmarks.pipeline import Batches, Cost, Result, at_least, cut, scaled, take_turns, timed

ROWS, BATCH = 10_000, 1_000
COUNTS = (1, 2, 5, 10, 20, 50, 100)
TARGET = 2.0  # the paper: about twice the throughput
Turn = Callable[[], tuple[int, Cost]]


def together(queries: list[str], batches: Batches) -> tuple[int, Cost]:
    """Rows delivered by one session with all queries, and the cost."""
    ps = penstock.connect(runner="inprocess")
    create_sensors(ps, "s")
    standing = [ps.query(text) for text in queries]
    found = 0
    with timed() as cost:
        for name, rows in batches:
            ps.push(name, rows)
            found += sum(query.changes().num_rows for query in standing)
    return found, cost


def alone(queries: list[str], batches: Batches) -> tuple[int, Cost]:
    """The same by a session for each query."""
    found, whole = 0, Cost(0.0, 0.0)
    for text in queries:
        some, cost = together([text], batches)
        found += some
        whole.cpu, whole.wall = whole.cpu + cost.cpu, whole.wall + cost.wall
    return found, whole


def run(scale: float = 1.0) -> Result:
    batches = cut({"s": readings(int(ROWS * scale), 1)}, max(1, int(BATCH * scale)))
    counts = scaled(COUNTS, scale)
    rates: dict[str, list[float]] = {"together": [], "alone": []}
    last = Cost()
    for count in counts:
        queries = random_queries(count, 2)
        turns: dict[str, Turn] = {
            "together": partial(together, queries, batches),
            "alone": partial(alone, queries, batches),
        }
        runs = take_turns(turns, times=1)
        if len({found for found, _ in runs.values()}) > 1:
            raise AssertionError(f"{count} queries: {runs}")
        for name, (found, cost) in runs.items():
            rates[name].append(found / cost.cpu / 1e3)
        one, each = runs["together"][1], runs["alone"][1]
        last = Cost(each.cpu / one.cpu, each.wall / one.wall)
    title = "Random queries over one stream"
    return {
        "rows": int(ROWS * scale),
        f"{counts[-1]} queries: together against alone": at_least(last.cpu, last.wall, TARGET, "×"),
        "figure 6": chart(title, "queries", "1,000 rows delivered/s", counts, rates),
    }
