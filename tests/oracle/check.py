"""Exactness: every view and every instant of every folded changelog equals the oracle."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

from oracle.driver import Observation, Trace, run
from oracle.fold import Change, Fold, FoldError, Values, bag, same, show
from oracle.oracle import Oracle
from oracle.scenario import Scenario
from oracle.windows import BEGINNING, STEPS, instant_of, point


class Mismatch(AssertionError):
    """The engine and the oracle disagree."""


def check(
    sqls: str | list[str], scenario: Scenario, every_instant: bool = True, **options: Any
) -> Trace:
    """Run the scenario and compare everything it shows with the oracle."""
    sqls = [sqls] if isinstance(sqls, str) else sqls
    try:
        trace = run(sqls, scenario, **options)
    except FoldError as broken:
        raise Mismatch(f"{broken}\n{scenario.script(sqls)}") from None
    compare(trace, every_instant)
    return trace


def compare(trace: Trace, every_instant: bool = True) -> int:
    """Compare a finished run with the oracle; the number of comparisons made.

    Without `every_instant` only the ends of steps are compared, for long streams.
    """
    expected = {name: len(rows) for name, rows in trace.world.late.items()}
    if trace.late != expected:
        raise Mismatch(f"late rows: {trace.late}, not {expected}\n{_script(trace)}")
    queries = range(len(trace.sqls))
    return sum(_Comparison(trace, index, every_instant).run() for index in queries)


def _script(trace: Trace) -> str:
    return trace.scenario.script(trace.sqls)


class _Comparison:
    """One query of a run against its oracle."""

    def __init__(self, trace: Trace, index: int, every_instant: bool) -> None:
        self.trace = trace
        self.index = index
        self.sql = trace.sqls[index]
        self.oracle = Oracle(self.sql, trace.world, trace.since[index])
        on_commit = bool(re.search(r"EMIT\s+ON\s+COMMIT", self.sql, re.I))
        self.ends_only = on_commit or not every_instant
        self.windowed = bool(re.search(r"\[\s*(RANGE|ROWS|NOW|PARTITION)", self.sql, re.I))
        self.fold = Fold()
        self.made = 0
        self.keys: set[tuple[int, int]] = set()

    def run(self) -> int:
        """Follow the observations; the number of comparisons."""
        before = self.oracle.clock(self.trace.registered[self.index])
        if self.ends_only:
            steps = [seen.step for seen in self.trace.seen[self.index]]
            self.oracle.only([point(self.oracle.clock(step), step) for step in steps])
        for seen in self.trace.seen[self.index]:
            self._unique(seen)
            if seen.dropped:
                self._after_drop(seen)
                break
            clock = self.oracle.clock(seen.step)
            self._step(seen, before, clock)
            before = clock
        return self.made

    def _unique(self, seen: Observation) -> None:
        """A sink that deduplicates by (_batch, _seq) must lose nothing."""
        keys = {change.key for change in seen.changes}
        if len(keys) < len(seen.changes) or keys & self.keys:
            self._fail(f"(_batch, _seq) used twice: {sorted(keys & self.keys)}", seen.step)
        self.keys |= keys

    def _step(self, seen: Observation, before: int, clock: int) -> None:
        changes = [replace(c, time=max(c.time, BEGINNING)) for c in seen.changes]
        if any(not before <= c.time <= clock for c in changes):
            times = sorted({c.time for c in changes})
            self._fail(f"changes at {times} in a step from {before} to {clock}", seen.step)
        by_time = {t: list(group) for t, group in groupby(changes, key=lambda c: c.time)}
        for instant in self._instants(before, clock, by_time):
            self._apply(by_time.get(instant, []), seen.step)
            if instant < clock and not self.ends_only:
                self._equal(self.fold.held, point(instant, STEPS - 1), "changelog", seen.step)
        at = point(clock, seen.step)
        self._equal(self.fold.held, at, "changelog", seen.step)
        if seen.view is not None:
            self._equal(bag(seen.view), at, "view", seen.step)
        elif self.trace.views and self.windowed:
            self._fail("view() refused for a query that has one", seen.step)

    def _instants(self, before: int, clock: int, by_time: dict[int, Any]) -> list[int]:
        """Every instant of a step worth looking at: events and the instants next to them."""
        events = {instant_of(p) for p in self.oracle.points()}
        near = {e + d for e in events for d in (-1, 0)}
        return sorted({t for t in near if before <= t <= clock} | set(by_time) | {clock})

    def _apply(self, changes: list[Change], step: int) -> None:
        try:
            self.fold.apply(changes)
        except FoldError as broken:
            self._fail(str(broken), step)

    def _equal(self, found: Counter[Values], at: int, what: str, step: int) -> None:
        self.made += 1
        if same(found, self.oracle.at(at)):
            return
        wanted = self.oracle.answer(at)
        if not same(found, wanted):
            self._fail(
                f"{what} at instant {instant_of(at)}\n  found    {show(found)}\n"
                f"  expected {show(wanted)}",
                step,
            )

    def _after_drop(self, seen: Observation) -> None:
        self._apply(seen.changes, seen.step)
        if self.fold.held and self.windowed:
            self._fail(f"left after drop: {show(self.fold.held)}", seen.step)

    def _fail(self, message: str, step: int) -> None:
        raise Mismatch(f"step {step}, {self.sql}\n  {message}\n{_script(self.trace)}")


def history(trace: Trace, index: int) -> list[tuple[int, Counter[Values]]]:
    """The bag after each instant at which the folded changelog of a query changed."""
    fold = Fold()
    changes = [c for seen in trace.seen[index] for c in seen.changes]
    found: list[tuple[int, Counter[Values]]] = []
    for instant, group in groupby(changes, key=lambda c: c.time):
        fold.apply(group)
        if not found or found[-1][1] != fold.held:
            found.append((instant, Counter(fold.held)))
    return found
