"""What feeds a session besides push(): file sources and the wall clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.delta import BEGINNING
from penstock.engine import blocks as b
from penstock.inprocess.sources import open_source
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.session import Session

_BATCH_ROWS = 50_000


def now_us() -> int:
    """Wall time in µs since 1970."""
    return time.time_ns() // 1000


def read_sources(session: Session) -> None:
    """Push everything the file sources hold and has not been read yet."""
    readers = {}
    for stream in [r for r in session._catalog.relations.values() if isinstance(r, StreamDef)]:
        if stream.format is not None:
            options = dict(session._vault.plain(stream.options))
            reader = open_source(stream.format, options, stream.schema, _BATCH_ROWS)
            readers[stream.name] = iter(reader)
    skip = {name: session._meters[name].received for name in readers}
    while readers:
        for name in list(readers):
            batch = next(readers[name], None)
            if batch is None:
                del readers[name]
                continue
            unseen = batch.slice(min(skip[name], batch.num_rows))
            skip[name] -= batch.num_rows - unseen.num_rows
            if unseen.num_rows:
                session.push(name, unseen)


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
