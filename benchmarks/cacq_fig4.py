"""cacq_fig4: throughput of five queries by the bits of state of a row (CACQ §3.2.4, figure 4).

A row of a flow carries a bit for each place of a query. Places do not shrink when queries leave:
so more queries stand beside the five, and are dropped before rows come. What is left is the cost
of the bits, apart from that of queries. Time covers pushing the rows and reading the changelogs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.cacq_workloads import FIELDS, create_sensors, random_queries, readings
from benchmarks.chart import chart
from benchmarks.pipeline import Batches, Cost, Result, at_least, cut, timed
from penstock.session import Query, Session

ROWS, BATCH, QUERIES, TURNS = 200_000, 10_000, 5, 3
BITS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
AT_ONCE = 800  # queries of a template that are registered and dropped
TARGET = 1 / 3  # the paper: more than a factor of three from 15 to 3,000 bits


def _session(bits: int) -> tuple[Session, list[Query]]:
    """Five standing queries whose rows carry so many bits."""
    ps = penstock.connect(runner="inprocess")
    create_sensors(ps, "s")
    standing = [ps.query(text) for text in random_queries(QUERIES, 2)]
    passing = []
    for field in FIELDS * (bits // AT_ONCE // len(FIELDS) + 1):
        for sign in ("<", ">", "<=", ">="):
            count = min(AT_ONCE, bits - QUERIES - sum(len(made) for made in passing))
            params = pa.table({"x": np.arange(count)})
            if count:
                sql = f"SELECT idx FROM s WHERE {field} {sign} $x"
                passing.append(ps.query_many(sql, params))
    for made in passing:
        made.drop()
    return ps, standing


def _turn(bits: int, batches: Batches) -> tuple[int, int, Cost]:
    """The bits that rows carry, rows delivered, and the cost."""
    ps, standing = _session(bits)
    found = 0
    with timed() as cost:
        for name, rows in batches:
            ps.push(name, rows)
            found += sum(query.changes().num_rows for query in standing)
    (flow,) = ps.stats()["flows"]
    return flow["lineage_bits"], found, cost


def run(scale: float = 1.0) -> Result:
    rows = max(int(ROWS * scale), 1_000)
    batches = cut({"s": readings(rows, 1)}, BATCH)
    best = {bits: Cost() for bits in BITS}
    delivered = set()
    for _ in range(TURNS + 1):  # the first turns compile
        for bits, cost in best.items():
            carried, found, took = _turn(bits, batches)
            if carried != bits:
                raise AssertionError(f"rows carry {carried} bits, not {bits}")
            delivered.add(found)
            cost.least(took)
    if len(delivered) > 1:
        raise AssertionError(f"rows delivered: {delivered}")
    first, last = best[BITS[0]], best[BITS[-1]]
    rates = {"five queries": [rows / cost.cpu / 1e3 for cost in best.values()]}
    return {
        "rows": rows,
        f"{BITS[-1]:,} bits, of the throughput at {BITS[0]}": at_least(
            100 * first.cpu / last.cpu, 100 * first.wall / last.wall, round(100 * TARGET), "%"
        ),
        "figure 4": chart("Five queries over one stream", "bits per row", "1,000 rows/s",
                          list(BITS), rates),
    }  # fmt: skip
