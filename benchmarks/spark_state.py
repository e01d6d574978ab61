"""Spark: bytes of state written per batch while the window grows; two shards beside one."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.pipeline import Result, at_least, at_most
from benchmarks.spark_contender import WORKLOADS
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


def measure(folder: Path) -> Result:
    """Both windows over the same files."""
    short, long = (apart(__name__, str(folder), str(w)) for w in WINDOWS)
    growth = long["written"] / short["written"]
    return {
        "rows per batch": ROWS,
        f"MB written per batch, {WINDOWS[0]} s window": round(short["written"] / 1e6, 2),
        f"MB written per batch, {WINDOWS[1]} s window": round(long["written"] / 1e6, 2),
        f"MB of state, {WINDOWS[0]} s window": round(short["state"] / 1e6, 1),
        f"MB of state, {WINDOWS[1]} s window": round(long["state"] / 1e6, 1),
        "growth of what is written": at_most(growth, None, 1.05),
    }


def speed_up(workload: str, folder: Path) -> Result:
    """Two shards on two cores beside one on one."""
    one, two = (
        apart("benchmarks.spark_contender", workload, "engine", str(folder), str(n))["rate"]
        for n in (1, 2)
    )
    ratio = float(np.divide(two, one))
    return {
        f"{workload}: one shard on one core, M rows/s": round(one / 1e6, 3),
        f"{workload}: two shards on two cores, M rows/s": round(two / 1e6, 3),
        f"{workload}: speed-up": at_least(ratio, ratio, 1.7, "×"),
    }


def run() -> Result:
    """Over fresh files."""
    found: Result = with_files(("r",), 1_000, measure, ROWS, BATCHES)
    for workload in ("group_by", "filters", "join"):
        streams, keys, _ = WORKLOADS[workload]
        found |= with_files(streams, keys, partial(speed_up, workload))
    return found


if __name__ == "__main__":
    print(json.dumps(written(Path(sys.argv[1]), int(sys.argv[2]))))
