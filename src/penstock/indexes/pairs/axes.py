"""Chooses the axis of a side of an index over pairs: the column along which partners are sorted.

A side can look along the band, or along a range of the other side. What it finds is tested for the
rest. Estimates for each way come from some of the queries, of the probing rows and of the partners:
how many groups the queries form along it, and how many of the partners are in their intervals
(Agarwal et al. 2009, §2: few stabbing groups make a cheap join). An axis changes the cost of an
answer only.

The choice is made again when half as many queries have come or gone as there were, or when several
times as many rows have come. Then another axis must be much better, because its SteM has to be
built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.hotspots import Hotspots
from penstock.indexes.pairs.shape import PairShape
from penstock.indexes.pairs.sides import PairSide
from penstock.indexes.pairs.strategy import possible_slots
from penstock.kernels.pairs.data import Queries

LOOK = 512
"""So many queries are looked at."""
_ROWS, _PARTNERS = 64, 1024  # and so many rows of either side
_HOT = 1 / 128  # share of the queries that makes a group hot: some of those that are looked at
_PAIR = 4.0  # steps of a search that it costs to find a pair and to test it
_CLEARLY = 2.0  # an axis that replaces another is so many times as cheap
_TURNOVER = 4  # rows per row at the last look, until the next

IsThere = Callable[[int, int], bool]
"""Whether there is a SteM of a side, sorted by a column."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of both sides by side, as stored in the logs, and the positions where they end."""

    words: tuple[I64, I64]
    ends: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimates about one way to look: hot groups, queries in them, partners in an interval.

    `coverage` and `inside` are shares.
    """

    groups: int
    coverage: float
    inside: float

    def cost(self, queries: float, accepting: float, partners: float) -> float:
        """About the steps of a search for a row that so many queries accept."""
        search = log2(2 + partners)
        alone = accepting * search
        grouped = (self.groups + (1 - self.coverage) * accepting) * search
        by_partner = partners * log2(2 + queries)
        return min(alone, grouped, by_partner) + _PAIR * accepting * partners * self.inside


class AxisChoice:
    """The way in which rows of a side look for partners."""

    def __init__(self, shape: PairShape, side: int) -> None:
        self._side, self.ways = side, PairSide.ways(shape, side)
        self.chosen = PairSide.of(shape, side)
        self.changes = 0  # of the axis
        self._has_looked = False
        self._turned, self._queries = 0, 0  # queries that came or went, and those at the last look
        self._end, self._rows = 0, 0  # of partners, at the last look

    def fixed(self) -> AxisChoice:
        """The same choice, for an index of some of the queries."""
        same = AxisChoice(self.chosen.shape, self._side)
        same.chosen = self.chosen
        return same

    def count(self, queries: int) -> None:
        """So many queries have come or gone."""
        self._turned += queries

    def is_due(self, rows: Rows) -> bool:
        """Whether to look again."""
        if len(self.ways) == 1 or not all(words.shape[0] for words in rows.words):
            return False
        if not self._has_looked or self._turned >= max(self._queries // 2, LOOK):
            return True
        come = rows.ends[1 - self._side] - self._end
        return come >= _TURNOVER * max(self._rows, _PARTNERS // _TURNOVER)

    def look(self, boxes: Boxes, queries: int, rows: Rows, is_there: IsThere) -> bool:
        """Choose, given the boxes of some of so many queries; whether the axis has changed.

        At first, a SteM that is there already is better than one that is not.
        """
        other = 1 - self._side
        costs = costs_of(self.ways, boxes, queries, rows.words)
        known = [w for w in self.ways if is_there(other, w.value_column)]
        before = self.chosen if self._has_looked else next(iter(known), None)
        best = min(self.ways, key=lambda way: costs[way])
        if before is not None and costs[best] * _CLEARLY > costs[before]:
            best = before
        has_changed, self.chosen = best != self.chosen, best
        self.changes += has_changed and self._has_looked
        self._has_looked, self._turned, self._queries = True, 0, queries
        self._end, self._rows = rows.ends[other], rows.words[other].shape[0]
        return has_changed


# ---- estimates -----------------------------------------------------------------------
def costs_of(
    ways: tuple[PairSide, ...], boxes: Boxes, queries: int, words: tuple[I64, I64]
) -> dict[PairSide, float]:
    """The cost of a row by each way, for so many queries of which some are given as boxes."""
    side = ways[0].side
    own, others = _some(words[side], _ROWS), _some(words[1 - side], _PARTNERS)
    share = others.shape[0] / words[1 - side].shape[0]
    partners = _matches(ways[0], own, others) / share
    none, costs = np.empty(0, np.int64), dict[PairSide, float]()
    for way in ways:
        asked = way.queries(boxes, none, none)
        accepting = queries * _accepting(asked, way.own_values(own))
        gaps = way.gaps(own, others)
        costs[way] = estimate(asked, gaps).cost(queries, accepting, partners)
    return costs


def estimate(asked: Queries, gaps: I64) -> Estimate:
    """How some queries cluster on an axis, and which share of some gaps is in their intervals."""
    slots = possible_slots(asked)
    if not slots.shape[0]:
        return Estimate(0, 0.0, 0.0)
    lows, highs = asked.low[slots], asked.high[slots]
    hot, gaps = Hotspots(_HOT), np.sort(gaps)
    hot.add(np.arange(slots.shape[0]), lows, highs)
    inside = np.searchsorted(gaps, highs, "right") - np.searchsorted(gaps, lows, "left")
    share = float(inside.mean()) / max(gaps.shape[0], 1)
    return Estimate(len(hot.outline()), hot.coverage, share)


def _some(words: I64, most: int) -> I64:
    return words[:: -(-words.shape[0] // most)]


def _accepting(asked: Queries, own: I64) -> float:
    """The share of queries that accept a row, on average: [condition, row] against their bounds."""
    slots = possible_slots(asked)
    held = np.ones((slots.shape[0], own.shape[1]), np.bool_)
    for low, values, high in zip(asked.own_low, own, asked.own_high, strict=True):
        held &= (low[slots, None] <= values) & (values <= high[slots, None])
    return float(np.count_nonzero(held) / max(own.shape[1] * asked.low.shape[0], 1))


def _matches(way: PairSide, own: I64, others: I64) -> float:
    """How many of the others have the key of a row, on average; at least one."""
    same = np.ones((own.shape[0], others.shape[0]), np.bool_)
    for columns in way.shape.key:
        here, there = columns[way.side], columns[1 - way.side]
        same &= own[:, 1 + here, None] == others[:, 1 + there]
    return float(max(np.count_nonzero(same) / own.shape[0], 1.0))
