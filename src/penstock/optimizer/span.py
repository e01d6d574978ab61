"""Span: the streams that a join reads and the conditions that connect their rows (CACQ §3.3.2).

All select-project-join blocks with the same span form one flow, whatever their filters, window
lengths and output columns. CACQ calls it a virtual source; one exists for each set of sources that
some query reads together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.logical.stem_kind import StemKey, StemKind

AliasColumn = tuple[int, int]
"""An alias and a column of its stream."""


@dataclass(frozen=True, slots=True)
class SpanBand:
    """low ≤ right − left ≤ high, each side a place; bounds may be open."""

    left: AliasColumn
    right: AliasColumn
    low: int | float | None
    high: int | float | None
    is_float: bool

    @property
    def is_open(self) -> bool:
        """Whether only queries have bounds: an index over pairs finds their rows."""
        return self.low is None and self.high is None

    def holds(self, left: I64, right: I64) -> Bool:
        """Which pairs of values (as stored) satisfy the band."""
        if self.is_float:
            with np.errstate(all="ignore"):
                gap = right.view(np.float64) - left.view(np.float64)
            low = -np.inf if self.low is None else self.low
            high = np.inf if self.high is None else self.high
            return np.asarray((gap >= low) & (gap <= high))
        lows, highs = self.range_of(left, is_left=True)
        return np.asarray((right >= lows) & (right <= highs) & (lows <= highs))

    def range_of(self, values: I64, *, is_left: bool) -> tuple[I64, I64]:
        """The least and greatest partner of each integer value; (1, 0) if there is none."""
        low, high = self.low, self.high
        if not is_left:
            low, high = None if high is None else -high, None if low is None else -low
        lows = _shifted(values, low, np.iinfo(np.int64).min)
        highs = _shifted(values, high, np.iinfo(np.int64).max)
        # a bound beyond all integers excludes or includes all of them
        if low is not None and low > 0:
            over = values > np.iinfo(np.int64).max - int(low)
            lows, highs = np.where(over, 1, lows), np.where(over, 0, highs)
        if high is not None and high < 0:
            under = values < np.iinfo(np.int64).min - int(high)
            lows, highs = np.where(under, 1, lows), np.where(under, 0, highs)
        return lows, highs


def _shifted(values: I64, by: int | float | None, open_end: int) -> I64:
    """The sums; `open_end` if a sum is no integer or there is no bound."""
    if by is None:
        return np.full(values.shape, open_end)
    by = int(by)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    fits = values <= most - by if by > 0 else values >= least - by
    with np.errstate(over="ignore"):
        return np.where(fits, values + np.int64(by), open_end)


@dataclass(frozen=True, slots=True)
class Span:
    """Streams by alias, classes of equal columns, and bands between columns."""

    streams: tuple[str, ...]
    classes: tuple[tuple[AliasColumn, ...], ...] = ()
    bands: tuple[SpanBand, ...] = ()

    def __len__(self) -> int:
        return len(self.streams)

    def links(self, alias: int, present: frozenset[int]) -> list[tuple[int, AliasColumn]]:
        """Pairs of a column of `alias` and an equal column of an alias in `present`."""
        found = []
        for places in self.classes:
            mine = [c for a, c in places if a == alias]
            theirs = [p for p in places if p[0] in present]
            if mine and theirs:
                found.append((mine[0], theirs[0]))
        return found

    def bands_with(self, alias: int, present: frozenset[int]) -> list[SpanBand]:
        """The bands between `alias` and the aliases in `present`."""
        return [
            b
            for b in self.bands
            if (b.left[0] == alias and b.right[0] in present)
            or (b.right[0] == alias and b.left[0] in present)
        ]

    def keys(self, alias: int) -> list[StemKey]:
        """The SteMs that may look up rows of `alias`."""
        everyone = frozenset(range(len(self))) - {alias}
        links = [column for column, _ in self.links(alias, everyone)]
        if links and len(self) == 2:
            return [(tuple(links), StemKind.HASH)]
        found: list[StemKey] = [((column,), StemKind.HASH) for column in links]
        for band in self.bands_with(alias, everyone):
            if band.is_open:
                continue
            other = band.right[0] if band.left[0] == alias else band.left[0]
            if not self.links(alias, frozenset({other})):
                _, column = band.left if band.left[0] == alias else band.right
                found.append(((column,), StemKind.ORDERED))
        return list(dict.fromkeys(found))

    def describe(self, names: list[tuple[str, ...]]) -> str:
        """A text with the joined columns; `names` are those of each alias's stream."""

        def show(place: AliasColumn) -> str:
            return f"{self.streams[place[0]]}.{names[place[0]][place[1]]}"

        parts = [" = ".join(map(show, places)) for places in self.classes]
        for band in self.bands:
            if band.is_open:
                continue
            low = "" if band.low is None else f"{band.low} <= "
            high = "" if band.high is None else f" <= {band.high}"
            parts.append(f"{low}{show(band.right)} - {show(band.left)}{high}")
        return " AND ".join(parts)
