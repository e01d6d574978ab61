"""EXCEPT: keys of one sliding minute that are not in another, exact per row or per batch."""

from __future__ import annotations

from benchmarks.pipeline import MINUTE, Result, cut, stream, throughput

ROWS, KEYS, SECONDS = 300_000, 10_000, 300  # of each of the two streams
SQL = f"SELECT k FROM r [RANGE {MINUTE}] EXCEPT SELECT k FROM s [RANGE {MINUTE}]"


def run(scale: float = 1.0) -> Result:
    rows = int(ROWS * scale)
    streams = {name: stream(rows, KEYS, SECONDS, seed) for seed, name in enumerate("rs")}
    return throughput(SQL, cut(streams))
