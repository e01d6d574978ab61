"""Joins with different window lengths: parameters of one template, beside one template each.

Queries join two streams by a key and differ in a condition and in the lengths of their windows.
These are about 10 s, so that the number of results hardly depends on them. With a parameter for
each length all queries are one template; with lengths in the plan, those of one length are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from unittest.mock import patch

from benchmarks.chart import chart
from benchmarks.pipeline import (
    SECOND,
    Batches,
    Cost,
    Result,
    at_least,
    at_most,
    connect,
    cut,
    scaled,
    stream,
    take_turns,
    timed,
)

ROWS, KEYS, SECONDS, BATCH = 20_000, 1_000, 60, 1_000  # of each of the two streams
COUNTS = (1, 10, 100, 1_000)
TARGETS = {"step": 1.5, "template": 3.0, "registered": 3.0}


@contextmanager
def in_the_plan() -> Iterator[None]:
    """Lengths of windows that are written meanwhile are part of the template."""
    with patch("penstock.session.compile.lift_windows", lambda template, first: (template, ())):
        yield


def queries(n: int, lengths: int) -> list[str]:
    """`n` joins with windows of so many lengths."""
    return [
        f"SELECT r.k, r.a, s.a AS b FROM r [RANGE {10 * SECOND + i % lengths}] "
        f"JOIN s [RANGE {10 * SECOND - i % lengths}] ON r.k = s.k WHERE r.a > {999_000 - i}"
        for i in range(n)
    ]


def measure(n: int, lengths: int, lifted: bool, batches: Batches) -> tuple[int, Cost]:
    """Changes and cost of one pass with all queries."""
    ps = connect("r", "s")
    with nullcontext() if lifted else in_the_plan():
        standing = [ps.query(sql) for sql in queries(n, lengths)]
    with timed() as cost:
        for name, table in batches:
            ps.push(name, table)
        changes = sum(query.changes().num_rows for query in standing)
    return changes, cost


def register(n: int, lifted: bool) -> tuple[int, Cost]:
    """Queries registered, each with lengths of its own, and the cost."""
    ps = connect("r", "s")
    with nullcontext() if lifted else in_the_plan(), timed() as cost:
        for sql in queries(n, n):
            ps.query(sql)
    return n, cost


def run(scale: float = 1.0) -> Result:
    rows = int(ROWS * scale)
    streams = {n: stream(rows, KEYS, SECONDS, s) for s, n in enumerate("rs")}
    batches = cut(streams, max(1, int(BATCH * scale)))
    ways = {"one length": (False, True), "own": (True, True), "own, in the plan": (True, False)}
    counts = scaled(COUNTS, scale)
    lines: dict[str, list[float]] = {name: [] for name in ways}
    last: dict[str, Cost] = {}
    for n in counts:
        runs = take_turns(
            {
                name: partial(measure, n, n if own else 1, lifted, batches)
                for name, (own, lifted) in ways.items()
            },
            times=2,
        )
        if runs["own"][0] != runs["own, in the plan"][0]:
            raise AssertionError(f"{n} queries: {runs}")
        last = {name: cost for name, (_, cost) in runs.items()}
        for name, cost in last.items():
            lines[name].append(cost.cpu / (2 * rows) * 1e6)
    made = take_turns(
        {
            name: partial(register, counts[-1], lifted)
            for name, lifted in (("own", True), ("plan", False))
        }
    )
    own, one, plan = last["own"], last["one length"], last["own, in the plan"]
    ours, theirs = made["own"][1], made["plan"][1]
    of = f"{counts[-1]} lengths"
    return {
        "rows": 2 * rows,
        f"{of} against one": at_most(own.cpu / one.cpu, own.wall / one.wall, TARGETS["step"]),
        f"{of}: in the plan against parameters": at_least(
            plan.cpu / own.cpu, plan.wall / own.wall, TARGETS["template"], "×"
        ),
        f"{of}: registered, in the plan against parameters": at_least(
            theirs.cpu / ours.cpu, theirs.wall / ours.wall, TARGETS["registered"], "×"
        ),
        "cost": chart(
            "Joins with windows of their own", "queries", "µs of CPU/row", counts, lines, True
        ),
    }
