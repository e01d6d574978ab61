"""The leaf of a plan that runs in a flow: rows tagged with queries (CACQ §3; eddy/flow.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.delta import Clock, Delta, Lineage, merge
from penstock.eddy.flow import Flow
from penstock.eddy.index_policy import IndexPolicy
from penstock.eddy.membership import FlowTemplate
from penstock.optimizer.flow_block import Block
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.flow_matches import FlowMatches, GroupMatches, IndexMatches, MakeIndex
from penstock.physical.operator import Operator
from penstock.queries.query_table import QueryTable

if TYPE_CHECKING:
    from penstock.eddy.flows import Flows
    from penstock.expressions.context import Context
    from penstock.state.arena import Scope
    from penstock.state.sets import SetTable


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


class FlowOp(Operator):
    """What the queries of one template get from their flow, which the engine steps before it."""

    name = "flow"

    def __init__(
        self, key: int, block: Block, flow: Flow, flows: Flows, queries: QueryTable,
        ctx: Context, scope: Scope, make_index: MakeIndex | None,
        sets: SetTable | None = None,
    ) -> None:  # fmt: skip
        level = Lineage.QUERY if sets is None else Lineage.SET
        super().__init__((), flow_edge(block, level), scope)
        self.key, self.block, self.flow = key, block, flow
        self._flows, self._queries, self._ctx = flows, queries, ctx
        scope.array("stepped", 1)
        policy = IndexPolicy(make_index is not None)
        self._template = FlowTemplate(queries, block.conditions, block.lifetimes, policy)
        self._in_groups = GroupMatches(flow, key, self._template, block, sets)
        if make_index is not None:
            self._in_index = IndexMatches(flow, self._template, block, make_index)
        flow.add(key, self._template)

    def close(self) -> None:
        """The template is gone."""
        self._flows.leave(self.flow, self.key)

    @property
    def _matches(self) -> FlowMatches:
        """Where rows are matched with queries now: their number decides."""
        return self._in_index if self._template.uses_own_index else self._in_groups

    # ---- the step --------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Results that the step brings, and for new queries those that are there."""
        delta = self._matches.arrived(clock)
        new = self.flow.who_look_back(self.key, self._newcomers())
        if new.shape[0]:
            below = self._held(clock.now, self.flow.before, new)
            delta = merge([below, delta], len(self.edge.schema)) if len(below) else delta
        self._tell()
        return delta

    def _newcomers(self) -> I64:
        """Queries that have not seen what is there; in the first step these are all."""
        if not self.scope["stepped"][0]:
            self.scope["stepped"][0] = 1
            return self._queries.live(Lineage.QUERY)
        new = self._queries.newcomers
        return self._queries.alive(Lineage.QUERY, new) if new.shape[0] else new

    def _tell(self) -> None:
        """Report queries that failed, and failures that were hidden."""
        hid = self.flow.hidden(self.key)
        self._ctx.hidden.add(hid.nulls, hid.rows, hid.reason)
        for qid, reason in self.flow.faults(self.key).items():
            self._ctx.failures.add(Lineage.QUERY, np.array([qid]), reason)

    def has_input(self, now: int) -> bool:
        """Whether the flow's step, which was taken at `now`, has something for the template."""
        return self._matches.has_input()

    # ---- what holds ------------------------------------------------------------------
    def contents(self, clock: Clock) -> Delta:
        """The results of all queries that live at the clock."""
        return self._held(clock.now, self.flow.taken, None)

    def _held(self, now: int, until: I64 | None, qids: I64 | None) -> Delta:
        if until is None or now == BEGINNING:
            return Delta.empty(len(self.edge.schema))
        return self._matches.held(now, until, qids)

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
        """How rows find queries, and what is shared."""
        return self._matches.notes()
