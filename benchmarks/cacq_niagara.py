"""The plans of NiagaraCQ for stocks and articles (CACQ §5, figure 11), of our own operators.

PullUp joins all quotes with all articles once and then looks up who wants each result. PushDown
looks up who wants each quote and joins a copy of it per query; one operator does the joins of
all queries and they share the articles, which is kinder to it than an operator per query.
Everything else is the same session: admission, logs, views, changelogs.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

import penstock
from benchmarks.cacq_workloads import create_stocks
from benchmarks.pipeline import Cost, timed
from penstock.session import Query, Session

Register = Callable[[Session], list[Query]]
PULL_UP = frozenset({"push_down_filter"})
"""Rules to switch off so that selections stay above the join."""


def deliver(
    register: Register, update: dict[str, pa.Table], off: frozenset[str] = frozenset()
) -> tuple[int, Cost]:
    """Rows that the queries get from one update, and the cost of delivering them."""
    ps = penstock.connect(runner="inprocess", optimizer_off=off)
    create_stocks(ps)
    standing = register(ps)
    with timed() as cost:
        for name, rows in update.items():
            ps.push(name, rows)
        found = sum(query.changes().num_rows for query in standing)
    return found, cost
