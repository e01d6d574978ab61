"""Joins of two windows over shared SteMs (CACQ §3.3.1); templates share the pairs of a step.

A join has no state: its pairs depend on the logs, their SteMs and its reader's positions only.
Templates that ask for the same pairs in one step get the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.kernels.window_join import JoinedPairs, in_band, merge_pairs
from penstock.kernels.window_timeline import Side, make_timeline
from penstock.logical.lifetime import Lifetime
from penstock.logical.nodes import Band
from penstock.logical.stem_kind import StemKind
from penstock.state.source_log import SourceLog
from penstock.stems.band import band_test
from penstock.stems.log_view import LogView
from penstock.stems.partners import ByKey, ByOrder, Everyone, Partners
from penstock.stems.stem import HashStem, OrderedStem
from penstock.stems.stems import Stems


@dataclass(frozen=True, slots=True)
class Window:
    """A window over a stream, with the columns that look up its rows (by key or by order).

    A window is a span of the log: the rows that have arrived and not left.
    """

    stream: str
    columns: tuple[int, ...]
    lifetime: Lifetime
    kind: StemKind = StemKind.HASH


@dataclass(frozen=True, slots=True)
class Stride:
    """The input of a reader's step: rows at [starts, ends) arrive, rows leave in (told, now].

    Rows arrive at their own time, but not before `at`. The pairs include departures only if
    `tells`.
    """

    starts: tuple[int, int]
    ends: tuple[int, int]
    told: int
    now: int
    at: int
    tells: bool


class WindowJoin:
    """Finds the pairs of rows of two windows: with equal keys, within a band, or all pairs."""

    def __init__(
        self, windows: tuple[Window, Window], band: Band | None, logs: list[SourceLog], stems: Stems
    ) -> None:
        self.windows, self.band, self.logs, self._stems = windows, band, logs, stems
        self._test = band_test(band, logs[0].schema, tagged=0)
        self._partners = self._ways()
        self.readers = 0
        self._found: dict[Stride, JoinedPairs] = {}

    def _ways(self) -> Partners:
        if not self.windows[0].columns:
            return Everyone()
        left, right = (
            self._stems.acquire(window.stream, log, window.columns, window.kind)
            for window, log in zip(self.windows, self.logs, strict=True)
        )
        if isinstance(left, OrderedStem) and isinstance(right, OrderedStem):
            return ByOrder((left, right), self._test)
        assert isinstance(left, HashStem)
        assert isinstance(right, HashStem)
        return ByKey((left, right))

    def release(self) -> None:
        """Release the SteMs, because no template reads the join any more."""
        for stem in self._partners.stems:
            self._stems.release(stem)

    def begin(self) -> None:
        """Begin a step of the engine."""
        self._found.clear()

    def in_step(self, stride: Stride) -> JoinedPairs:
        """The pairs of a stride in the current step.

        Readers with equal strides share the result.
        """
        found = self._found.get(stride)
        if found is None:
            found = self.pairs(stride)
            if self.readers > 1:
                self._found[stride] = found
        return found

    def pairs(self, stride: Stride) -> JoinedPairs:
        """Compute the pairs of a stride, as places in the logs of now."""
        for stem, start in zip(self._partners.stems, stride.starts, strict=False):
            stem.build(start)  # the kernel finds the rows of this step itself
        sides = self._side(0, stride), self._side(1, stride)
        found = self._pairs(sides, stride)
        if not self._test.kind or self._partners.exact:
            return found
        kept = in_band(found, sides[0].rows, sides[1].rows, self._test)
        return JoinedPairs(found.left[kept], found.right[kept], found.ts[kept], found.sign[kept])

    def _pairs(self, sides: tuple[Side, Side], stride: Stride) -> JoinedPairs:
        """The pairs with equal keys, or within the band."""
        leaving = self._leaving(0, sides[0], stride), self._leaving(1, sides[1], stride)
        timeline = make_timeline(*sides, stride.at, stride.now, stride.tells, leaving)
        left, right = self._partners.find(timeline, sides)
        rows = timeline.left.row, timeline.right.row
        return merge_pairs(timeline.order, *rows, (left[0], right[0]), (left[1], right[1]))

    def _leaving(self, at: int, side: Side, stride: Stride) -> int:
        """An upper bound of the rows that leave the window in a stride that tells departures."""
        lifetime = self.windows[at].lifetime
        if not stride.tells or not lifetime.ends:
            return 0
        until = lifetime.latest_gone(stride.now)
        return int(np.searchsorted(side.ts[side.first : side.end], until, side="right"))

    def _side(self, at: int, stride: Stride) -> Side:
        log, window = self.logs[at], self.windows[at]
        view, life = LogView.of(log), window.lifetime
        places = life.first(log, stride.told), stride.starts[at], stride.ends[at]
        first, start, end = (p - view.base for p in places)
        assert isinstance(life.length, int)
        bounds = (view.base, first, start, end, life.length, life.slide)
        return Side(view.rows, view.ts, *bounds, np.array(window.columns, np.int64))

    def report(self) -> dict[str, object]:
        """For stats(): streams, window lengths (None: unbounded), slides (0: none), templates."""
        lifetimes = [window.lifetime for window in self.windows]
        return {
            "streams": [window.stream for window in self.windows],
            "windows": [life.length if life.ends else None for life in lifetimes],
            "slides": [life.slide for life in lifetimes],
            "templates": self.readers,
        }


class WindowJoins:
    """The joins of an engine, one per pair of windows and band, with the number of readers."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._joins: dict[tuple[object, ...], WindowJoin] = {}

    def acquire(
        self, windows: tuple[Window, Window], band: Band | None, logs: list[SourceLog]
    ) -> WindowJoin:
        """The join of two windows, with one more reader; the band names columns of the streams."""
        key = (windows, band)
        if key not in self._joins:
            self._joins[key] = WindowJoin(windows, band, logs, self._stems)
        self._joins[key].readers += 1
        return self._joins[key]

    def release(self, join: WindowJoin) -> None:
        """Remove one reader; the last one frees the join."""
        join.readers -= 1
        if not join.readers:
            del self._joins[join.windows, join.band]
            join.release()

    def begin(self) -> None:
        """Begin a step of the engine."""
        for join in self:
            join.begin()

    def __iter__(self) -> Iterator[WindowJoin]:
        return iter(self._joins.values())
