"""Spark: a sliding-window join with deletions beside Spark's append-only stream-stream join."""

from __future__ import annotations

from pathlib import Path

from benchmarks.pipeline import Result, at_least
from benchmarks.spark_contender import WORKLOADS
from benchmarks.spark_pipeline import apart, with_files

CONTENDER = "benchmarks.spark_contender"
BATCHES = 5  # Spark's join takes a minute for each


def measure(folder: Path) -> Result:
    """Ours and theirs over the same files."""
    ours = apart(CONTENDER, "join", "engine", str(folder))
    theirs = apart(CONTENDER, "join", "spark", str(folder))
    ratio = ours["rate"] / theirs["rate"]
    return {
        "ours, M rows/s": round(ours["rate"] / 1e6, 3),
        "Spark's stream-stream join, M rows/s": round(theirs["rate"] / 1e6, 3),
        "ours / Spark's": at_least(ratio, ratio, 10, "×"),
    }


def run() -> Result:
    """Over fresh files."""
    streams, keys, _ = WORKLOADS["join"]
    found: Result = with_files(streams, keys, measure, batches=BATCHES)
    return found
