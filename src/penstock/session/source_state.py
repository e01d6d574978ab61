"""How far the source of a stream has been read in process, and why it is not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import DataError
from penstock.session import names
from penstock.sql.alter import PauseSource
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.session import Session

BY_USER = "by ALTER STREAM … PAUSE"


@dataclass(slots=True)
class SourceState:
    """Files that were read, and why reading was stopped; empty when it was not."""

    files: set[str] = field(default_factory=set)
    paused: str = ""

    @property
    def is_off(self) -> bool:
        """Whether the user paused it: what failed is tried again."""
        return self.paused == BY_USER


def alter(session: Session, statement: PauseSource) -> None:
    """ALTER STREAM … PAUSE or RESUME."""
    stream = names.find_stream(session, statement.name)
    if stream.format is None:
        raise DataError(
            f"stream {stream.name} has no source to pause or resume: its rows are pushed",
            code="PS-SRC-008",
            place=statement.place,
            remedy="do not push rows while the stream should wait",
        )
    session._meters[stream.name].source.paused = BY_USER if statement.paused else ""
    session._pause_source(stream, statement.paused)


def status(session: Session, stream: StreamDef) -> str | None:
    """What SHOW STREAMS says of a stream's source; None when rows are pushed."""
    if stream.format is None:
        return None
    reason = session._why_paused(stream.name)
    return f"paused: {reason}" if reason else "read"
