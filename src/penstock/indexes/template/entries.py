"""The entries of queries in one alternative of a template's predicates: boxes of attributes.

A box has one interval per attribute. Comparisons make one box. A list, or another term with several
intervals, makes several disjoint boxes, so that a row is in at most one of them. If a term may
accept NULL, an extra attribute (0 or 1) says whether the value is NULL; all other compared values
must not be NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.kernels.match import GE, GT, LE, LT
from penstock.predicates.alternatives import takes_null, takes_points, width_of
from penstock.predicates.clauses import Attribute, Term
from penstock.predicates.interval_sets import IntervalSets
from penstock.predicates.terms import LEAST, MOST, Terms

MOST_ENTRIES = 64  # most entries of one query


@dataclass(frozen=True, slots=True)
class Entries:
    """Boxes: entry e belongs to query ``owners[e]`` and means lows[:, e] ≤ values ≤ highs[:, e].

    Values excluded by ≠ are in `differs`. Owners ascend. A query that is not `exact` may accept
    fewer rows than its entries.
    """

    owners: I64
    lows: I64
    highs: I64
    differs: I64
    exact: Bool


@dataclass(frozen=True, slots=True)
class PlacedTerm:
    """A term, the number of its attribute, and that of the attribute's NULL flag (−1: no NULLs).

    `points` means that the term accepts single values. `whole` means that its intervals are
    replaced by one interval around them, because there would be too many.
    """

    term: Term
    attribute: int
    of_null: int
    points: bool
    whole: bool


class AlternativeEntries:
    """An AND of comparisons (`preds`, see `Terms`) and of terms.

    Attributes are numbered as in `attributes`; the NULL flags of the `nullable` ones follow.
    """

    def __init__(
        self, preds: I64, terms: tuple[Term, ...], attributes: tuple[Attribute, ...],
        nullable: tuple[int, ...], ctx: Context | None,
    ) -> None:  # fmt: skip
        named = max(len(attributes), int(preds[:, 3].max(initial=-1)) + 1)
        self.terms = Terms(preds, named + len(nullable))
        self._ctx = ctx
        self._places = _placed(terms, attributes, nullable, named)
        points = {p.attribute for p in self._places if p.points}
        self.keys: list[int] = sorted({*self.terms.equal.tolist(), *points})
        ranges = {a for p in self._places for a in (p.attribute, p.of_null) if a >= 0}
        compared = preds.tolist()
        lows = {a for op, _, _, a in compared if op in (GE, GT)} | ranges
        highs = {a for op, _, _, a in compared if op in (LE, LT)} | ranges
        self.lows, self.highs = sorted(lows - {*self.keys}), sorted(highs - {*self.keys})
        needed = {*preds[:, 3].tolist(), *(p.attribute for p in self._places if p.of_null < 0)}
        self._needed = sum(1 << a for a in needed)

    @property
    def is_plain(self) -> bool:
        """Whether there are comparisons only, so that every query is exact."""
        return not self._places

    @property
    def several(self) -> bool:
        """Whether a query may have several entries."""
        return any(not p.whole for p in self._places)

    def rows(self, nulls: I64) -> I64:
        """The rows that may be accepted, judged by their NULL words."""
        return np.flatnonzero((nulls & self._needed) == 0)

    def entries(self, params: I64) -> Entries:
        """The boxes of queries, given their parameter rows (NULL word first)."""
        bounds = self.terms.bounds(params)
        every = np.arange(params.shape[0])
        exact = np.ones(params.shape[0], np.bool_)
        entries = Entries(every, bounds.lows, bounds.highs, bounds.differs, exact)
        entries = _chosen(entries, np.flatnonzero(bounds.possible))
        for place in self._places:
            entries = self._narrowed(entries, place, params)
        return entries

    def _narrowed(self, entries: Entries, place: PlacedTerm, params: I64) -> Entries:
        """Intersect each entry with each interval of a term; empty intersections are dropped."""
        assert self._ctx is not None
        intervals = place.term.intervals(params, self._ctx)
        if place.points:
            intervals = intervals.single_values()
        exact = entries.exact & intervals.exact
        if place.whole:
            exact &= (np.diff(intervals.offsets) + intervals.null) <= 1
        boxes = _boxes(intervals, place.whole)
        sizes = np.diff(boxes.offsets)[entries.owners]
        at = np.repeat(np.arange(entries.owners.shape[0]), sizes)
        starts = np.cumsum(sizes) - sizes
        box = np.arange(at.shape[0]) + np.repeat(boxes.offsets[entries.owners] - starts, sizes)
        lows, highs = entries.lows[:, at], entries.highs[:, at]
        wanted = [(place.attribute, boxes.lows[box], boxes.highs[box])]
        if place.of_null >= 0:
            wanted.append((place.of_null, boxes.null_lows[box], boxes.null_highs[box]))
        for a, low, high in wanted:
            np.maximum(lows[a], low, out=lows[a])
            np.minimum(highs[a], high, out=highs[a])
        differs = entries.differs[:, at]
        narrowed = Entries(entries.owners[at], lows, highs, differs, exact)
        return _chosen(narrowed, np.flatnonzero((lows <= highs).all(axis=0)))


def fits(terms: tuple[Term, ...]) -> bool:
    """Whether no query can have so many entries that intervals must be replaced."""
    return prod(map(width_of, terms)) <= MOST_ENTRIES


def _placed(
    terms: tuple[Term, ...],
    attributes: tuple[Attribute, ...],
    nullable: tuple[int, ...],
    named: int,
) -> list[PlacedTerm]:
    """The terms in the order in which they multiply entries: those with single values first."""
    places: list[PlacedTerm] = []
    entries = 1
    for term in sorted(terms, key=lambda t: (not takes_points(t.condition), width_of(t))):
        attribute = attributes.index(term.attribute)
        null = named + nullable.index(attribute) if takes_null(term.condition) else -1
        whole = entries * width_of(term) > MOST_ENTRIES
        entries *= 1 if whole else width_of(term)
        points = takes_points(term.condition) and not whole
        places.append(PlacedTerm(term, attribute, null, points, whole))
    return places


def _chosen(entries: Entries, chosen: I64) -> Entries:
    if chosen.shape[0] == entries.owners.shape[0]:
        return entries
    return Entries(
        entries.owners[chosen],
        entries.lows[:, chosen],
        entries.highs[:, chosen],
        entries.differs[:, chosen],
        entries.exact,
    )


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Interval sets with NULL as an extra dimension."""

    offsets: I64
    lows: I64
    highs: I64
    null_lows: I64
    null_highs: I64


def _boxes(intervals: IntervalSets, whole: bool) -> _Boxes:
    """The intervals of present values and one of NULL; if `whole`, one interval around all."""
    if not whole and not intervals.null.any():
        none = np.zeros_like(intervals.lows)
        return _Boxes(intervals.offsets, intervals.lows, intervals.highs, none, none)
    some = np.diff(intervals.offsets) > 0
    lows, highs = np.full(len(intervals), MOST), np.full(len(intervals), LEAST)
    lows[some] = intervals.lows[intervals.offsets[:-1][some]]
    highs[some] = intervals.highs[intervals.offsets[1:][some] - 1]
    null = intervals.null
    one: Bool = (np.diff(intervals.offsets) == 1) & (lows == LEAST) & (highs == MOST) & null
    if whole:
        one = some | null
        lows, highs = np.where(null, LEAST, lows), np.where(null, MOST, highs)
    alone, apart = np.flatnonzero(one), np.flatnonzero(null & ~one)
    owners = np.repeat(np.arange(len(intervals)), np.diff(intervals.offsets))
    kept = np.flatnonzero(~one[owners])
    none, all_ = np.zeros(kept.shape[0], np.int64), np.ones(apart.shape[0], np.int64)
    owner = np.concatenate([owners[kept], apart, alone])
    order = np.argsort(owner, kind="stable")
    return _Boxes(
        np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(intervals)))]),
        np.concatenate([intervals.lows[kept], LEAST * all_, lows[alone]])[order],
        np.concatenate([intervals.highs[kept], MOST * all_, highs[alone]])[order],
        np.concatenate([none, all_, np.zeros_like(alone)])[order],
        np.concatenate([none, all_, null[alone]])[order],
    )
