"""Input of the aggregate kernels: the events of a step in order, split into instants.

Each aggregate is one pass: it applies the events of an instant to the accumulators in the groups'
state rows, then shows the value of every group touched at that instant. Passes share only these
arrays, so each pass is small and a step runs only the passes of its aggregates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import AHEAD, prefetch

ROWS, STAMP, LIVE, NULLS, SHOWN = range(5)
"""Columns of a group's state row: rows in the group; last instant that touched it; whether its
row is in the answer; NULL bits and (from SHOWN on) aggregates of that row; then accumulators."""

GROUP, VALID, ARGS = range(3)
"""Words of an entry: group id; bit a set: the row counts for aggregate a; then arguments."""

INSTANT, EVENT, TOUCH = range(3)
"""Words of a cursor: the place where a pass stopped and must continue."""
DONE, AT_EVENT, AT_TOUCH = range(3)
"""The reasons for stopping."""


class Events(NamedTuple):
    """Events and touches of a step; instant m ends before event_ends[m] and touch_ends[m].

    `words` are entries, `steps` +1 (enters), −1 (leaves) or 0 (ignored). A touch is a group
    changed at an instant; `shown` gets its NULL bits (column 0) and aggregates.
    """

    words: I64
    steps: I64
    event_ends: I64
    touch_ends: I64
    touch_groups: I64
    shown: I64


class AggSlots(NamedTuple):
    """The place of an aggregate: its number, argument word, first accumulator word."""

    agg: int
    slot: int
    at: int


@inlined
def ask_group(words: I64, e: int, state: I64, at: int) -> None:
    """Prefetch word `at` of the group of a later event."""
    prefetch(state, words[min(e + AHEAD, words.shape[0] - 1), GROUP], at)


@kernel
def show_null(shown: I64, t: int, agg: int) -> None:
    """Show NULL as the aggregate of touch t."""
    shown[t, 0] |= 1 << agg
    shown[t, 1 + agg] = 0


@kernel
def gate_distinct(
    ev: Events, place: AggSlots, values: I64, column: int, counts: I64
) -> tuple[I64, I64, int]:
    """The events of a DISTINCT aggregate: first arrival and last departure of each value.

    The argument word of an entry is the id of its value; `counts` has the number of rows per id.
    Returns entries [group, valid, value], and the ids with a count that fell to 0.
    """
    n = ev.steps.shape[0]
    words = np.zeros((n, 3), np.int64)
    gone = np.empty(n, np.int64)
    n_gone = 0
    for e in range(n):
        later = ev.words[min(e + AHEAD, n - 1), place.slot]
        prefetch(counts, 0, later)
        prefetch(values, later, column)
        words[e, GROUP] = ev.words[e, GROUP]
        step = ev.steps[e]
        if step == 0 or (ev.words[e, VALID] >> place.agg) & 1 == 0:
            continue
        value = ev.words[e, place.slot]
        counts[value] += step
        if step < 0 and counts[value] == 0:
            gone[n_gone] = value
            n_gone += 1
        elif step < 0 or counts[value] != 1:
            continue
        words[e, VALID] = 1 << place.agg
        words[e, ARGS] = values[value, column]
    return words, gone, n_gone
