"""What a window holds, straight from the definitions (DESIGN §3), for small inputs.

Event time alone does not order a stream: an instant may be revisited by a later batch. A
*point* is (instant, step), packed in one integer, so that "at instant t, after step k" is a
number, and every row of every window lives on one half-open interval of points.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

STEPS = 1024
"""Points per instant: a scenario has fewer steps than this."""
FOREVER = 2**62
BEGINNING = -(2**40)
"""An instant before any event time of a test."""


def point(instant: int, step: int) -> int:
    """The point of `instant` as seen after `step`."""
    return instant * STEPS + step


def instant_of(at: int) -> int:
    """The instant a point belongs to."""
    return at // STEPS


@dataclass(frozen=True, slots=True)
class Row:
    """One accepted row: its values, its event time, the step that brought it, its place there."""

    values: tuple[object, ...]
    ts: int
    step: int
    position: int

    @property
    def order(self) -> tuple[int, int, int]:
        """The order in which rows are applied."""
        return (self.ts, self.step, self.position)

    @property
    def start(self) -> int:
        """The point at which it arrives."""
        return point(self.ts, self.step)


@dataclass(frozen=True, slots=True)
class Window:
    """A parsed window; `kind` is range, rows, now or unbounded."""

    kind: str
    size: int = 0
    slide: int = 0
    partition: tuple[str, ...] = ()


_RANGE = re.compile(r"RANGE\s+(\d+)(?:\s+SLIDE\s+(\d+))?$", re.I)
_ROWS = re.compile(r"(?:PARTITION\s+BY\s+(.+?)\s+)?ROWS\s+(\d+)$", re.I)


def parse_window(text: str) -> Window:
    """Read what stands between the brackets."""
    text = text.strip()
    if text.upper() == "NOW":
        return Window("now")
    if text.upper() == "UNBOUNDED":
        return Window("unbounded")
    if found := _RANGE.match(text):
        return Window("range", int(found[1]), int(found[2] or 0))
    if found := _ROWS.match(text):
        names = tuple(n.strip() for n in found[1].split(",")) if found[1] else ()
        return Window("rows", int(found[2]), 0, names)
    raise ValueError(f"not a window: [{text}]")


Interval = tuple[int, int]


def intervals(rows: list[Row], window: Window, columns: tuple[str, ...]) -> list[Interval]:
    """The life [start, end) of each row, in points, in the order of `rows`."""
    if window.kind == "rows":
        return _count_intervals(rows, window, columns)
    return [_time_interval(row, window) for row in rows]


def live(rows: list[Row], window: Window, columns: tuple[str, ...], at: int) -> list[Row]:
    """The rows the window holds at point `at`, in applied order."""
    lives = intervals(rows, window, columns)
    held = [r for r, (s, e) in zip(rows, lives, strict=True) if s <= at < e]
    return sorted(held, key=lambda r: r.order)


def _time_interval(row: Row, window: Window) -> Interval:
    if window.kind == "unbounded":
        return row.start, FOREVER
    if window.kind == "now":
        return row.start, point(row.ts + 1, 0)
    if not window.slide:
        return row.start, point(row.ts + window.size, 0)
    s = window.slide
    first = (row.ts // s + 1) * s
    last = ((row.ts + window.size) // s + 1) * s
    return point(first, 0), point(last, 0)


def _count_intervals(rows: list[Row], window: Window, columns: tuple[str, ...]) -> list[Interval]:
    keys = [columns.index(name) for name in window.partition]
    parts: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i in sorted(range(len(rows)), key=lambda i: rows[i].order):
        parts[tuple(rows[i].values[k] for k in keys)].append(i)
    ends = [FOREVER] * len(rows)
    for members in parts.values():
        for older, newer in zip(members, members[window.size :], strict=False):
            ends[older] = rows[newer].start
    return [(row.start, end) for row, end in zip(rows, ends, strict=True)]
