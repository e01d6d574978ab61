"""The plans of NiagaraCQ for stocks and articles (CACQ §5, figure 11), of our own operators.

PullUp joins all quotes with all articles once and then looks up the queries of each result.
PushDown looks up the queries of each quote, splits the copies by query, and has a join for each
query; the table of articles is shared. Both are planned without flows; CACQ is what a session
does by itself. Everything else is the same: admission, logs, views, changelogs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.cacq_workloads import create_stocks
from benchmarks.pipeline import Cost, take_turns, timed, without_flows
from penstock.arrays import I64
from penstock.delta import Delta, merge
from penstock.engine.blocks import Block, Output
from penstock.kernels.join import Events, gather_pairs, join_events
from penstock.physical.join import JoinOp
from penstock.physical.operator import StringColumns
from penstock.session import Query, Session
from penstock.state.join_side import JoinSide

Plan = Literal["CACQ", "PushDown", "PullUp"]
Register = Callable[[Session], list[Query]]


class JoinPerQuery(JoinOp):
    """Split, and a join for each query: its own table of quotes, one table of articles for all.

    For windows without end. Articles are stored first, so that a new quote finds those of its
    step too and a new article only looks for quotes of earlier steps.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._own: dict[int, JoinSide] = {}

    def _join(self, left: Delta, right: Delta) -> Delta:
        nothing = self._nothing(True), self._nothing(False)
        articles = self._stored(self._right, right, False)
        found = [self._found(own, nothing[0], articles) for own in self._own.values()]
        self._right.reserve(self._keys.capacity)
        self._left.reserve(self._keys.capacity)
        how = self._full_test(), self._right_first, 64
        join_events(nothing[0], articles, self._left.chains(), self._right.chains(), *how)
        for query, quotes in _split(left):
            if query not in self._own:
                scope, columns = self.scope.scope(f"query-{query}"), quotes.width
                self._own[query] = JoinSide(scope, columns)
            own = self._own[query]
            found.append(self._found(own, self._stored(own, quotes, True), nothing[1]))
        return merge(found, len(self.edge.schema))

    def _nothing(self, is_left: bool) -> Events:
        empty, ids = Delta.empty(len(self.inputs[not is_left].edge.schema)), np.empty(0, np.int64)
        return self._events(empty, ids, ids, is_left)

    def _stored(self, side: JoinSide, delta: Delta, is_left: bool) -> Events:
        ids = self._keys.assign(delta, is_left)
        side.reserve(self._keys.capacity)
        return self._events(delta, ids, side.append(delta, ids), is_left)

    def _found(self, own: JoinSide, quotes: Events, articles: Events) -> Delta:
        """The pairs of some quotes with stored articles, or the other way round."""
        own.reserve(self._keys.capacity)
        self._right.reserve(self._keys.capacity)
        ls, rs = own.chains(), self._right.chains(link=False)
        guess = 64 + 8 * (quotes.ts.shape[0] + articles.ts.shape[0])
        how = self._full_test(), self._right_first, guess
        pairs = join_events(quotes, articles, ls, rs, *how)
        return Delta(*gather_pairs(pairs, ls, rs, self._tagged, self._columns))

    def strings(self) -> list[StringColumns]:
        """Also of the quotes of each query."""
        quotes, articles = super().strings()
        mine = [own.scope.prefix for own in self._own.values()]
        return [articles, *(StringColumns(f"{m}/rows", quotes.columns) for m in mine)]


def _split(delta: Delta) -> Iterator[tuple[int, Delta]]:
    """The rows of each query."""
    order = np.argsort(delta.lin, kind="stable")
    queries, starts = np.unique(delta.lin[order], return_index=True)
    parts: list[I64] = np.split(order, starts[1:])
    for query, part in zip(queries.tolist(), parts, strict=True):
        yield query, delta.take(part)


@contextmanager
def planned(plan: Plan) -> Iterator[None]:
    """Queries that are registered meanwhile run as this plan; PullUp needs a session for it."""
    if plan == "CACQ":
        yield
        return
    join = JoinPerQuery if plan == "PushDown" else JoinOp
    with without_flows(), patch("penstock.physical.instantiate.JoinOp", join):
        yield


@dataclass(slots=True)
class Delivery(Cost):
    """The cost of an update, and how much of it the engine's steps are.

    What is not a step is the same whatever the plan: Arrow to rows, strings, changelogs, Arrow.
    """

    steps: Cost = field(default_factory=Cost)

    def least(self, other: Self) -> None:
        """Also of the steps."""
        Cost.least(self, other)
        self.steps.least(other.steps)


@contextmanager
def steps_timed(ps: Session) -> Iterator[Cost]:
    """The steps that the session's engine takes meanwhile, together."""
    engine, cost = ps._books.engine, Cost(0.0, 0.0)
    apply = engine.apply

    def timed_apply(blocks: list[Block]) -> Output:
        wall, cpu = time.perf_counter(), time.process_time()
        output = apply(blocks)
        cost.cpu += time.process_time() - cpu
        cost.wall += time.perf_counter() - wall
        return output

    engine.apply = timed_apply  # type: ignore[method-assign]
    try:
        yield cost
    finally:
        del engine.apply


def deliver(plan: Plan, register: Register, update: Mapping[str, pa.Table]) -> tuple[int, Delivery]:
    """Rows that the queries get from one update, and the cost of delivering them."""
    off = frozenset({"push_down_filter"}) if plan == "PullUp" else frozenset()
    ps = penstock.connect(runner="inprocess", optimizer_off=off)
    create_stocks(ps)
    with planned(plan):
        standing = register(ps)
    with steps_timed(ps) as steps, timed() as cost:
        for name, rows in update.items():
            ps.push(name, rows)
        found = sum(query.changes().num_rows for query in standing)
    return found, Delivery(cost.cpu, cost.wall, steps)


def compare(
    plans: tuple[Plan, ...], register: Register, update: Mapping[str, pa.Table], times: int
) -> dict[Plan, Delivery]:
    """The cost of each plan; all must deliver equally many rows."""
    turns = {str(plan): partial(deliver, plan, register, update) for plan in plans}
    runs = take_turns(turns, times)
    if len({found for found, _ in runs.values()}) > 1:
        raise AssertionError(f"rows delivered: { {p: found for p, (found, _) in runs.items()} }")
    return {plan: runs[plan][1] for plan in plans}
