"""Feed files and standard input to streams, in turn, batch by batch.

A source continues after the rows its stream has already received, so the same command on the
same checkpoint continues where it stopped. Ctrl-C ends the input between two batches.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.inprocess.sources import FORMATS, format_of, open_source, total_rows
from penstock.schema import Field, Schema
from penstock.sql.catalog import StreamDef
from penstock.sql.literals import type_named
from penstock.types import SqlType

if TYPE_CHECKING:
    from penstock.session import Session

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Input:
    """Where the rows of a stream come from."""

    stream: str
    format: str
    options: Mapping[str, str]

    def total(self) -> int | None:
        """The approximate number of rows, if known."""
        return total_rows(self.format, self.options)

    def tables(self, session: Session, batch_rows: int, skip: int = 0) -> Iterator[pa.Table]:
        """The rows in batches, without the first `skip`."""
        schema = stream_schema(session, self.stream)
        for table in open_source(self.format, self.options, schema, batch_rows):
            rest = table.slice(min(skip, table.num_rows))
            skip -= table.num_rows - rest.num_rows
            if rest.num_rows:
                yield rest


def parse_input(text: str) -> Input:
    """STREAM=[FORMAT:]PATH; the format comes from the path's name unless it is given."""
    stream, equals, path = text.partition("=")
    if not equals or not stream.strip() or not path.strip():
        raise PenstockError(
            f"{text!r} is not an input",
            code="PS-CLI-005",
            remedy="write STREAM=FILE, such as clicks=clicks.csv, or clicks=- for standard input",
        )
    prefix, colon, rest = path.strip().partition(":")
    if colon and prefix.lower() in FORMATS:
        return Input(stream.strip(), prefix.lower(), {"path": rest})
    return Input(stream.strip(), format_of(path.strip()), {"path": path.strip()})


def declared_input(stream: StreamDef) -> Input | None:
    """The input of CREATE STREAM … FROM format OPTIONS (…)."""
    if stream.format is None:
        return None
    return Input(stream.name, stream.format, dict(stream.options))


def stream_schema(session: Session, stream: str) -> Schema:
    """The columns of a stream."""
    columns = session.sql(f'DESCRIBE "{stream}"').to_pylist()
    return Schema(tuple(Field(c["column"], _type(c["type"])) for c in columns))


def _type(text: str) -> SqlType:
    """A type as DESCRIBE prints it."""
    name, _, numbers = text.rstrip(")").partition("(")
    return type_named(name, tuple(int(n) for n in numbers.split(",") if n), None)


@dataclass(slots=True)
class Interrupt:
    """Ctrl-C and SIGTERM as a flag; they interrupt only a wait for input, and end the input."""

    asked: bool = False
    pressed: bool = False  # also while waiting
    _waiting: bool = field(default=False, init=False)

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        """Take over Ctrl-C and SIGTERM while inside."""
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self, get: Callable[[], pa.Table | None]) -> pa.Table | None:
        """The result of `get`, or None if Ctrl-C came first."""
        self._waiting = True
        try:
            return None if self.asked else get()
        except KeyboardInterrupt:
            return None
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        if self._waiting or self.asked:  # a second Ctrl-C ends it wherever it is
            raise KeyboardInterrupt
        self.asked = True


def feed(
    session: Session,
    inputs: list[Input],
    batch_rows: int,
    interrupt: Interrupt,
    pushed: Callable[[str, int], None],
) -> bool:
    """Push all inputs in turn, calling `pushed` for each batch; False if Ctrl-C ended it."""
    received = {s.lower(): row["received"] for s, row in session.stats()["streams"].items()}
    readers = [
        (i.stream, iter(i.tables(session, batch_rows, received.get(i.stream.lower(), 0))))
        for i in inputs
    ]
    while readers and not interrupt.asked:
        for entry in list(readers):
            stream, reader = entry
            table = interrupt.wait(lambda reader=reader: next(reader, None))  # type: ignore[misc]
            if table is None:
                readers.remove(entry)
                continue
            session.push(stream, table)
            pushed(stream, table.num_rows)
    return not interrupt.asked


def finish(session: Session, streams: Mapping[str, StreamDef]) -> None:
    """After all input: advance every stream to the latest time of any row."""
    marks = {s: row["watermark"] for s, row in session.stats()["streams"].items()}
    for unit_time in (False, True):
        group = [s for s in marks if s in streams and streams[s].unit_time is unit_time]
        reached = [marks[s] + streams[s].delay for s in group if marks[s] is not None]
        for name in group:
            if reached:
                session.advance(name, max(reached))
