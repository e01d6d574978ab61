"""A template at run time: one plan, its parameter relation, its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from penstock.delta import BEGINNING, I64, Clock, Delta, Level
from penstock.physical.operator import Operator
from penstock.physical.planner import Plan
from penstock.physical.scan import ScanOp
from penstock.physical.table_scan import TableScanOp
from penstock.physical.view import Changes
from penstock.sharing.query_table import QueryTable
from penstock.state.arena import Scope


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

    def __post_init__(self) -> None:
        self.scope.array("clock", 2, fill=BEGINNING)

    @property
    def clock(self) -> int:
        """Event time up to which the answers are exact."""
        return int(self.scope["clock"][0])

    @property
    def has_run(self) -> bool:
        """Whether the first step (which loads tables and retained rows) was taken."""
        return bool(self.scope["clock"][1] == 1)

    def step(self, now: int) -> Changes:
        """Take all input up to `now` and return the changes of the answers."""
        state = cast(I64, self.scope["clock"])
        now = max(now, self.clock)
        if not self.has_run:
            self.queries.settle()
        elif now == self.clock and not self._has_work(now):
            return no_changes(len(self.plan.view.edge.schema))
        before = self.clock if self.has_run and self.streams else now
        clock = Clock(before, now, self.at_commit)
        out: dict[Operator, Delta] = {}
        for operator in self.plan.operators[:-1]:
            out[operator] = operator.step([out[i] for i in operator.inputs], clock)
        view = self.plan.view
        changes = view.changes(out[view.inputs[0]], clock)
        self.queries.settle()
        state[:] = now, 1
        return changes

    def _has_work(self, now: int) -> bool:
        """Whether a step at the same clock can change anything: new queries, rows or updates."""
        if self.queries.newcomers.shape[0]:
            return True
        leaves = (o for o in self.plan.operators if isinstance(o, ScanOp | TableScanOp))
        return any(leaf.has_input(now) for leaf in leaves)

    def contents(self) -> Delta:
        """The answers of all queries at the clock."""
        return self.plan.view.contents(Clock(self.clock, self.clock))

    def drop(self, qids: I64) -> Changes:
        """Retract the answers of queries and free their state."""
        changes = self.plan.view.retract(qids, Clock(self.clock, self.clock))
        self.purge(qids)
        return changes

    def purge(self, qids: I64) -> None:
        """Free the state of queries, and of cohorts nobody is in any more."""
        cohorts = self.queries.drop(qids)
        for operator in self.plan.operators:
            lins = {Level.QUERY: qids, Level.COHORT: cohorts}.get(operator.edge.level)
            if lins is not None and lins.shape[0]:
                operator.purge(lins)

    def positions(self) -> dict[str, int]:
        """The slowest reader's place in the log of each stream."""
        found: dict[str, int] = {}
        for operator in self.plan.operators:
            if isinstance(operator, ScanOp):
                at = max(operator.position(), 0)
                found[operator.node.stream] = min(found.get(operator.node.stream, at), at)
        return found

    def __hash__(self) -> int:
        return self.key


def no_changes(columns: int) -> Changes:
    """An empty changelog."""
    none = np.empty(0, np.int64)
    return Changes(np.empty((1 + columns, 0), np.int64), none, np.empty(0, np.int8), none)
