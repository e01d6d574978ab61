"""What the benchmarks share: streams as Arrow batches, timed passes through a session, verdicts.

A pass starts with Arrow tables and ends with the Arrow changelog. Every contender runs once
untimed, then all take turns, so that a slow moment of the machine hits each of them; the best
CPU time and the best wall time count. Verdicts go by CPU time: it holds what every thread of
the process did and nothing that other processes did.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import penstock
from penstock.engine.build import spec_of
from penstock.session import Query, Session

BATCH = 10_000
SECOND = 1_000_000  # event time is in µs
MINUTE = 60 * SECOND
Batches = list[tuple[str, pa.Table]]
Result = dict[str, object]


@contextmanager
def without_flows() -> Iterator[None]:
    """Queries that are registered meanwhile take no part in flows."""
    modules = ("penstock.physical.planner", "penstock.session.windows")
    plans, lengths = (patch(f"{m}.find_block", lambda node, streams: None) for m in modules)
    spec_of.cache_clear()  # it knows plans with flows, and may not keep any without
    with plans, lengths:
        yield
    spec_of.cache_clear()


@dataclass(slots=True)
class Cost:
    """Seconds of one piece of work, or the least of several."""

    cpu: float = float("inf")
    wall: float = float("inf")

    def least(self, other: Self) -> None:
        """Take over what the other did faster."""
        self.cpu, self.wall = min(self.cpu, other.cpu), min(self.wall, other.wall)


C = TypeVar("C", bound=Cost)


@contextmanager
def timed() -> Iterator[Cost]:
    """Time the block into the cost it yields."""
    gc.collect()
    cost = Cost()
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.cpu, cost.wall = time.process_time() - cpu, time.perf_counter() - wall


def take_turns(
    contenders: Mapping[str, Callable[[], tuple[int, C]]], times: int = 3
) -> dict[str, tuple[int, C]]:
    """Rows and best cost of each contender: one untimed turn each, then `times` more."""
    first = {name: run() for name, run in contenders.items()}
    best = {name: (rows, type(cost)()) for name, (rows, cost) in first.items()}
    for _ in range(times):
        for name, run in contenders.items():
            rows, cost = run()
            if rows != best[name][0]:
                raise AssertionError(f"{name} gave {best[name][0]} rows, then {rows}")
            best[name][1].least(cost)
    return best


# ---- streams -------------------------------------------------------------------------
def stream(rows: int, keys: int, seconds: int, seed: int) -> pa.Table:
    """A stream (k, a, ts), all uniform: keys, values in a million, times in the span."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, seconds * SECOND, rows))
    values = rng.integers(0, 1_000_000, rows)
    return pa.table({"k": rng.integers(0, keys, rows), "a": values, "ts": ts})


def cut(streams: Mapping[str, pa.Table], batch: int = BATCH) -> Batches:
    """The batches of all streams, one of each in turn."""
    longest = max(table.num_rows for table in streams.values())
    return [
        (name, table.slice(start, batch))
        for start in range(0, longest, batch)
        for name, table in streams.items()
        if start < table.num_rows
    ]


def scaled(counts: tuple[int, ...], scale: float) -> list[int]:
    """The places of an axis at a smaller size, each once and none below 1."""
    return sorted({max(1, round(count * scale)) for count in counts})


def connect(*streams: str) -> Session:
    """A fresh session with these streams."""
    ps = penstock.connect(runner="inprocess")
    for name in streams:
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    return ps


def push(ps: Session, query: Query, batches: Batches) -> int:
    """Push batches, read the changelog after each; how many changes there were."""
    changes = 0
    for name, table in batches:
        ps.push(name, table)
        changes += query.changes().num_rows
    return changes


def pass_through(sql: str, batches: Batches) -> tuple[int, Cost]:
    """Changes and cost of one standing query over all batches, in a fresh session."""
    ps = connect(*sorted({name for name, _ in batches}))
    query = ps.query(sql)
    with timed() as cost:
        changes = push(ps, query, batches)
    return changes, cost


# ---- verdicts ------------------------------------------------------------------------
def at_most(cpu: float, wall: float | None, target: float, unit: str = "×") -> Result:
    """A measure that should not exceed its target; without wall time it is not a time."""
    return _measure(cpu, wall, f"≤ {target:g} {unit}", unit, cpu <= target)


def at_least(cpu: float, wall: float, target: float, unit: str) -> Result:
    """A measure that should reach its target."""
    return _measure(cpu, wall, f"≥ {target:g} {unit}", unit, cpu >= target)


def plain(cpu: float, wall: float | None, unit: str) -> Result:
    """A measure without a target; without wall time it is not a time."""
    return _measure(cpu, wall, None, unit, None)


def _measure(
    cpu: float, wall: float | None, target: str | None, unit: str, met: bool | None
) -> Result:
    rounded = None if wall is None else round(wall, 4)
    return {"cpu": round(cpu, 4), "wall": rounded, "unit": unit, "target": target, "met": met}


def throughput(sql: str, batches: Batches) -> Result:
    """Rows/s of a query with EMIT CHANGES and with EMIT ON COMMIT, against their targets."""
    rows = sum(table.num_rows for _, table in batches)
    forms = {"EMIT CHANGES": 1.5, "EMIT ON COMMIT": 3.0}
    runs = take_turns({form: partial(pass_through, f"{sql} {form}", batches) for form in forms})
    out: Result = {"rows in": rows}
    for form, target in forms.items():
        changes, cost = runs[form]
        out[f"changes, {form}"] = changes
        out[form] = at_least(rows / cost.cpu / 1e6, rows / cost.wall / 1e6, target, "M rows/s")
    return out
