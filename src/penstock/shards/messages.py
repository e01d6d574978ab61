"""Messages from pack tasks to level 1, and from level 1 to level 2."""

from __future__ import annotations

from penstock.frozen import record
from penstock.shards.encoding import Encoded
from penstock.shards.wire import Result

SourcePart = tuple[str, int]
"""The place of rows in a source: file and part; for other sources no file, and the task."""


@record
class LogMessage:
    """Entries of the session log, in order; every shard gets them all."""

    entries: tuple[bytes, ...]


@record
class Counts:
    """Rows of a stream: received = accepted + late + quarantined."""

    received: int = 0
    accepted: int = 0
    late: int = 0
    quarantined: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.received + other.received,
            self.accepted + other.accepted,
            self.late + other.late,
            self.quarantined + other.quarantined,
        )


@record
class Piece:
    """Rows from one place of a source: this shard's by route, or all of them (RETAIN)."""

    place: SourcePart
    routed: tuple[tuple[str, bytes], ...]
    whole: bytes | None


@record
class SourceMessage:
    """The rows that one task read from an external source, for one shard.

    `reached` is the stream's watermark as this task knows it. Every shard gets a message from
    every task, so all know the same time.
    """

    stream: str
    epoch: int
    reached: int
    pieces: tuple[Piece, ...]
    counts: Counts


@record
class CrossMessage:
    """All rows that one shard of level 1 sends to one shard of level 2 in a batch, step by step."""

    origin: int
    steps: tuple[tuple[Encoded, ...], ...]
    through: tuple[Result, ...]
