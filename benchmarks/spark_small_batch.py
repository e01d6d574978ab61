"""Spark: the cost of a batch of one row, beside a trivial two-level stateful query."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from benchmarks.pipeline import Result, at_most
from benchmarks.spark_pipeline import apart

BATCHES, WARM = 40, 15


def ours(batches: int) -> list[float]:
    """Seconds from a push to its batch being delivered, with a join and a count standing."""
    import penstock

    seconds = []
    with penstock.connect(master="local[2,4]", shards=2) as ps:
        for name in ("r", "s"):
            ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        ps.query("SELECT k, count(*) AS n FROM r [RANGE 100] GROUP BY k")
        ps.query("SELECT r.k, s.a FROM r [RANGE 100] JOIN s [RANGE 100] ON r.k = s.k")
        for number in range(batches):
            start = time.perf_counter()
            ps.push("r", [{"k": number % 7, "a": number, "ts": number}])
            ps.flush()
            seconds.append(time.perf_counter() - start)
    return seconds


def run() -> Result:
    """The median batch of both, once they are warm."""
    mine = float(np.median(apart(__name__, str(BATCHES))["seconds"][WARM:]))
    trivial = float(np.median(apart("benchmarks.spark_trivial", str(BATCHES))["seconds"][WARM:]))
    return {
        "ours, ms": round(1000 * mine),
        "trivial two-level query, ms": round(1000 * trivial),
        "ours / trivial": at_most(mine / trivial, mine / trivial, 1.3),
    }


if __name__ == "__main__":
    print(json.dumps({"seconds": ours(int(sys.argv[1]))}))
