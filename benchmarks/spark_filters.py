"""Spark: 1,000 range filters, matches counted per query, beside the rules joined as a table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.pipeline import Result, at_least
from benchmarks.spark_pipeline import apart, with_files

CONTENDER = "benchmarks.spark_contender"


def measure(folder: Path) -> Result:
    """Ours and theirs over the same files."""
    ours = apart(CONTENDER, "filters", "engine", str(folder))
    theirs = apart(CONTENDER, "filters", "spark", str(folder))
    ratio = ours["rate"] / theirs["rate"]
    return {
        "ours, M rows/s": round(ours["rate"] / 1e6, 3),
        "Spark's join with the rules, M rows/s": round(theirs["rate"] / 1e6, 3),
        "ours / Spark's": at_least(ratio, ratio, 8, "×"),
    }


def run() -> Result:
    """Over fresh files."""
    found: Result = with_files(("r",), 1_000, measure)
    return found
