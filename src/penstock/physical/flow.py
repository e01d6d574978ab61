"""The leaf of a plan that reads a flow: rows tagged with queries (CACQ §3; eddy/flow.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.delta import Clock, Delta, Lineage, merge
from penstock.eddy.flow import Flow
from penstock.eddy.membership import FlowTemplate
from penstock.physical.flow_matches import FlowMatches, GroupMatches, MatchedRows, OwnMatches
from penstock.physical.operator import Operator
from penstock.physical.specs import FlowSpec
from penstock.queries.query_table import QueryTable

if TYPE_CHECKING:
    from penstock.eddy.flows import Flows
    from penstock.expressions.context import Context
    from penstock.state.arena import Scope
    from penstock.state.sets import SetTable

MakeOwn = Callable[[Flow, FlowTemplate, MatchedRows], OwnMatches]
"""Builds the object that matches a flow's rows with the template's own index."""


class FlowOp(Operator):
    """Emits the rows that a flow found for the queries of one template.

    The engine steps the flow before this operator.
    """

    def __init__(
        self, spec: FlowSpec, scope: Scope, ctx: Context, flow: Flow, flows: Flows,
        queries: QueryTable, make_own: MakeOwn | None, sets: SetTable | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, (), scope)
        block, sets = spec.block, sets if spec.edge.lineage is Lineage.SET else None
        self.key = key = next(reversed(flow.members), -1) + 1  # later templates have higher keys
        self.flow, self._flows, self._queries, self._ctx = flow, flows, queries, ctx
        scope.array("stepped", 1)
        template = FlowTemplate(queries, block.conditions, block.lifetimes, spec.policy)
        self._template, made = template, MatchedRows(flow, template, block, sets)
        self._in_groups = GroupMatches(flow, key, template, made)
        self._in_index = None if make_own is None else make_own(flow, template, made)
        flow.add(key, self._template)

    @property
    def shared(self) -> Flow:
        """The flow."""
        return self.flow

    def close(self) -> None:
        """Leave the flow, because the template is gone."""
        if self._in_index is not None:
            self._in_index.close()
        self._flows.leave(self.flow, self.key)

    @property
    def _matches(self) -> FlowMatches:
        """The current source of rows: the template's own index, or the flow's groups."""
        own = self._in_index if self._template.uses_own_index else None
        return self._in_groups if own is None else own

    # ---- the step --------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Emit the results of this step, and for new queries the results that already exist."""
        delta = self._matches.arrived(clock)
        new = self.flow.looking_back(self.key, self._newcomers())
        if new.shape[0]:
            below = self._held(clock.now, self.flow.before, new)
            delta = merge([below, delta], len(self.edge.schema)) if len(below) else delta
        self._tell()
        return delta

    def _newcomers(self) -> I64:
        """Queries that have not seen the existing results; in the first step, all queries."""
        if not self.scope["stepped"][0]:
            self.scope["stepped"][0] = 1
            return self._queries.live(Lineage.QUERY)
        new = self._queries.newcomers
        return self._queries.alive(Lineage.QUERY, new) if new.shape[0] else new

    def _tell(self) -> None:
        """Report failed queries and hidden failures to the context."""
        hid = self.flow.hidden(self.key)
        self._ctx.hidden.add(hid.nulls, hid.rows, hid.reason)
        for qid, reason in self.flow.faults(self.key).items():
            self._ctx.failures.add(Lineage.QUERY, np.array([qid]), reason)

    def has_input(self, now: int) -> bool:
        """Whether the flow's step at `now` found rows for this template."""
        return self._matches.has_input()

    # ---- what holds ------------------------------------------------------------------
    def contents(self, clock: Clock) -> Delta:
        """The live results of all queries at the clock."""
        return self._held(clock.now, self.flow.taken, None)

    def _held(self, now: int, until: I64 | None, qids: I64 | None) -> Delta:
        if until is None or now == BEGINNING:
            return Delta.empty(len(self.edge.schema))
        return self._matches.held(now, until, qids)

    def needs(self, now: int) -> dict[str, int]:
        """The first position of each stream's log that the flow still needs."""
        return self.flow.needs(now)

    # ---- EXPLAIN ---------------------------------------------------------------------
    def notes(self) -> list[str]:
        """For EXPLAIN: what the flow's eddies, or the template's own index, have learnt."""
        if self._in_index is not None and self._template.uses_own_index:
            return self._in_index.notes()
        return self.flow.report.learnt()

    def how(self) -> str:
        """For EXPLAIN: how the template's own index finds queries."""
        return "" if self._in_index is None else self._in_index.how()
