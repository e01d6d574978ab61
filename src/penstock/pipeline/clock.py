"""The virtual clock: work advances it by the time that the work takes, waiting by a jump."""

from __future__ import annotations

import time
from collections.abc import Callable

Stopwatch = Callable[[str, Callable[[], None]], int]
"""Does the work of a unit, given its name, and returns the nanoseconds that it took."""


def measured(_name: str, work: Callable[[], None]) -> int:
    """Do the work and measure it."""
    start = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - start


class VirtualClock:
    """Nanoseconds since the simulation began."""

    def __init__(self, stopwatch: Stopwatch = measured) -> None:
        self.now = 0
        self._stopwatch = stopwatch

    def spend(self, name: str, work: Callable[[], None]) -> int:
        """Do some work and move on by the time it took; returns that time."""
        took = self._stopwatch(name, work)
        self.now += took
        return took

    def wait_until(self, moment: int) -> None:
        """Jump to a later moment."""
        self.now = max(self.now, moment)
