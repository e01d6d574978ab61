"""Drives a session through a scenario and writes down what it answers after each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import penstock
from oracle.fold import Change, Values, changes_of, rows_of
from oracle.scenario import (
    Action,
    Advance,
    Drop,
    Push,
    Register,
    Restore,
    Scenario,
    follow,
)
from oracle.world import World
from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Observation:
    """What a query showed after a step; `view` is None where a query has no view."""

    step: int
    changes: list[Change]
    view: list[Values] | None
    dropped: bool = False


@dataclass(slots=True)
class Trace:
    """Everything seen of one scenario."""

    scenario: Scenario
    sqls: list[str]
    world: World
    seen: list[list[Observation]]
    since: list[int | None]
    registered: list[int]
    views: bool = True
    late: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    scenario: Scenario
    sqls: list[str]
    options: dict[str, Any]
    named: bool
    views: bool
    session: Any = None
    handles: dict[int, Any] = field(default_factory=dict)

    def go(self) -> Trace:
        world = self.scenario.world()
        count = len(self.sqls)
        seen: list[list[Observation]] = [[] for _ in self.sqls]
        trace = Trace(self.scenario, self.sqls, world, seen, [0] * count, [0] * count, self.views)
        self.session = penstock.connect(runner="inprocess", **self.options)
        try:
            for text in self.scenario.ddl():
                self.session.sql(text)
            self._start(trace)
            for action in self.scenario.actions:
                self._act(action, trace)
            for stream in self.scenario.streams:
                trace.late[stream.name] = self.session.late(stream.name).num_rows
        finally:
            self.session.close()
        return trace

    def _start(self, trace: Trace) -> None:
        later = {a.index for a in self.scenario.actions if isinstance(a, Register)}
        for i in range(len(self.sqls)):
            if i not in later:
                self._register(i, history=False)
        self._look(trace)

    def _register(self, index: int, history: bool) -> None:
        sql = self.sqls[index]
        if self.named:
            self.session.sql(f"CREATE MATERIALIZED VIEW q{index} AS {sql}")
            self.handles[index] = self.session[f"q{index}"]
        else:
            self.handles[index] = self.session.query(sql, history=history)

    def _act(self, action: Action, trace: Trace) -> None:
        follow(trace.world, action)
        match action:
            case Push(stream, rows):
                self.session.push(stream, self.scenario.dicts(stream, rows))
            case Advance(None, ts):
                self.session.advance(ts=ts)
            case Advance(stream, ts):
                self.session.advance(stream, ts)
            case Register(index, history):
                self._register(index, history)
                trace.since[index] = None if history else trace.world.step
                trace.registered[index] = trace.world.step
            case Drop(index):
                self._drop(index, trace)
            case Restore():
                self._restore()
            case _:
                self.session.sql(self.scenario.dml(action))
        self.session.flush()
        self._look(trace)

    def _drop(self, index: int, trace: Trace) -> None:
        handle = self.handles.pop(index)
        told: list[Any] = []
        handle.subscribe(told.append)
        handle.drop()
        changes = [change for table in told for change in changes_of(table)]
        trace.seen[index].append(Observation(trace.world.step, changes, None, dropped=True))

    def _restore(self) -> None:
        if "shards" in self.options:
            self.session._runner.job.cluster.reload()
            return
        image = self.session.snapshot()
        self.session.close()
        self.session = penstock.connect(runner="inprocess", snapshot=image, **self.options)
        self.handles = {i: self.session[f"q{i}"] for i in self.handles}

    def _look(self, trace: Trace) -> None:
        for index, handle in self.handles.items():
            changes = changes_of(handle.changes())
            view = self._view(handle) if self.views else None
            trace.seen[index].append(Observation(trace.world.step, changes, view))

    def _view(self, handle: Any) -> list[Values] | None:
        try:
            return rows_of(handle.view())
        except PenstockError as refusal:
            if "view" in refusal.message.lower():
                return None
            raise


def run(
    sqls: list[str], scenario: Scenario, named: bool = False, views: bool = True, **options: Any
) -> Trace:
    """Run a scenario; `named` registers materialized views (needed to restore)."""
    named = named or any(isinstance(a, Restore) for a in scenario.actions)
    return _Run(scenario, sqls, options, named, views).go()
