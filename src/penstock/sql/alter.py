"""ALTER STREAM name …: the changes to an existing stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.sql.cursor import Cursor
from penstock.sql.ddl import origin
from penstock.sql.statements import Statement
from penstock.sql.units import Duration

Read = Callable[[Cursor, str], Statement]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRetain(Statement):
    """ALTER STREAM name SET RETAIN length | NONE: set how much history it keeps from now on."""

    name: str
    length: Duration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSource(Statement):
    """ALTER STREAM name PAUSE | RESUME: stop reading its source, or continue."""

    name: str
    paused: bool


def alter_stream(cursor: Cursor) -> Statement:
    """Read what follows ALTER STREAM."""
    name = cursor.name("the stream's name")
    for words, read in _CHANGES.items():
        if cursor.accept(words):
            return read(cursor, name)
    told = " or ".join(_CHANGES)
    cursor.fail(told, f"write ALTER STREAM {name} {told} …")


def _retain(cursor: Cursor, name: str) -> SetRetain:
    place, source = origin(cursor)
    length = None if cursor.accept("NONE") else cursor.span()
    return SetRetain(name=name, length=length, place=place, source=source)


def _pause(paused: bool) -> Read:
    def read(cursor: Cursor, name: str) -> PauseSource:
        place, source = origin(cursor)
        return PauseSource(name=name, paused=paused, place=place, source=source)

    return read


_CHANGES: dict[str, Read] = {
    "PAUSE": _pause(True),
    "RESUME": _pause(False),
    "SET RETAIN": _retain,
}
