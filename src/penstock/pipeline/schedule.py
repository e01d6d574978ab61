"""Schedules: which unit of a pipeline runs next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, get_args

from penstock.pipeline.units import Unit

ScheduleName = Literal["round-robin", "oldest-first"]
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)


class Schedule(Protocol):
    """Picks among units that have something to do."""

    def pick(self, ready: Sequence[Unit]) -> Unit:
        """The unit that runs next; `ready` is not empty."""


class RoundRobin:
    """Units take turns in the order of their numbers, which is that of the rows' way."""

    def __init__(self) -> None:
        self._last = -(1 << 30)  # before all numbers

    def pick(self, ready: Sequence[Unit]) -> Unit:
        """The next unit after the last one."""
        chosen = min(ready, key=lambda unit: (unit.number <= self._last, unit.number))
        self._last = chosen.number
        return chosen


class OldestFirst:
    """The unit with the input of the earliest arrival; of several, the one further on."""

    def pick(self, ready: Sequence[Unit]) -> Unit:
        """The unit that has waited longest."""
        return min(ready, key=lambda unit: (unit.since, -unit.number))


_MAKE: dict[ScheduleName, Callable[[], Schedule]] = {
    "round-robin": RoundRobin,
    "oldest-first": OldestFirst,
}


def make_schedule(name: ScheduleName) -> Schedule:
    """The schedule of a name."""
    return _MAKE[name]()
