"""cacq_fig7: twenty queries over one to twenty streams (CACQ §3.2.8, figure 7).

Each query has one predicate on field a of a stream chosen at random; all stand in one session.
The same number of rows arrives however many streams it is spread over, a batch of each in turn.
With one stream a row is delivered ten times on average, with twenty every other row once: what
counts in the paper is rows delivered, so the chart shows rows read beside them.
"""

from __future__ import annotations

from functools import partial

import penstock
from benchmarks.cacq_workloads import create_sensors, readings, spread_queries
from benchmarks.chart import chart
from benchmarks.pipeline import Batches, Cost, Result, at_most, cut, scaled, take_turns, timed

ROWS, BATCH, QUERIES = 400_000, 10_000, 20
SOURCES = (1, 2, 5, 10, 15, 20)
TARGET = 2.0  # the paper: by twenty sources performance has dropped by a factor of two


def _deliver(names: list[str], batches: Batches) -> tuple[int, Cost]:
    """Rows that all queries get, and the cost."""
    ps = penstock.connect(runner="inprocess")
    create_sensors(ps, *names)
    standing = [ps.query(text) for text in spread_queries(QUERIES, names, 2)]
    found = 0
    with timed() as cost:
        for name, rows in batches:
            ps.push(name, rows)
        found += sum(query.changes().num_rows for query in standing)
    return found, cost


def run(scale: float = 1.0) -> Result:
    rows, batch = int(ROWS * scale), max(1, int(BATCH * scale))
    counts, turns = scaled(SOURCES, scale), {}
    for count in counts:
        names = [f"s{i}" for i in range(count)]
        streams = {name: readings(rows // count, seed) for seed, name in enumerate(names)}
        turns[str(count)] = partial(_deliver, names, cut(streams, batch))
    runs = take_turns(turns)
    rates = {
        "delivered": [found / cost.cpu / 1e3 for found, cost in runs.values()],
        "read": [rows / cost.cpu / 1e3 for _, cost in runs.values()],
    }
    few, many = runs[str(counts[0])], runs[str(counts[-1])]
    per_row = Cost(many[1].cpu / many[0], many[1].wall / many[0])
    drop = per_row.cpu * few[0] / few[1].cpu, per_row.wall * few[0] / few[1].wall
    title = f"{QUERIES} queries over several streams"
    return {
        "rows": rows,
        f"time per row delivered, {counts[-1]} streams : 1": at_most(*drop, TARGET),
        "figure 7": chart(title, "streams", "1,000 rows/s", counts, rates),
    }
