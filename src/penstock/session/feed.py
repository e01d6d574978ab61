"""What feeds a session besides push(): file sources and the wall clock."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.engine import blocks as b
from penstock.engine.admission import admit, merged
from penstock.errors import DataError, PenstockError
from penstock.files.fitting import check_files
from penstock.inprocess.sources import STDIN, FileSource
from penstock.inprocess.sources import check_source as open_files
from penstock.session import names
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.session import Session


DAY_US = 86_400_000_000


def now_us() -> int:
    """Wall time in µs since 1970."""
    return time.time_ns() // 1000


def check_source(session: Session, stream: StreamDef) -> None:
    """Refuse a source of files that cannot be read as it is declared."""
    if stream.format is None:
        return
    source = _source(session, stream)
    if not source.is_stdin and not source.listing.exists():
        raise DataError(
            f"stream {stream.name}: path {source.listing.path!r} does not exist",
            code="PS-SRC-004",
            remedy="create the directory first (files may come later); paths are relative to the "
            "working directory",
        )
    if not source.is_stdin:
        check_files(stream, source.format, {"path": source.listing.path})


def _source(session: Session, stream: StreamDef) -> FileSource:
    assert stream.format is not None
    return open_files(
        stream.format, dict(session._vault.plain(stream.options)), f"stream {stream.name}"
    )


def read_sources(session: Session, besides: Container[str] = ()) -> Iterator[tuple[str, int]]:
    """Push what the file sources hold and has not been read yet, one batch of each in turn.

    Yields the stream and the rows of each batch. A source that cannot be read is paused, with the
    reason, and tried again by the next call; the others go on. Streams `besides` are not for us.
    """
    streams = [r for r in session._catalog.relations.values() if isinstance(r, StreamDef)]
    sources = [s for s in streams if s.format is not None and s.name not in besides]
    readers = {s.name: _batches(session, s) for s in sources}
    while readers:
        batches = {name: next(reader, None) for name, reader in readers.items()}
        for name, batch in batches.items():
            if batch is None:
                del readers[name]
            elif rows := sum(table.num_rows for table in batch):
                with session._open():
                    take_in(session, names.find_stream(session, name), batch)
                yield name, rows


def take_in(session: Session, stream: StreamDef, parts: list[Any]) -> None:
    """Bring rows to a stream as one batch: all are judged against its present watermark."""
    tick(session)
    source, now = session._engine.sources[stream.name], now_us()
    ahead = stream.max_ahead
    if ahead is None and not stream.unit_time:
        ahead = DAY_US
    judged = [
        admit(part, stream.schema, stream.time, stream.delay, ahead, source.watermark, now)
        for part in parts
    ]
    session._bring(stream, merged(judged))


def _batches(session: Session, stream: StreamDef) -> Iterator[list[pa.Table]]:
    """The new rows of a source; files are noted as read with the batch that has their rows."""
    state = session._meters[stream.name].source
    if state.is_off:
        return
    try:
        source = _source(session, stream)
        if source.is_stdin:
            yield from ([table] for table in source.read(STDIN, stream.schema))
            return
        for files in source.listing.batches(state.files):
            tables = [t for file in files for t in source.read(file.path, stream.schema)]
            state.files |= {source.listing.key(file) for file in files}
            state.paused = ""
            yield tables
        state.paused = ""
    except (PenstockError, OSError, pa.ArrowException) as error:
        state.paused = error.message if isinstance(error, PenstockError) else str(error)


def tick(session: Session) -> None:
    """Let silent streams move: TICK follows the wall clock, IDLE AFTER lets others go on."""
    now = now_us()
    blocks: list[b.Block] = []
    for name, meter in session._meters.items():
        if meter.ticks(now):
            meter.last_tick = now
            blocks.append(b.Heartbeat(name, now - meter.stream.delay))
        if meter.idle(now):
            reached = active_watermark(session, name, now)
            if reached is not None and reached > session._engine.sources[name].watermark:
                blocks.append(b.Heartbeat(name, reached))
    if blocks:
        session._beat(blocks)


def active_watermark(session: Session, idle: str, now: int) -> int | None:
    """The least watermark of the streams that `idle` holds back and that are not idle too."""
    together = {
        s for t in session._engine.templates.values() if idle in t.streams for s in t.streams
    }
    marks = [
        session._engine.sources[n].watermark
        for n in together - {idle}
        if not session._meters[n].idle(now)
    ]
    known = [m for m in marks if m != BEGINNING]
    return min(known) if known else None
