"""Steps of operators that run only when rows reach them (Ghanem et al. 2005, §4.1).

The time of such an operator is that of the last row that it took. What expired since the row before
takes effect at the next one, so an answer may come late: a filter below that passes nothing stops
the clock of all above it.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.delta import Clock, Delta, concat
from penstock.physical.operator import Operator
from penstock.physical.view import ViewOp


def step_triggered(operator: Operator, inputs: list[Delta], now: int, awaited: bool) -> Delta:
    """A step at each instant at which rows come; if `awaited` by new queries, at `now` too."""
    out = [operator.step(rows, clock) for rows, clock in _arrivals(inputs, now, awaited)]
    return concat(out, len(operator.edge.schema))


def changes_triggered(view: ViewOp, delta: Delta, now: int, awaited: bool) -> list[Changes]:
    """The changes that the view shows at each of these instants."""
    return [view.changes(rows, clock) for (rows,), clock in _arrivals([delta], now, awaited)]


def _arrivals(inputs: list[Delta], now: int, awaited: bool) -> list[tuple[list[Delta], Clock]]:
    """The rows of each instant, with a clock that lets what has expired leave at that instant."""
    times = [delta.ts for delta in inputs] + ([np.array([now])] if awaited else [])
    return [
        ([_at(delta, instant) for delta in inputs], Clock(instant, instant, at_commit=True))
        for instant in np.unique(np.concatenate(times)).tolist()
    ]


def _at(delta: Delta, instant: int) -> Delta:
    """The rows of an instant."""
    start, end = np.searchsorted(delta.ts, (instant, instant + 1))
    places: I64 = np.arange(start, end)
    return delta.take(places)
