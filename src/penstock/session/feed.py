"""The input of a session: pushed rows, file sources and the wall clock."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.engine import blocks as b
from penstock.engine.admission import admit, merged
from penstock.engine.engine import Engine
from penstock.errors import PenstockError
from penstock.inprocess.sources import STDIN
from penstock.session import clock
from penstock.session.catalog import SessionCatalog
from penstock.session.file_sources import open_files
from penstock.session.runner import Runner
from penstock.sql.catalog import StreamDef


class Feed:
    """Brings rows and time to the streams of a catalog."""

    def __init__(self, engine: Engine, catalog: SessionCatalog, runner: Runner) -> None:
        self._engine, self._catalog, self._runner = engine, catalog, runner

    def take_in(self, stream: StreamDef, parts: list[Any]) -> None:
        """Bring rows to a stream as one batch: all are compared with its current watermark."""
        self.tick()
        source, now = self._engine.sources[stream.name], clock.now_us()
        ahead = most_ahead(stream)
        judged = [
            admit(part, stream.schema, stream.time, stream.delay, ahead, source.watermark, now)
            for part in parts
        ]
        self._runner.steps.bring(stream, merged(judged))

    # ---- files -----------------------------------------------------------------------
    def read_sources(self, besides: Container[str] = ()) -> Iterator[tuple[str, int]]:
        """Push all unread rows of file sources, one batch of each source in turn.

        Yields the stream and the number of rows of each batch. A source that cannot be read is
        paused with the reason, and the next call tries it again; the others continue. Streams in
        `besides` are skipped.
        """
        streams = [s for s in self._catalog.streams() if s.format is not None]
        readers = {s.name: self._batches(s) for s in streams if s.name not in besides}
        while readers:
            batches = {name: next(reader, None) for name, reader in readers.items()}
            for name, batch in batches.items():
                if batch is None:
                    del readers[name]
                elif rows := sum(table.num_rows for table in batch):
                    with self._runner.gate.open():
                        self.take_in(self._catalog.find_stream(name), batch)
                    yield name, rows

    def _batches(self, stream: StreamDef) -> Iterator[list[pa.Table]]:
        """The new rows of a source; a file counts as read once the batch with its rows is taken."""
        state = self._catalog.meters[stream.name].source
        if state.is_off:
            return
        try:
            source = open_files(stream, self._runner.vault)
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

    # ---- time ------------------------------------------------------------------------
    def tick(self) -> None:
        """Apply wall-clock rules: TICK advances silent streams, IDLE AFTER releases the others."""
        now = clock.now_us()
        blocks: list[b.Block] = []
        for name, meter in self._catalog.meters.items():
            if meter.ticks(now):
                meter.last_tick = now
                blocks.append(b.Heartbeat(name, now - meter.stream.delay))
            if meter.idle(now):
                reached = self._active_watermark(name, now)
                if reached is not None and reached > self._engine.sources[name].watermark:
                    blocks.append(b.Heartbeat(name, reached))
        if blocks:
            self._runner.steps.beat(blocks)

    def _active_watermark(self, idle: str, now: int) -> int | None:
        """The least watermark of the other streams that are not idle and that `idle` holds back."""
        engine = self._engine
        together = {s for t in engine.templates.values() if idle in t.streams for s in t.streams}
        marks = [
            engine.sources[n].watermark
            for n in together - {idle}
            if not self._catalog.meters[n].idle(now)
        ]
        known = [m for m in marks if m != BEGINNING]
        return min(known) if known else None


def most_ahead(stream: StreamDef) -> int | None:
    """How far rows of a stream may be ahead of the wall clock, in µs."""
    if stream.max_ahead is None and not stream.unit_time:
        return clock.DAY_US
    return stream.max_ahead
