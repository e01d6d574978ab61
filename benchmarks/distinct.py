"""DISTINCT: values of a sliding minute, 10,000 of them, exact per row or per batch."""

from __future__ import annotations

from benchmarks.pipeline import MINUTE, Result, cut, stream, throughput

ROWS, KEYS, SECONDS = 600_000, 10_000, 600
SQL = f"SELECT DISTINCT k FROM r [RANGE {MINUTE}]"


def run(scale: float = 1.0) -> Result:
    return throughput(SQL, cut({"r": stream(int(ROWS * scale), KEYS, SECONDS, seed=1)}))
