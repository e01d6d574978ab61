"""query_many: 100,000 parameter rows of one template: registering, pushing rows past, dropping.

Each row of the stream meets one query on average. Rows are matched by a compiled scan of the
parameters, so the cost of a push goes with rows × queries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.pipeline import MINUTE, Result, at_most, connect, cut, plain, stream, timed

QUERIES, ROWS, DROPS, READS = 100_000, 10_000, 200, 200
TARGET = 10.0
SQL = f"SELECT k, a FROM r [RANGE {MINUTE}] WHERE k = $key AND a >= $least"


def run(scale: float = 1.0) -> Result:
    queries, rows = int(QUERIES * scale), int(ROWS * scale)
    params = pa.table({"key": np.arange(queries), "least": np.zeros(queries, np.int64)})
    ps = connect("r")
    warm = ps.query_many(SQL, params.slice(0, 10))
    ps.push("r", stream(10, 10, 1, seed=1))
    for query in warm:
        query.drop()
    batches = cut({"r": stream(rows, queries, 20, seed=2)})
    with timed() as registering:
        handles = ps.query_many(SQL, params)
    with timed() as pushing:
        for name, table in batches:
            ps.push(name, table)
    with timed() as reading:
        found = sum(query.changes().num_rows for query in handles[:READS])
    with timed() as dropping:
        for query in handles[:DROPS]:
            query.drop()
    pairs = queries * rows / 1e9
    return {
        "queries": queries,
        "rows in": rows,
        f"changes of {READS} queries": found,
        "registering": at_most(registering.cpu, registering.wall, TARGET, "s"),
        "pushing": plain(rows / pushing.cpu, rows / pushing.wall, "rows/s"),
        "matching": plain(pairs / pushing.cpu, pairs / pushing.wall, "G pairs/s"),
        "reading": plain(reading.cpu / READS * 1e3, reading.wall / READS * 1e3, "ms/query"),
        "dropping": plain(dropping.cpu / DROPS * 1e3, dropping.wall / DROPS * 1e3, "ms/query"),
        "state": f"{ps.stats()['bytes']:,} bytes",
    }
