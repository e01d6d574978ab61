"""EXCEPT and anti join alone: rows/s of the operators over two sliding windows.

Prints the cost per input row when every row has its own instant and when all rows of a step
share one, for counts (explicit) and rows with expiry (expiring), and the premature share.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from penstock.delta import Clock, Delta, Level
from penstock.logical.nodes import SetKind
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.operator import Operator
from penstock.physical.semi_join import SemiJoinOp
from penstock.physical.set_op import SetOpOp
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.types import BIGINT

ROWS, BATCH, PER_SECOND, WINDOW = 300_000, 5_000, 500, 60  # of each input
SCHEMA = Schema((Field("k", BIGINT), Field("a", BIGINT)))
Made = SetOpOp | SemiJoinOp


class Source(Operator):
    """An input that is only an edge."""

    def __init__(self) -> None:
        edge = Edge(SCHEMA, Pattern.WKS, Level.COHORT, True, False, True)
        super().__init__((), edge, Arena().scope("source"))


def steps(values: int, same_ts: bool, seed: int) -> list[Delta]:
    """Batches of a stream at PER_SECOND rows/s (µs), every row living for WINDOW seconds."""
    rng = np.random.default_rng(seed)
    out = []
    for start in range(0, ROWS, BATCH):
        ts = (np.arange(start, start + BATCH) * (1_000_000 // PER_SECOND)).astype(np.int64)
        ts += seed
        if same_ts:
            ts[:] = (start + BATCH) * (1_000_000 // PER_SECOND)
        matrix = np.zeros((3, BATCH), np.int64)
        matrix[1] = rng.integers(0, values, BATCH)
        matrix[2] = matrix[1] * 7
        exp = ts + WINDOW * 1_000_000
        out.append(Delta(matrix, ts, exp, np.ones(BATCH, np.int8), np.zeros(BATCH, np.int64)))
    return out


def measure(make: Callable[[], Made], values: int, same_ts: bool) -> tuple[float, float]:
    """Best of three: ns per input row, and the share of premature ends."""
    best, share = float("inf"), 0.0
    left, right = steps(values, same_ts, 1), steps(values, same_ts, 2)
    for _ in range(3):
        op = make()
        before = 0
        begin = time.perf_counter()
        for pair in zip(left, right, strict=True):
            now = int(max(pair[0].ts[-1], pair[1].ts[-1]))
            op.step(list(pair), Clock(before, now))
            before = now
        best = min(best, (time.perf_counter() - begin) / (2 * ROWS))
        share = op.premature_share()
    return best * 1e9, share


def set_op(all_: bool, emit: str) -> Callable[[], Made]:
    return lambda: SetOpOp(
        Source(), Source(), SetKind.EXCEPT, all_, None, Arena().scope("e"), emit  # type: ignore[arg-type]
    )  # fmt: skip


def anti(emit: str) -> Callable[[], Made]:
    return lambda: SemiJoinOp(
        Source(), Source(), ((0, 0),), True, None, Arena().scope("a"), emit  # type: ignore[arg-type]
    )  # fmt: skip


CASES = {
    "EXCEPT explicit": set_op(False, "explicit"),
    "EXCEPT ALL explicit": set_op(True, "explicit"),
    "EXCEPT ALL expiring": set_op(True, "expiring"),
    "anti join explicit": anti("explicit"),
    "anti join expiring": anti("expiring"),
}


def main() -> None:
    for name, make in CASES.items():
        for values in (1_000, 100_000):
            for same_ts in (False, True):
                cost, share = measure(make, values, same_ts)
                print(
                    f"{name:20} {values:>8,} values  "
                    f"{'one instant per step' if same_ts else 'every change        '}  "
                    f"{cost:6.0f} ns/row  {1e3 / cost:6.2f} M rows/s  {share:5.0%} premature"
                )


if __name__ == "__main__":
    main()
