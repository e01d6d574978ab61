"""One contender of a Spark benchmark, in its own process: `python -m … WORKLOAD KIND FOLDER`.

KIND is engine, bare (shards that do nothing), alone (in process, one core) or spark (Spark's own
operators). Prints a line of JSON: rows per second and facts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark_pipeline import COLUMNS, Passed, open_session, pass_files

WINDOW = "[RANGE 60 SECONDS]"
FILTERS = 1_000
WORKLOADS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "group_by": (
        ("r",), 1_000,
        f"SELECT k, count(*) n, sum(a) s, max(b) m FROM r {WINDOW} GROUP BY k EMIT ON COMMIT",
    ),
    "distinct": (("r",), 10_000, f"SELECT DISTINCT k FROM r {WINDOW} EMIT ON COMMIT"),
    "join": (
        ("r", "s"), 500_000,
        f"SELECT r.k, r.a, s.b FROM r {WINDOW} JOIN s {WINDOW} ON r.k = s.k",
    ),
    "filters": (
        ("r",), 1_000,
        """SELECT count(*) n FROM r [UNBOUNDED]
           WHERE a >= $alo AND a < $ahi AND b >= $blo AND c < $chi EMIT ON COMMIT""",
    ),
}  # fmt: skip


def filter_params() -> pa.Table:
    """A thousand boxes of values, about one row in forty in each."""
    rng = np.random.default_rng(5)
    low = rng.integers(0, 80, FILTERS)
    return pa.table(
        {
            "alo": low,
            "ahi": low + rng.integers(5, 20, FILTERS),
            "blo": rng.integers(20, 90, FILTERS),
            "chi": rng.integers(10, 80, FILTERS),
        }
    )


def register(ps: Any, workload: str) -> list[Any]:
    """The standing queries of a workload."""
    sql = WORKLOADS[workload][2]
    return ps.query_many(sql, filter_params()) if "$" in sql else [ps.query(sql)]


def engine(workload: str, folder: Path, cores: int, bare: bool) -> Passed:
    """The job on local Spark; Java has no more cores either."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    streams, _, _ = WORKLOADS[workload]
    options = {"spark.python.daemon.module": "benchmarks.bare_daemon"} if bare else {}
    ps = open_session(folder, streams, cores, spark_options=options)
    register(ps, workload)
    passed = pass_files(ps)
    ps.close()
    return passed


def alone(workload: str, folder: Path) -> Passed:
    """The same engine in process, on one core, over the same rows."""
    import penstock

    streams, _, _ = WORKLOADS[workload]
    ps = penstock.connect(runner="inprocess", keep_changes=0)
    for stream in streams:
        ps.sql(f"CREATE STREAM {stream} ({COLUMNS}) TIMESTAMP BY ts")
    register(ps, workload)
    passed = Passed()
    files = {stream: sorted((folder / stream).glob("*.parquet")) for stream in streams}
    for batch in range(len(files[streams[0]])):
        start = time.perf_counter()
        tables = {stream: pq.read_table(files[stream][batch]) for stream in streams}
        for stream, table in tables.items():
            ps.push(stream, table)
        passed.seconds.append(time.perf_counter() - start)
        passed.rows = sum(table.num_rows for table in tables.values())
    return passed


def spark_own(workload: str, folder: Path, cores: int) -> Passed:
    """What Spark itself offers for the workload, written in the way that was fastest."""
    from benchmarks.spark_own import OWN

    return OWN[workload](folder, cores)


def main(workload: str, kind: str, folder: str, cores: int = 2) -> None:
    """Run and print."""
    path = Path(folder)
    if kind == "alone":
        passed = alone(workload, path)
    elif kind == "spark":
        passed = spark_own(workload, path, cores)
    else:
        passed = engine(workload, path, cores, kind == "bare")
    facts = {
        "rate": passed.rate, "seconds": passed.seconds, "rows": passed.rows, **passed.facts,
    }  # fmt: skip
    print(json.dumps(facts, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
