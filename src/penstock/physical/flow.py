"""The leaf of a plan that runs in a flow: rows tagged with queries (CACQ §3; eddy/flow.py).

A selection from one stream with very many queries leaves the flow's pools and matches its rows
by the grouped filter of its own template.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta, Lineage, merge
from penstock.eddy.flow import Flow, FlowTemplate, Matches
from penstock.kernels.lineage import join_rows
from penstock.kernels.rows import select_columns
from penstock.optimizer.flow_block import Block
from penstock.optimizer.span import AliasColumn
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.operator import Operator, counted
from penstock.queries.query_table import QueryTable

if TYPE_CHECKING:
    from penstock.eddy.flows import Flows
    from penstock.expressions.context import Context
    from penstock.physical.match import MatchOp
    from penstock.physical.scan import ScanOp
    from penstock.state.arena import Scope
    from penstock.state.sets import SetTable
    from penstock.stems.log_view import LogView

MakeIndex = Callable[[], "tuple[ScanOp, MatchOp]"]


def flow_edge(block: Block, level: Lineage) -> Edge:
    """One stream: its window's pattern; a join: rule 3 of Golab & Özsu §5.2."""
    fields = tuple(block.scans[a].stream_schema[c] for a, c in block.output)
    schema = type(block.scans[0].stream_schema)(fields)
    expiring = any(w != NEVER for w in block.windows)
    if not expiring:
        return Edge(schema, Pattern.MON, level, False, False)
    if len(block.scans) > 1 or block.own_windows:
        return Edge(schema, Pattern.WK, level, expiring, False)
    (span,) = block.windows
    assert isinstance(span, int)
    return Edge(schema, Pattern.WKS, level, True, False, fifo=True, span=span)


def _runs(output: tuple[AliasColumn, ...]) -> list[tuple[int, I64, int]]:
    """Neighbours in the output that are of one alias: alias, columns, and where they begin."""
    runs, first = [], 0
    for alias, places in groupby(output, key=itemgetter(0)):
        columns = np.array([column for _, column in places], np.int64)
        runs.append((alias, columns, first))
        first += columns.shape[0]
    return runs


class FlowOp(Operator):
    """What the queries of one template get from their flow."""

    name = "flow"

    def __init__(
        self, key: int, block: Block, flow: Flow, flows: Flows, queries: QueryTable,
        ctx: Context, scope: Scope, make_index: MakeIndex | None,
        sets: SetTable | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            (), flow_edge(block, Lineage.QUERY if sets is None else Lineage.SET), scope
        )
        self._sets = sets
        self.key, self.block, self.flow = key, block, flow
        self._flows, self._queries, self._ctx, self._make_index = flows, queries, ctx, make_index
        self._runs = _runs(block.output)
        scope.array("stepped", 1)
        self._member = FlowTemplate(
            queries, block.conditions, block.windows, make_index is not None
        )
        flow.add(key, self._member)

    def close(self) -> None:
        """The template is gone."""
        self._flows.leave(self.flow, self.key)

    # ---- the step --------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Results that the step brings, and for new queries those that are there."""
        found = self.flow.take(self.key, clock.now)
        hid = self.flow.hidden(self.key)
        self._ctx.hidden.add(hid.nulls, hid.rows, hid.reason)
        new = self._newcomers()
        delta = (
            self._indexed(clock, new) if self._uses_own_index else self._pooled(clock, found, new)
        )
        for qid, reason in self.flow.faults(self.key).items():
            self._ctx.failures.add(Lineage.QUERY, np.array([qid]), reason)
        return delta

    def _pooled(self, clock: Clock, found: Matches, new: I64) -> Delta:
        delta = self._delta(found)
        if clock.at_commit:
            delta = self._alive(delta, clock.now)
        if not new.shape[0]:
            return delta
        below = self._delta(self.flow.newcomers(self.key, clock.now, new))
        if not len(below):
            return delta
        return merge([below, delta], len(self.edge.schema))

    def _newcomers(self) -> I64:
        """Queries that have not seen what is there; in the first step these are all."""
        if not self.scope["stepped"][0]:
            self.scope["stepped"][0] = 1
            return self._queries.live(Lineage.QUERY)
        new = self._queries.newcomers
        return self._queries.alive(Lineage.QUERY, new) if new.shape[0] else new

    def has_input(self, now: int) -> bool:
        """Whether a step at `now` has something to do."""
        return self.flow.has_input(self.key, now)

    def _alive(self, delta: Delta, now: int) -> Delta:
        """What has not expired, as rows of one instant."""
        if self.edge.expiring:
            delta = delta.take(delta.exp > now)
        return delta.with_(ts=np.full(len(delta), now))

    def _delta(self, found: Matches) -> Delta:
        if not len(found):
            return Delta.empty(len(self.edge.schema))
        views = self.flow.views()
        exp = self._expiry(found, views)
        if self._sets is None:
            return self._rows(found, exp, found.qids, views)
        if self.block.own_windows:
            order = np.lexsort((found.qids, exp, *found.positions[::-1], found.instants))
            found, exp = found.take(order), exp[order]
        heads = found.heads(exp)
        codes = self._sets.intern(np.append(heads, len(found)), found.qids)
        return self._rows(found.take(heads), exp[heads], codes, views)

    def _expiry(self, found: Matches, views: list[LogView]) -> I64:
        """When each result leaves: with the first of its rows."""
        exp = np.full(len(found), NEVER)
        for alias, length in enumerate(self._member.lengths(found.qids)):
            if self.block.windows[alias] != NEVER:
                lives = views[alias].ts[found.positions[alias] - views[alias].base] + length
                np.minimum(exp, lives, out=exp)
        return exp

    def _rows(self, found: Matches, exp: I64, lin: I64, views: list[LogView]) -> Delta:
        n = len(found)
        rows = np.empty((1 + len(self.edge.schema), n), np.int64)
        rows[0] = 0
        for alias, columns, first in self._runs:
            view = views[alias]
            join_rows(rows, view.rows, found.positions[alias], view.base, columns, first)
        return Delta(rows, found.instants, exp, np.ones(n, np.int8), lin)

    # ---- very many queries -----------------------------------------------------------
    @property
    def _uses_own_index(self) -> bool:
        return self.flow.members[self.key].uses_own_index

    @cached_property
    def _index(self) -> tuple[ScanOp, MatchOp]:
        """Made when there are so many: most templates never ask."""
        assert self._make_index is not None
        return self._make_index()

    def _indexed(self, clock: Clock, new: I64) -> Delta:
        scan, match = self._index
        start, end = self.flow.arrived()
        at = clock.now if clock.at_commit else None
        with match.counting():
            found = self._matched(scan.rows_at(start, end), match.match_live, at)
        since = self._queries.since(Lineage.QUERY)
        new = new[since[new] == 0]
        if not new.shape[0]:
            return found
        held = scan.rows_at(scan.log.discarded, start)
        below = self._matched(held, lambda delta: match.match(delta, new), clock.now)
        return merge([below, found], len(self.edge.schema))

    def _matched(self, delta: Delta, match: Callable[[Delta], Delta], at: int | None) -> Delta:
        """The output columns of rows that queries take, at an instant only of those alive."""
        if self.block.own_windows:
            delta = match(delta)
            (length,) = self._member.lengths(delta.lin)
            delta = delta.with_(exp=delta.ts + length)
            delta = delta if at is None else self._alive(delta, at)
        else:
            delta = match(delta if at is None else self._alive(delta, at))
        columns = self.block.scans[0].columns
        chosen = tuple(columns.index(c) for _, c in self.block.output)
        if chosen == tuple(range(len(columns))):
            return delta
        return delta.with_(rows=select_columns(delta.rows, chosen))

    # ---- what holds ------------------------------------------------------------------
    def contents(self, clock: Clock) -> Delta:
        """The results of all queries that live at the clock."""
        if self._uses_own_index:
            scan, match = self._index
            held = scan.rows_at(scan.log.discarded, self.flow.arrived()[1])
            return self._matched(held, match.match_live, clock.now)
        live = self._queries.live(Lineage.QUERY)
        delta = self._delta(self.flow.contents(self.key, clock.now, live))
        return delta.with_(ts=np.full(len(delta), clock.now))

    def needs(self, now: int) -> dict[str, int]:
        """By stream, the first position that must stay in its log."""
        return self.flow.needs(now)

    # ---- EXPLAIN ---------------------------------------------------------------------
    def structure(self) -> str:
        """Joins keep their rows in SteMs."""
        return "SteM" if len(self.block.scans) > 1 else "–"

    def detail(self) -> str:
        """Streams, how they join, and what the queries ask."""
        from penstock.physical.scan import describe_window

        windows = ", ".join(f"{s.stream} {describe_window(s)}" for s in self.block.scans)
        names = [scan.stream_schema.names for scan in self.block.scans]
        joined = self.flow.span.describe(names)
        asked = " AND ".join(str(c.predicate) for c in self.block.conditions)
        parts = [windows, f"on {joined}" if joined else "", f"where {asked}" if asked else ""]
        return " ".join(p for p in parts if p)

    def notes(self) -> list[str]:
        """Who shares the flow and its SteMs, and what its eddies have learnt."""
        flow = self.flow
        if self._uses_own_index:
            return [f"by itself: {self._index[1].how()}"]
        queries = sum(len(member.queries) for member in flow.members.values())
        shared = f"flow of {counted(len(flow.members), 'template')}, {counted(queries, 'query')}"
        keys = [f"{s.name} {s.key} ({counted(s.readers, 'reader')})" for s in flow.stems()]
        return ["; ".join([shared, *keys]), *flow.learnt()]
