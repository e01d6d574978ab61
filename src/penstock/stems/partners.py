"""Finds the partners of rows in a join of two windows: by key, by order, or all rows.

Every way returns the same thing: the partners of each event, newest first. SteMs find the rows of
earlier steps; they are built up to where a step begins. Temporary indexes find the rows of the
current step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.band_join import Bounds, Sorted, find_all, find_in_band
from penstock.kernels.join import FLOAT_BAND, I32, Test
from penstock.kernels.window_join import Hashed, find_partners
from penstock.kernels.window_timeline import Events, Side, Timeline
from penstock.stems.stem import HashStem, OrderedStem, Stem

_LEAST_BLOCK = 64
Sides = tuple[Side, Side]
Counted = tuple[I64, I32]
"""The number of partners of each event, and the places of all partners."""


class Partners(ABC):
    """Finds the partners of events."""

    exact: bool
    """Whether every partner found is within the band."""
    stems: tuple[Stem, ...]

    @abstractmethod
    def find(self, timeline: Timeline, sides: Sides) -> tuple[Counted, Counted]:
        """The partners of the events of both sides."""


@dataclass(frozen=True, slots=True)
class ByKey(Partners):
    """Rows with the same key; the caller tests the band."""

    stems: tuple[HashStem, HashStem]
    exact = False

    def find(self, timeline: Timeline, sides: Sides) -> tuple[Counted, Counted]:
        """Follow the chains of the keys."""
        left, right = sides
        of_left, of_right = (Hashed(*stem.chains()) for stem in self.stems)
        return (
            find_partners(timeline.left, left, right, of_right, timeline.right_links),
            find_partners(timeline.right, right, left, of_left, timeline.left_links),
        )


@dataclass(frozen=True, slots=True)
class ByOrder(Partners):
    """Rows within a band."""

    stems: tuple[OrderedStem, OrderedStem]
    test: Test
    exact = True

    def find(self, timeline: Timeline, sides: Sides) -> tuple[Counted, Counted]:
        """Search the sorted runs."""
        of_left, of_right = (
            _in_order(stem, side) for stem, side in zip(self.stems, sides, strict=True)
        )
        return (
            self._found(timeline.left, sides[0], of_right, is_left=True),
            self._found(timeline.right, sides[1], of_left, is_left=False),
        )

    def _found(self, events: Events, own: Side, other: Sorted, *, is_left: bool) -> Counted:
        test = self.test
        limits = (test.low, test.high, test.low_float, test.high_float)
        bounds = Bounds(is_left, test.kind == FLOAT_BAND, *limits)
        return find_in_band(events, own.rows, int(own.columns[0]), bounds, other)


class Everyone(Partners):
    """All rows of the other window: the join has a residual condition only."""

    exact, stems = True, ()

    def find(self, timeline: Timeline, sides: Sides) -> tuple[Counted, Counted]:
        """Return all rows of the other window."""
        return find_all(timeline.left), find_all(timeline.right)


def _in_order(stem: OrderedStem, side: Side) -> Sorted:
    """The sorted runs of the SteM, and the rows of the step in blocks of about a window each."""
    values, at = stem.known(side.rows[side.start : side.end])
    size = _rows_of_window(side)
    block = at // size
    several = side.end - side.start > size
    order = np.lexsort((values, block)) if several else np.argsort(values)
    blocks = np.searchsorted(block, np.arange((side.end - side.start - 1) // size + 2))
    fresh = values[order], side.start + at[order], blocks, size
    return Sorted(side.base, side.start, *stem.runs(), *fresh)


def _rows_of_window(side: Side) -> int:
    """A rough count of the arriving rows that are in the window at once."""
    come = side.end - side.start
    if not come or side.length == NEVER:
        return max(come, 1)
    lasts = int(side.ts[side.end - 1]) - int(side.ts[side.start]) + 1
    return max(_LEAST_BLOCK, come * min(side.length, lasts) // lasts)
