"""Spark: bytes of state written per batch while the window grows; two shards beside one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.pipeline import Result, at_least, at_most
from benchmarks.spark_pipeline import apart, open_session, pass_files, with_files

WINDOWS = (10, 600)  # seconds
ROWS, BATCHES = 500_000, 6


def written(folder: Path, window: int) -> dict[str, float]:
    """Bytes written per batch, and held at the end, of a grouped window."""
    ps = open_session(folder, ("r",))
    ps.query(f"SELECT k, count(*) AS n FROM r [RANGE {window} SECONDS] GROUP BY k EMIT ON COMMIT")
    passed = pass_files(ps)
    ps.close()
    batches = passed.facts["progress"]
    sizes = [batch["log_bytes"] + batch["snapshot_bytes"] for batch in batches]
    return {"written": float(np.mean(sizes)), "state": batches[-1]["state_bytes"]}


def rate(folder: Path, cores: int) -> dict[str, float]:
    """Rows per second of a grouped window on so many cores and shards; Java has no more either."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    ps = open_session(folder, ("r",), cores)
    ps.query(
        "SELECT k, count(*) AS n, sum(a) AS s, max(b) AS m "
        "FROM r [RANGE 60 SECONDS] GROUP BY k EMIT ON COMMIT"
    )
    passed = pass_files(ps)
    ps.close()
    return {"rate": passed.rate}


def measure(folder: Path) -> Result:
    """Both windows over the same files."""
    short, long = (apart(__name__, "written", str(folder), str(w)) for w in WINDOWS)
    growth = long["written"] / short["written"]
    return {
        "rows per batch": ROWS,
        f"MB written per batch, {WINDOWS[0]} s window": round(short["written"] / 1e6, 2),
        f"MB written per batch, {WINDOWS[1]} s window": round(long["written"] / 1e6, 2),
        f"MB of state, {WINDOWS[0]} s window": round(short["state"] / 1e6, 1),
        f"MB of state, {WINDOWS[1]} s window": round(long["state"] / 1e6, 1),
        "growth of what is written": at_most(growth, None, 1.05),
    }


def speed_up(folder: Path) -> Result:
    """Two shards on two cores beside one on one."""
    one, two = (apart(__name__, "rate", str(folder), str(n))["rate"] for n in (1, 2))
    ratio = float(np.divide(two, one))
    return {
        "one shard on one core, M rows/s": round(one / 1e6, 3),
        "two shards on two cores, M rows/s": round(two / 1e6, 3),
        "speed-up": at_least(ratio, ratio, 1.7, "×"),
    }


def run() -> Result:
    """Over fresh files."""
    found: Result = with_files(("r",), 1_000, measure, ROWS, BATCHES)
    return found | with_files(("r",), 1_000, speed_up)


if __name__ == "__main__":
    kind, folder_, number = sys.argv[1:4]
    result = {"written": written, "rate": rate}[kind](Path(folder_), int(number))
    print(json.dumps(result))
