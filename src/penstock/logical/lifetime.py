"""Lifetime: the arrival and departure of the rows of a window (DESIGN §5.8).

A window makes it; scans, flows, joins over SteMs and kernels read it. Since a log has its rows in
time order, a lifetime also bounds the positions that a window holds at an instant.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.frozen import record
from penstock.kernels.lifetime import arrive, depart, latest_gone
from penstock.logical.expr import Param
from penstock.logical.nodes import Now, Range, Unbounded, Window

Length = int | Param
"""The length of a window: one number for all queries of a template, or a parameter."""


class Log(Protocol):
    """Rows in time order."""

    @property
    def discarded(self) -> int:
        """The position of the first row that is kept."""

    def position(self, ts: int, *, after: bool) -> int:
        """The position of the first row with time > `ts` (if `after`) or ≥ it."""


@record
class Lifetime:
    """Rows live for `length` (NEVER: forever); with a `slide`, they come and go at multiples."""

    length: Length
    slide: int = 0

    @property
    def ends(self) -> bool:
        """Whether rows leave at all."""
        return self.length != NEVER

    # ---- rows ------------------------------------------------------------------------
    def lengths(self, params: I64, qids: I64) -> int | I64:
        """The length for some queries (`params` is their Q): one number, or one for each."""
        if isinstance(self.length, Param):
            return np.asarray(params[qids, 1 + self.length.index])
        return self.length

    def arrivals(self, ts: I64) -> I64:
        """The arrivals of rows with these times."""
        return arrive(ts, self.slide) if self.slide else ts.copy()

    def departures(self, ts: I64, lengths: int | I64 | None = None) -> I64:
        """The departures of rows with these times.

        `lengths` are those of queries if it is a parameter.
        """
        if not self.ends:
            return np.full(ts.shape[0], NEVER)
        return depart(ts, self._fixed() if lengths is None else lengths, self.slide)

    def _fixed(self) -> int:
        assert isinstance(self.length, int), "a length that is a parameter has to be bound"
        return self.length

    # ---- positions -------------------------------------------------------------------
    def latest_gone(self, now: int) -> int:
        """The latest time of rows that have left at `now`."""
        return latest_gone(now, self._fixed(), self.slide)

    def first(self, log: Log, now: int) -> int:
        """The first position that is in the window at `now` or enters it later."""
        if not self.ends or now == BEGINNING:
            return log.discarded
        return log.position(self.latest_gone(now), after=True)

    def end(self, log: Log, now: int) -> int:
        """The first position that is not yet in the window at `now`."""
        if self.slide:
            return log.position(now // self.slide * self.slide, after=False)
        return log.position(now, after=True)


def lifetime_of(window: Window) -> Lifetime | None:
    """The lifetime of a window's rows; None for a ROWS window, where it depends on other rows."""
    match window:
        case Range(length=length, slide=slide):
            return Lifetime(length, slide)
        case Now():
            return Lifetime(1)
        case Unbounded():
            return Lifetime(NEVER)
    return None
