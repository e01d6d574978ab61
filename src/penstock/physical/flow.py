"""The leaf of a plan that runs in a flow: rows tagged with queries (CACQ §3; eddy/flow.py)."""

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
"""Makes what matches rows of the flow with the template's own index."""


class FlowOp(Operator):
    """What the queries of one template get from their flow, which the engine steps before it."""

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

    def close(self) -> None:
        """The template is gone."""
        if self._in_index is not None:
            self._in_index.close()
        self._flows.leave(self.flow, self.key)

    @property
    def _matches(self) -> FlowMatches:
        """Where rows are matched with queries now: their number decides."""
        own = self._in_index if self._template.uses_own_index else None
        return self._in_groups if own is None else own

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
    def notes(self) -> list[str]:
        """What the eddies of its flow have learnt, where it is matched by those."""
        return [] if self._template.uses_own_index else self.flow.report.learnt()

    def how(self) -> str:
        """How its own index finds very many queries."""
        return "" if self._in_index is None else self._in_index.how()
