"""Random populations of queries, followed in two ways that must tell the same.

A plan of events (groups of queries come and go, input, reading, interruption) is drawn once and
followed by several sessions: with `query_many` and `Queries`, or query by query.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

import penstock
from oracle.fold import META, Values, changes_of, plain, rows_of
from oracle.scenario import Action, Advance, Push, Scenario
from penstock.errors import HistoryError, UnsupportedError
from property.data import params_of, session, streams_of

Seen = Counter[tuple[str, int | None, str, Values]]
"""Changes: query, time, kind, row."""
Shown = Counter[tuple[str, Values]]
"""Answers: query, row."""


@dataclass(frozen=True, slots=True)
class Come:
    """Queries are registered together."""

    params: tuple[dict[str, object], ...]
    history: bool


@dataclass(frozen=True, slots=True)
class Go:
    """One query of a group, or all (`at` None), are dropped."""

    group: int
    at: int | None


@dataclass(frozen=True, slots=True)
class Read:
    """One query of a group, or all, are read."""

    group: int
    at: int | None


@dataclass(frozen=True, slots=True)
class Restore:
    """The session is put away and built again."""


Event = Come | Go | Read | Restore | Action


@dataclass(frozen=True, slots=True)
class Plan:
    """Streams and what happens."""

    scenario: Scenario
    events: tuple[Event, ...]

    @classmethod
    def draw(
        cls, seed: int, template: str, restores: bool = False, tables: frozenset[str] = frozenset()
    ) -> Plan:
        """A random plan for queries of a template."""
        rng = Random(seed)
        scenario = session(rng, streams_of(template), set(tables), 24)
        events: list[Event] = []
        groups: list[set[int]] = []
        for action in scenario.actions:
            if len(groups) < 4 and (not groups or rng.random() < 0.3):
                params = tuple(params_of(rng) for _ in range(rng.randint(1, 6)))
                events.append(Come(params, rng.random() < 0.4))
                groups.append(set(range(len(params))))
            if rng.random() < 0.25:
                events += _leave(rng, groups)
            events.append(action)
            if restores and rng.random() < 0.2:
                events.append(Restore())
            if rng.random() < 0.5:
                group = rng.randrange(len(groups))
                live = sorted(groups[group])
                at = rng.choice(live) if live and rng.random() < 0.4 else None
                events.append(Read(group, at))
        events += [Read(group, None) for group in range(len(groups))]
        return cls(scenario, tuple(events))


def _leave(rng: Random, groups: list[set[int]]) -> list[Event]:
    group = rng.randrange(len(groups))
    if not groups[group]:
        return []
    if rng.random() < 0.4:
        groups[group].clear()
        return [Go(group, None)]
    at = rng.choice(sorted(groups[group]))
    groups[group].remove(at)
    return [Go(group, at)]


@dataclass(slots=True)
class Follower:
    """A session that follows a plan; `read` holds what was told at each reading."""

    template: str
    plan: Plan
    together: bool
    shards: int | None = None
    groups: list[Any] = field(default_factory=list)
    live: list[list[int]] = field(default_factory=list)
    heard: list[list[pa.Table]] = field(default_factory=list)
    read: list[tuple[Seen, Shown]] = field(default_factory=list)
    ps: Any = None

    def run(self) -> Follower:
        """Follow all events."""
        self.ps = penstock.connect(runner="inprocess", shards=self.shards)
        for text in self.plan.scenario.ddl():
            self.ps.sql(f"{text} RETAIN 1000" if "STREAM" in text else text)
        for event in self.plan.events:
            self._follow(event)
        self.ps.close()
        return self

    def _follow(self, event: Event) -> None:
        match event:
            case Come():
                self._come(event)
            case Go(group, None) if self.together:
                self.groups[group].drop()
                self.live[group] = []
            case Go(group, at):
                for one in self.live[group] if at is None else [at]:
                    self.groups[group][one].drop()
                    self.live[group] = [i for i in self.live[group] if i != one]
            case Read(group, at):
                self.read.append((self._changes(group, at), self._view(group)))
            case Restore():
                self._restore()
            case Push(stream, rows):
                self.ps.push(stream, self.plan.scenario.dicts(stream, rows))
            case Advance(stream, ts):
                self.ps.advance(stream, ts)
            case _:
                self.ps.sql(self.plan.scenario.dml(event))

    def _come(self, event: Come) -> None:
        table = pa.Table.from_pylist(list(event.params))
        names = [f"g{len(self.groups)}n{i}" for i in range(len(event.params))]
        table = table.append_column("qid", pa.array(names))
        try:
            group = self.ps.query_many(self.template, table, history=event.history)
        except HistoryError:  # count windows have none on shards, nor streams without rows
            group = self.ps.query_many(self.template, table)
        self.groups.append(group)
        self.live.append(list(range(len(names))))
        self.heard.append([])
        for source in [group] if self.together else group:
            source.subscribe(self.heard[-1].append)

    def _restore(self) -> None:
        if self.shards is not None:
            self.ps._runner.job.cluster.reload()
            return
        image = self.ps.snapshot()
        self.ps.close()
        self.ps = penstock.connect(runner="inprocess", snapshot=image)
        for at, group in enumerate(self.groups):
            if self.live[at]:
                known = self.ps[group[self.live[at][0]].name].siblings
                self.groups[at] = known if self.together else list(known)

    def _changes(self, group: int, at: int | None) -> Seen:
        if at is not None:
            return seen(self.groups[group][at].changes())
        if self.together:
            return seen(self.groups[group].changes())
        return sum((seen(q.changes()) for q in self.groups[group]), Counter())

    def _view(self, group: int) -> Shown:
        if self.together:
            try:
                return shown(self.groups[group].view())
            except UnsupportedError:  # a query without state
                return Counter()
        live = [self.groups[group][i] for i in self.live[group]]
        return Counter((q.name, row) for q in live for row in _rows(q.view(), ()))


def _rows(table: pa.Table, skip: tuple[str, ...]) -> list[Values]:
    return [tuple(plain(v) for v in row) for row in rows_of(table, skip=skip)]


def _names(table: pa.Table) -> list[list[str]]:
    """The queries of each row, also where it has one only."""
    found = table.column("_query").to_pylist()
    return [name if isinstance(name, list) else [name] for name in found]


def seen(table: pa.Table) -> Seen:
    """Changes by query; fails on a malformed changelog."""
    check_order(table)
    found: Seen = Counter()
    times = table.column("_time").to_pylist()
    kinds = table.column("_change_type").to_pylist()
    rows = _rows(table, META)
    for names, time, kind, row in zip(_names(table), times, kinds, rows, strict=True):
        assert names, "a change of nobody"
        assert len(set(names)) == len(names), "a query twice in one change"
        found.update((name, time, kind, row) for name in names)
    return found


def check_order(table: pa.Table) -> None:
    """By batch and time; for each query a changelog with its pairs together."""
    batches = table.column("_batch").to_pylist()
    assert batches == sorted(batches)
    names = _names(table)
    for one in {name for some in names for name in some}:
        own = table.filter(pa.array([one in some for some in names]))
        changes_of(own.set_column(0, "_query", pa.array([one] * own.num_rows)))


def shown(table: pa.Table) -> Shown:
    """Answers by query."""
    rows = _rows(table, ("_query",))
    pairs = zip(_names(table), rows, strict=True)
    return Counter((name, row) for names, row in pairs for name in names)
