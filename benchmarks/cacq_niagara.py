"""The plans of NiagaraCQ for stocks and articles (CACQ §5, figure 11), of our own operators.

PullUp joins all quotes with all articles once and then looks up who wants each result. PushDown
looks up who wants each quote and joins a copy of it per query; one operator does the joins of
all queries and they share the articles, which is kinder to it than an operator per query. Both
are planned without flows; CACQ is what a session does by itself. Everything else is the same:
admission, logs, views, changelogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Literal

import pyarrow as pa

import penstock
from benchmarks.cacq_workloads import create_stocks
from benchmarks.pipeline import Cost, take_turns, timed
from penstock.physical import planner
from penstock.session import Query, Session

Plan = Literal["CACQ", "PushDown", "PullUp"]
Register = Callable[[Session], list[Query]]


@contextmanager
def _without_flows() -> Iterator[None]:
    """Queries that are registered meanwhile are planned operator by operator."""
    find = planner.find_block
    planner.find_block = lambda node, streams: None
    try:
        yield
    finally:
        planner.find_block = find


def deliver(plan: Plan, register: Register, update: Mapping[str, pa.Table]) -> tuple[int, Cost]:
    """Rows that the queries get from one update, and the cost of delivering them."""
    off = frozenset({"push_down_filter"}) if plan == "PullUp" else frozenset()
    ps = penstock.connect(runner="inprocess", optimizer_off=off)
    create_stocks(ps)
    with nullcontext() if plan == "CACQ" else _without_flows():
        standing = register(ps)
    with timed() as cost:
        for name, rows in update.items():
            ps.push(name, rows)
        found = sum(query.changes().num_rows for query in standing)
    return found, cost


def compare(
    plans: tuple[Plan, ...], register: Register, update: Mapping[str, pa.Table], times: int
) -> dict[Plan, Cost]:
    """The cost of each plan; all must deliver equally many rows."""
    turns = {str(plan): partial(deliver, plan, register, update) for plan in plans}
    runs = take_turns(turns, times)
    if len({found for found, _ in runs.values()}) > 1:
        raise AssertionError(f"rows delivered: { {p: found for p, (found, _) in runs.items()} }")
    return {plan: runs[plan][1] for plan in plans}
