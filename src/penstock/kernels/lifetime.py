"""The arrival and departure of a window's rows; only this module adds a length to a time.

With a slide, rows arrive and leave at its multiples; without one (slide 0), a row arrives at its
own time. A row lives on [arrival, departure). `Lifetime` (logical/lifetime.py) applies these
formulas to whole columns, kernels apply them to one row at a time.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.arrays import I64, NEVER
from penstock.kernels.jit import inlined

Times = TypeVar("Times", int, I64)


def arrive(ts: Times, slide: int) -> Times:
    """The instant at which a row of this time enters its window."""
    return (ts // slide + 1) * slide if slide else ts


def depart(ts: Times, length: Times | int, slide: int) -> Times:
    """The instant at which a row of this time leaves its bounded window."""
    return ((ts + length) // slide + 1) * slide if slide else ts + length


def latest_gone(now: int, length: int, slide: int) -> int:
    """The latest time of rows that have left at `now`: the inverse of `depart`."""
    return now // slide * slide - length - 1 if slide else now - length


_depart = inlined(depart)
arrival = inlined(arrive)


@inlined
def departure(ts: int, length: int, slide: int) -> int:
    """The instant at which a row of this time leaves its window; NEVER if it is unbounded."""
    return NEVER if length == NEVER else _depart(ts, length, slide)
