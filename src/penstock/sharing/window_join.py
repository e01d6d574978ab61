"""Joins of two windows over shared SteMs (CACQ §3.3.1), each found once however many ask for it.

A join has no state: it is a function of the logs, the SteMs over them and the places where its
reader stands. Templates that ask for the same pairs in one step get the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.delta import BEGINNING, NEVER
from penstock.kernels.window_join import (
    Indexed,
    Pairs,
    find_partners,
    in_band,
    line_up,
    merge_pairs,
)
from penstock.logical.nodes import Band
from penstock.physical.join_keys import band_test
from penstock.sharing.chunk import LogView
from penstock.sharing.stem import HashStem
from penstock.sharing.stems import StemInfo, Stems
from penstock.state.source_log import SourceLog


@dataclass(frozen=True, slots=True)
class Window:
    """A window over a stream whose rows are found by some columns."""

    stream: str
    columns: tuple[int, ...]
    length: int

    def first(self, log: SourceLog, now: int) -> int:
        """The first position that is in the window at `now`, or comes into it later."""
        if self.length == NEVER or now == BEGINNING:
            return log.discarded
        return log.position(now - self.length, after=True)


@dataclass(frozen=True, slots=True)
class Stride:
    """A reader's step: rows at [starts, ends) by side come in, rows leave in (told, now].

    Rows arrive at their own time, but none before `at`. Only if it `tells` are departures
    among the pairs.
    """

    starts: tuple[int, int]
    ends: tuple[int, int]
    told: int
    now: int
    at: int
    tells: bool


class WindowJoin:
    """Pairs of rows of two windows with equal keys, within a band."""

    def __init__(
        self, windows: tuple[Window, Window], band: Band | None, logs: list[SourceLog], stems: Stems
    ) -> None:
        self.windows, self.band, self.logs, self._stems = windows, band, logs, stems
        self._test = band_test(band, logs[0].schema, tagged=0)
        self.stems = [self._acquire(w, log) for w, log in zip(windows, logs, strict=True)]
        self.readers = 0
        self._found: dict[Stride, Pairs] = {}

    def _acquire(self, window: Window, log: SourceLog) -> HashStem:
        stem = self._stems.acquire(window.stream, log, window.columns, ordered=False)
        assert isinstance(stem, HashStem)
        return stem

    def release(self) -> None:
        """Nobody reads it any more."""
        for stem in self.stems:
            self._stems.release(stem)

    def begin(self) -> None:
        """The engine takes a step."""
        self._found.clear()

    def in_step(self, stride: Stride) -> Pairs:
        """The pairs of a stride in a step of the engine, which may be many readers' stride."""
        found = self._found.get(stride)
        if found is None:
            found = self.pairs(stride)
            if self.readers > 1:
                self._found[stride] = found
        return found

    def pairs(self, stride: Stride) -> Pairs:
        """The pairs of a stride, by places in the logs as they are now."""
        for stem, start in zip(self.stems, stride.starts, strict=True):
            stem.build(start)  # rows of this step are linked by the kernel, each in its turn
        left, right = (self._indexed(side, stride) for side in (0, 1))
        found = _pairs(left, right, stride)
        if not self._test.kind:
            return found
        kept = in_band(found, left.rows, right.rows, self._test)
        return Pairs(found.left[kept], found.right[kept], found.ts[kept], found.sign[kept])

    def _indexed(self, side: int, stride: Stride) -> Indexed:
        stem, window = self.stems[side], self.windows[side]
        view = LogView.of(stem.log)
        first = window.first(stem.log, stride.told)
        first, start, end = (p - view.base for p in (first, stride.starts[side], stride.ends[side]))
        bounds = (view.base, first, start, end, window.length)
        return Indexed(view.rows, view.ts, *bounds, *stem.chains())

    def infos(self) -> list[StemInfo]:
        """The SteMs that are probed, each once."""
        return [self._stems.info(stem) for stem in dict.fromkeys(self.stems)]

    def report(self) -> dict[str, object]:
        """Streams, lengths of windows (None: unbounded) and templates."""
        return {
            "streams": [window.stream for window in self.windows],
            "windows": [None if w.length == NEVER else w.length for w in self.windows],
            "templates": self.readers,
        }


class WindowJoins:
    """The joins of an engine, one for each two windows and band, with the number of readers."""

    def __init__(self, stems: Stems) -> None:
        self._stems = stems
        self._joins: dict[tuple[object, ...], WindowJoin] = {}

    def acquire(
        self, windows: tuple[Window, Window], band: Band | None, logs: list[SourceLog]
    ) -> WindowJoin:
        """The join of two windows (columns of the band are those of the streams), for a reader."""
        key = (windows, band)
        if key not in self._joins:
            self._joins[key] = WindowJoin(windows, band, logs, self._stems)
        self._joins[key].readers += 1
        return self._joins[key]

    def release(self, join: WindowJoin) -> None:
        """One reader less; with the last one the join goes."""
        join.readers -= 1
        if not join.readers:
            del self._joins[join.windows, join.band]
            join.release()

    def begin(self) -> None:
        """The engine takes a step."""
        for join in self:
            join.begin()

    def __iter__(self) -> Iterator[WindowJoin]:
        return iter(self._joins.values())


def _pairs(left: Indexed, right: Indexed, stride: Stride) -> Pairs:
    come = left.end - left.start, right.end - right.start
    gone = (_leaving(left, stride.now), _leaving(right, stride.now)) if stride.tells else (0, 0)
    room = come[0] + gone[0], come[1] + gone[1]
    lined = line_up(left, right, stride.at, stride.now, stride.tells, room)
    l_counts, l_partners = find_partners(lined.left, left, right, lined.right_links)
    r_counts, r_partners = find_partners(lined.right, right, left, lined.left_links)
    rows = lined.left.row, lined.right.row
    return merge_pairs(lined.line, *rows, (l_counts, r_counts), (l_partners, r_partners))


def _leaving(side: Indexed, now: int) -> int:
    """How many rows leave the window up to `now`, at most."""
    if side.length == NEVER:
        return 0
    return int(np.searchsorted(side.ts[side.first : side.end], now - side.length, side="right"))
