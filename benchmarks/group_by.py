"""GROUP BY alone: rows/s of count, sum and max per key over a sliding window.

Every change of every group is emitted; "on commit" gives all rows of a step one timestamp.
Run with ``python benchmarks/group_by.py``.
"""

from __future__ import annotations

import time

import numpy as np

from penstock.delta import BEGINNING, Clock, Delta, Level
from penstock.logical.expr import Agg, Column
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.context import Context, Failures
from penstock.physical.group_by import GroupByOp
from penstock.physical.operator import Operator
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, DOUBLE

SCHEMA = Schema((Field("k", BIGINT), Field("v", BIGINT), Field("x", DOUBLE)))


class Source(Operator):
    """Stands for a window scan: only its edge is read."""


def operator(
    aggs: tuple[Agg, ...], window: int, fifo: bool = True, keys: tuple[int, ...] = (0,)
) -> GroupByOp:
    arena = Arena()
    edge = Edge(SCHEMA, Pattern.WKS, Level.COHORT, True, False, fifo, window if fifo else None)
    ctx = Context(StringTable(arena.scope("strings")), {}, Failures())
    fields = tuple(SCHEMA[c] for c in keys) + tuple(Field(a.fn, a.type) for a in aggs)
    return GroupByOp(
        Source((), edge, arena.scope("source")), keys, aggs, Schema(fields), ctx,
        arena.scope("group"), lambda: np.zeros(1, np.int64),
    )  # fmt: skip


def batches(
    n: int, n_keys: int, window: int, batch: int, commit: bool, seed: int = 1
) -> list[tuple[Delta, Clock]]:
    """Rows 1 ms apart (ts in µs, jittered), cut into batches."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((4, n), np.int64)
    rows[1] = rng.integers(0, n_keys, n)
    rows[2] = rng.integers(-1000, 1000, n)
    rows[3] = rng.normal(size=n).view(np.int64)
    ts = np.arange(n, dtype=np.int64) * 1000 + rng.integers(0, 1000, n)
    exp = ts + window
    out, before = [], BEGINNING
    for start in range(0, n, batch):
        part = slice(start, start + batch)
        now = int(ts[part][-1])
        times = np.full(len(ts[part]), now) if commit else ts[part]
        size = times.shape[0]
        delta = Delta(
            np.ascontiguousarray(rows[:, part]), times, exp[part],
            np.ones(size, np.int8), np.zeros(size, np.int64),
        )  # fmt: skip
        out.append((delta, Clock(before, now)))
        before = now
    return out


def run(op: GroupByOp, work: list[tuple[Delta, Clock]], warm: int) -> tuple[float, float]:
    """(rows/s, output rows per input row) after the first `warm` batches."""
    for delta, clock in work[:warm]:
        op.step([delta], clock)
    rows = outputs = 0
    start = time.perf_counter()
    for delta, clock in work[warm:]:
        outputs += len(op.step([delta], clock))
        rows += len(delta)
    return rows / (time.perf_counter() - start), outputs / rows


V, X = Column(BIGINT, 1, "v"), Column(DOUBLE, 2, "x")
STAR = Agg("count", None, False, None, BIGINT)
BASIC = (STAR, Agg("sum", V, False, None, BIGINT), Agg("max", V, False, None, BIGINT))
FLOATS = (STAR, Agg("avg", X, False, None, DOUBLE), Agg("stddev", X, False, None, DOUBLE))
ORDERED = (Agg("median", X, False, None, DOUBLE), Agg("count", V, True, None, BIGINT))


def report(name: str, aggs: tuple[Agg, ...], window: int, n: int, *, keys: int = 1000,
           commit: bool = False, fifo: bool = True) -> float:  # fmt: skip
    batch = 10_000
    warm = max(1, window // 1000 // batch + 1)
    work = batches(n + warm * batch, keys, window, batch, commit)
    op = operator(aggs, window, fifo)
    run(op, work[:2], 1)
    best = 0.0
    for _ in range(3):
        op = operator(aggs, window, fifo)
        speed, ratio = run(op, work, warm)
        best = max(best, speed)
    print(f"{name:38s} {best:12,.0f} rows/s  {1e9 / best:7.0f} ns/row  {ratio:.2f} out/in")
    return best


def main() -> None:
    minute = 60_000_000
    base = report("count, sum, max, every change", BASIC, minute, 300_000)
    report("count, sum, max, on commit", BASIC, minute, 300_000, commit=True)
    report("count, avg, stddev of floats", FLOATS, minute, 300_000)
    report("median, count distinct", ORDERED, minute, 300_000)
    report("count, sum, max, calendar and treap", BASIC, minute, 300_000, fifo=False)
    report("100,000 keys", BASIC, minute, 300_000, keys=100_000)
    small = report("window 10 s, 1000 keys", BASIC, minute // 6, 300_000)
    large = report("window 1000 s, 1000 keys", BASIC, 100 * minute // 6, 300_000)
    print(
        f"cost of a window 100 times as long: {small / large:.2f}; of a minute: {small / base:.2f}"
    )


if __name__ == "__main__":
    main()
