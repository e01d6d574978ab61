"""Parsing of window clauses such as ``[RANGE 10 MINUTES SLIDE 1 MINUTE]`` (DESIGN §3)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import Place, SqlSyntaxError, TypeError_
from penstock.sql.cursor import Cursor
from penstock.sql.units import LONGEST, Duration

FORMS = (
    "write [RANGE n unit], [RANGE n unit SLIDE n unit], [ROWS n], "
    "[PARTITION BY columns ROWS n], [NOW] or [UNBOUNDED]"
)
STARTS = [["RANGE"], ["ROWS"], ["PARTITION"], ["NOW"], ["UNBOUNDED"]]
"""First words after the bracket that make it a window."""
WINDOW_CALLS = frozenset({"window", "tumble", "hop", "session", "session_window", "cumulate"})
"""Functions that make windows in other dialects."""
WINDOW_REMEDY = (
    "write the window after the stream: s [RANGE 10 MINUTES SLIDE 10 MINUTES] for a tumbling "
    "window, s [RANGE 10 MINUTES SLIDE 1 MINUTE] for a hopping one"
)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A parsed window that is not bound to a relation yet.

    `kind` is range, rows, now or unbounded; names in `partition` are not yet resolved.
    """

    kind: str
    place: Place
    length: Duration | None = None
    slide: Duration | None = None
    count: int = 0
    partition: tuple[str, ...] = ()


def parse_window(cursor: Cursor) -> WindowSpec:
    """Read a window, from ``[`` to ``]``."""
    place = cursor.place()
    cursor.expect("[")
    spec = _body(cursor, place)
    cursor.expect("]", FORMS)
    return spec


def _body(cursor: Cursor, place: Place) -> WindowSpec:
    if cursor.accept("RANGE"):
        length = _positive(cursor.length())
        slide = _positive(cursor.span()) if cursor.accept("SLIDE") else None
        if slide and length.name:
            raise SqlSyntaxError(
                "a window with a parameter as its length cannot have a SLIDE",
                code="PS-PLAN-002",
                place=slide.place,
                remedy=f"write a number instead of ${length.name}, or remove SLIDE",
            )
        return WindowSpec("range", place, length=length, slide=slide)
    if cursor.accept("NOW"):
        return WindowSpec("now", place)
    if cursor.accept("UNBOUNDED"):
        return WindowSpec("unbounded", place)
    partition: list[str] = []
    if cursor.accept("PARTITION BY"):
        partition.append(cursor.name("a column"))
        while cursor.accept(","):
            partition.append(cursor.name("a column"))
    if cursor.accept("ROWS"):
        return WindowSpec("rows", place, count=_count(cursor), partition=tuple(partition))
    cursor.fail("a window", FORMS)


def _count(cursor: Cursor) -> int:
    at = cursor.place()
    count = cursor.integer("a number of rows")
    if count <= 0:
        raise SqlSyntaxError(
            "a ROWS window needs at least one row", code="PS-PLAN-002", place=at, remedy=FORMS
        )
    if count > LONGEST:
        raise TypeError_(
            f"ROWS {count} is too large",
            code="PS-TYPE-011",
            place=at,
            remedy="write [UNBOUNDED]",
        )
    return count


def _positive(span: Duration) -> Duration:
    if span.amount <= 0:
        raise SqlSyntaxError(
            "a window's length and slide must be positive",
            code="PS-PLAN-002",
            place=span.place,
            remedy=FORMS,
        )
    return span
