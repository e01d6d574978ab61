"""DISTINCT alone: rows/s of the operator over a sliding window, beside a Python dictionary.

Prints the cost per row when every row has its own instant and when all rows of a step share
one, and how it grows with a window a hundred times as long.
"""

from __future__ import annotations

import time

import numpy as np

from penstock.delta import Clock, Delta, Level
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.distinct import DistinctOp
from penstock.physical.operator import Operator
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.types import BIGINT

ROWS, BATCH, PER_SECOND = 600_000, 10_000, 1_000
SCHEMA = Schema((Field("k", BIGINT), Field("a", BIGINT)))


class Source(Operator):
    """An input that is only an edge."""

    def __init__(self) -> None:
        edge = Edge(SCHEMA, Pattern.WKS, Level.COHORT, True, False, True)
        super().__init__((), edge, Arena().scope("source"))


def steps(rows: int, values: int, window: float, same_ts: bool, seed: int) -> list[Delta]:
    """Batches of a stream at PER_SECOND rows/s (µs), every row living for `window` seconds."""
    rng = np.random.default_rng(seed)
    out = []
    for start in range(0, rows, BATCH):
        ts = (np.arange(start, start + BATCH) * (1_000_000 // PER_SECOND)).astype(np.int64)
        if same_ts:
            ts[:] = ts[-1]
        matrix = np.zeros((3, BATCH), np.int64)
        matrix[1] = rng.integers(0, values, BATCH)
        matrix[2] = matrix[1] * 7
        exp = ts + int(window * 1e6)
        out.append(Delta(matrix, ts, exp, np.ones(BATCH, np.int8), np.zeros(BATCH, np.int64)))
    return out


def measure(values: int, window: float, same_ts: bool, emit: str, rows: int = ROWS) -> float:
    """Best of three, ns per input row, after the window has filled."""
    best = float("inf")
    for _ in range(3):
        op = DistinctOp(Source(), None, Arena().scope("d"), emit)  # type: ignore[arg-type]
        before, changes, begin = 0, 0, 0.0
        batches = steps(rows, values, window, same_ts, 1)
        warm = len(batches) // 5
        for i, delta in enumerate(batches):
            if i == warm:
                begin = time.perf_counter()
            now = int(delta.ts[-1])
            changes += len(op.step([delta], Clock(before, now)))
            before = now
        best = min(best, (time.perf_counter() - begin) / (BATCH * (len(batches) - warm)))
    return best * 1e9


def dictionary(values: int, window: float) -> float:
    """Cost (ns per row) of the plain Python twin: last expiry per value, scanned once per batch."""
    batches = steps(ROWS // 4, values, window, False, 1)
    begin = time.perf_counter()
    last: dict[tuple[int, int], int] = {}
    for delta in batches:
        for k, a, e in zip(delta.rows[1].tolist(), delta.rows[2].tolist(), delta.exp, strict=True):
            last[k, a] = e
        now = delta.ts[-1]
        last = {key: e for key, e in last.items() if e > now}
    return (time.perf_counter() - begin) / (ROWS // 4) * 1e9


def main() -> None:
    for emit in ("explicit", "expiring"):
        for values in (1_000, 100_000, 10_000_000):
            for same_ts in (False, True):
                cost = measure(values, 60, same_ts, emit)
                print(
                    f"distinct {emit:8} {values:>10,} values  "
                    f"{'one instant per step' if same_ts else 'every change        '}  "
                    f"{cost:6.0f} ns/row  {1e3 / cost:6.2f} M rows/s"
                )
    for values in (1_000, 100_000, 10_000_000):
        small, large = (measure(values, w, False, "explicit", 1_000_000) for w in (2, 200))
        print(f"window 2 s → 200 s, {values:,} values: {small:.0f} → {large:.0f} ns/row, "
              f"{large / small:.2f}×")  # fmt: skip
    twin = dictionary(100_000, 60)
    print(f"Python dictionary, 100,000 values: {twin:.0f} ns/row")


if __name__ == "__main__":
    main()
