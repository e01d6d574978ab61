"""query_many: parameter rows of one template: registering, matching, dropping, memory.

Each row of the stream meets one query on average. 100,000 queries are read and dropped one by
one; a million are registered and dropped together, and what they take is seen from outside: by
how much the memory of the process has grown.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.pipeline import MINUTE, Result, at_most, connect, cut, plain, stream, timed

QUERIES, ROWS, DROPS, READS = 100_000, 10_000, 200, 200
MANY = 1_000_000
TARGET = 10.0
SQL = f"SELECT k, a FROM r [RANGE {MINUTE}] WHERE k = $key AND a >= $least"


def run(scale: float = 1.0) -> Result:
    return _single(int(QUERIES * scale), int(ROWS * scale)) | _together(int(MANY * scale))


def _params(queries: int) -> pa.Table:
    return pa.table({"key": np.arange(queries), "least": np.zeros(queries, np.int64)})


def resident() -> float:
    """Megabytes of memory that the process has now; nothing where the system does not tell."""
    gc.collect()
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else float("nan")


def _together(queries: int) -> Result:
    """Queries that are registered, and dropped, as one table."""
    ps, params, rows = connect("r"), _params(queries), stream(1_000, queries, 20, seed=3)
    ps.query_many(SQL, params.slice(0, 2_000)).drop()
    before = resident()
    with timed() as registering:
        made = ps.query_many(SQL, params)
    ps.push("r", rows)
    after = resident()
    with timed() as dropping:
        made.drop()
    return {
        f"{queries:,} together": plain(queries / registering.cpu, queries / registering.wall,
                                       "rows/s"),
        f"{queries:,} dropped together": plain(queries / dropping.cpu, queries / dropping.wall,
                                               "rows/s"),
        f"memory of {queries:,}": f"{after - before:,.0f} MB",
    }  # fmt: skip


def _single(queries: int, rows: int) -> Result:
    """Queries that are read and dropped one by one."""
    params, ps = _params(queries), connect("r")
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
