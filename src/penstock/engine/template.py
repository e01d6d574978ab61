"""A template at run time: one plan, its parameter relation, its clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.changes import Changes, concat_changes
from penstock.delta import Clock, Delta, Lineage
from penstock.eddy.flow import Flow
from penstock.engine.triggered import changes_triggered, step_triggered
from penstock.expressions.hidden import Totals
from penstock.kernels.changes import DELETE
from penstock.optimizer.distribution import Send
from penstock.physical.flow import FlowOp
from penstock.physical.instantiate import Plan
from penstock.physical.operator import Operator
from penstock.physical.view import ViewOp
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.sets import SetTable

_LONGEST = 200  # bytes of a reason


@dataclass(frozen=True, slots=True)
class Template:
    """Everything one plan needs to take a step. State lives in `scope`."""

    key: int
    plan: Plan
    queries: QueryTable
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    scope: Scope
    at_commit: bool
    sets: SetTable | None = None
    triggered: bool = False  # whether operators run only when rows reach them

    def __post_init__(self) -> None:
        self.scope.array("clock", 2, fill=BEGINNING)

    @property
    def clock(self) -> int:
        """The event time up to which the answers are exact."""
        return int(self.scope["clock"][0])

    @property
    def has_run(self) -> bool:
        """Whether the first step (which loads tables and retained rows) was taken."""
        return bool(self.scope["clock"][1] == 1)

    @property
    def hidden(self) -> Totals:
        """The failures that ON ERROR has hidden from its queries, on all shards."""
        if "hidden" not in self.scope:
            return Totals()
        nulls, rows = cast(I64, self.scope["hidden"]).sum(axis=0).tolist()
        return Totals(nulls, rows, bytes(self.scope["why"]).rstrip(b"\0").decode(errors="ignore"))

    def note(self, hidden: Totals) -> None:
        """Count more of them; the first reason stays."""
        self._hidden_of(0, hidden.reason)[0] += (hidden.nulls, hidden.rows)

    def note_of(self, shard: int, hidden: Totals) -> None:
        """Set the totals that a shard reports."""
        self._hidden_of(shard, hidden.reason)[shard] = (hidden.nulls, hidden.rows)

    def _hidden_of(self, shard: int, reason: str) -> I64:
        if "hidden" not in self.scope:
            text = reason.encode()[:_LONGEST]
            self.scope.array("why", _LONGEST, np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
        self.scope.array("hidden", (shard + 1, 2))
        return cast(I64, self.scope.reserve("hidden", shard + 1))

    @property
    def flows(self) -> list[Flow]:
        """The flows that its plan reads; the engine steps them before the plan."""
        return [leaf.flow for leaf in self.plan.flows if isinstance(leaf, FlowOp)]

    def reach(self, now: int) -> None:
        """Record that a step has brought the answers to `now`."""
        cast(I64, self.scope["clock"])[:] = now, 1

    def step(self, now: int) -> Step:
        """Process all input up to `now`; returns changes of the answers and rows for level 2."""
        now = max(now, self.clock)
        if not self.has_run:
            self.queries.settle()
        elif now == self.clock and not self._has_work(now):
            return Step(self.no_changes(), [])
        before = self.clock if self.has_run and self.streams else now
        awaited = not self.has_run or self.queries.newcomers.shape[0] > 0
        out, changes = self._run(Clock(before, now, self.at_commit), awaited)
        self.queries.settle()
        self._collect_sets()
        self.reach(now)
        return Step(changes, [(send, out[top]) for send, top in self.plan.sends])

    def _run(self, clock: Clock, awaited: bool) -> tuple[dict[Operator, Delta], Changes]:
        """Step every operator; `awaited` says that a query has no answer yet."""
        out: dict[Operator, Delta] = {}
        view = self.plan.view
        for operator in self.plan.operators:
            if operator is view:
                continue
            inputs = [out[source] for source in operator.inputs]
            out[operator] = self.step_one(operator, inputs, clock, awaited)
        if view is None:
            return out, self.no_changes()
        return out, self.show(view, out[view.inputs[0]], clock, awaited)

    def step_one(
        self, operator: Operator, inputs: list[Delta], clock: Clock, awaited: bool = False
    ) -> Delta:
        """Step one operator of the plan; `awaited` says that a query has no answer yet."""
        if self.triggered and inputs:
            return step_triggered(operator, inputs, clock.now, awaited)
        return step_operator(operator, inputs, clock)

    def show(self, view: ViewOp, rows: Delta, clock: Clock, awaited: bool = False) -> Changes:
        """The changes of the answers that the rows below the view make."""
        if not self.triggered:
            return view.changes(rows, clock)
        shown = changes_triggered(view, rows, clock.now, awaited)
        return concat_changes([self.no_changes(), *shown])

    def _collect_sets(self) -> None:
        """Free query sets that no state holds; output no longer refers to them."""
        if self.sets is not None and self.sets.should_collect():
            self.sets.collect([a for op in self.plan.operators for a in op.held_sets()])

    def _has_work(self, now: int) -> bool:
        """Whether a step at the same clock can change anything: new queries, rows or updates."""
        if self.queries.newcomers.shape[0]:
            return True
        plan = self.plan
        return (
            any(scan.has_input(now) for scan in plan.scans)
            or any(flow.has_input(now) for flow in plan.flows)
            or any(table.has_input(now) for table in plan.tables)
            or any(leaf.has_input() for leaf in plan.receivers)
            or any(view.has_input(now) for view in plan.views)
        )

    def receive(self, channel: int, delta: Delta) -> None:
        """Accept rows of level 1 for the next step."""
        for leaf in self.plan.receivers:
            if leaf.channel == channel:
                leaf.put(delta)

    def held(self, qids: I64, kind: int, now: int) -> Changes:
        """The answers of queries at the clock, as changes of one kind.

        A plan over tables alone has no clock of its own: `now` is its time.
        """
        view = self.plan.view
        if view is None:
            return self.no_changes()
        at = self.clock if self.streams else max(self.clock, now)
        return view.held(qids, Clock(at, at), kind)

    def drop(self, qids: I64, now: int) -> Changes:
        """Retract the answers of queries and free their state."""
        changes = self.held(qids, DELETE, now)
        self.purge(qids)
        return changes

    def purge(self, qids: I64) -> None:
        """Free the state of queries, and of cohorts without queries."""
        cohorts = self.queries.drop(qids)
        for operator in self.plan.operators:
            lins = {Lineage.QUERY: qids, Lineage.SET: qids, Lineage.COHORT: cohorts}.get(
                operator.edge.lineage
            )
            if lins is not None and lins.shape[0]:
                operator.purge(lins)

    def positions(self) -> Iterator[tuple[str, int]]:
        """The place of each reader in the log of its stream."""
        for scan in self.plan.scans:
            yield scan.node.stream, max(scan.position(), 0)
        for flow in self.plan.flows:
            yield from flow.needs(self.clock).items()

    def close(self) -> None:
        """Leave the flows that the plan takes part in."""
        for flow in self.plan.flows:
            flow.close()

    def no_changes(self) -> Changes:
        """An empty changelog."""
        columns = 0 if self.plan.view is None else len(self.plan.view.edge.schema)
        none = np.empty(0, np.int64)
        return Changes(np.empty((1 + columns, 0), np.int64), none, np.empty(0, np.int8), none)

    def __hash__(self) -> int:
        return self.key


def step_operator(operator: Operator, inputs: list[Delta], clock: Clock) -> Delta:
    """Step an operator, unless it has no input and the step would change nothing."""
    if inputs and not any(map(len, inputs)) and operator.idle(clock.now):
        return Delta.empty(len(operator.edge.schema))
    return operator.step(inputs, clock)


@dataclass(frozen=True, slots=True)
class Step:
    """The output of one step of a template."""

    changes: Changes
    sent: list[tuple[Send, Delta]]
