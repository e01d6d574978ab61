"""Spark: rows/s of four workloads beside the bare topology and the engine alone on one core.

The bare topology is the same job with shards that only produce as many bytes.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.bare_daemon import BYTES, LOGS
from benchmarks.pipeline import Result, at_least
from benchmarks.spark_contender import WORKLOADS
from benchmarks.spark_pipeline import apart, with_files

CONTENDER = "benchmarks.spark_contender"


def measure(workload: str, folder: Path) -> Result:
    """One workload: the job, the bare topology, the engine alone."""
    engine = apart(CONTENDER, workload, "engine", str(folder))
    out = max(int(record["result_bytes"]) for record in engine["progress"])
    logged = sum(record["log_bytes"] > record["rows_in"] for record in engine["progress"])
    logs = 2 * logged > len(engine["progress"])
    environment = {BYTES: str(out // 2), LOGS: str(int(logs))}
    bare = apart(CONTENDER, workload, "bare", str(folder), environment=environment)
    alone = apart(CONTENDER, workload, "alone", str(folder))
    share = engine["rate"] / bare["rate"]
    return {
        f"{workload}: job, M rows/s": round(engine["rate"] / 1e6, 3),
        f"{workload}: bare topology, M rows/s": round(bare["rate"] / 1e6, 3),
        f"{workload}: share of the bare topology": at_least(share, share, 0.6, "×"),
        f"{workload}: job / engine alone on one core": round(engine["rate"] / alone["rate"], 3),
        f"{workload}: MB out per batch": round(out / 1e6, 1),
    }


def run() -> Result:
    """All workloads."""
    found: Result = {}
    for workload, (streams, keys, _) in WORKLOADS.items():
        found |= with_files(streams, keys, lambda folder, w=workload: measure(w, folder))
    return found
