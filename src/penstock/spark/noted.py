"""Notes of a job: heartbeats and drops that are not in a batch yet, and seconds per stage."""

from __future__ import annotations

import time
from collections.abc import Container

from penstock.engine import blocks as b
from penstock.shards import wire
from penstock.shards.encoding import Encoded
from penstock.shards.session_log import SessionLog


class Laps:
    """Seconds of consecutive stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def end(self, stage: str) -> None:
        """Stop the clock for a stage, and start it for the next."""
        now = time.perf_counter()
        self.seconds[stage], self._begun = now - self._begun, now


class Noted:
    """Heartbeats and drops by entry, until their batch; they apply before lateness is checked."""

    def __init__(self, log: SessionLog, first: int) -> None:
        self._by_entry: dict[int, list[b.Heartbeat]] = {}
        self._drops: dict[int, str] = {}
        for number, data in log.read_blocks(first, log.last):
            self.note(number, wire.loads(data).blocks)

    def note(self, entry: int, blocks: tuple[Encoded, ...]) -> None:
        """Remember the heartbeats and drops of an entry."""
        for block in blocks:
            if isinstance(block, b.Drop):
                self._drops[entry] = block.name
        beats = [block for block in blocks if isinstance(block, b.Heartbeat)]
        if beats:
            self._by_entry[entry] = beats

    def dropped(self, last: int) -> set[str]:
        """The streams that entries up to `last` drop."""
        return {name for entry, name in list(self._drops.items()) if entry <= last}

    def forget(self, last: int) -> None:
        """Forget the notes of a completed batch."""
        self._drops = {entry: name for entry, name in self._drops.items() if entry > last}
        self._by_entry = {entry: beats for entry, beats in self._by_entry.items() if entry > last}

    def apply(
        self, first: int, last: int, watermarks: dict[str, int], streams: Container[str]
    ) -> None:
        """Move watermarks by the heartbeats of a batch."""
        for entry in sorted(e for e in self._by_entry if first <= e <= last):
            for beat in self._by_entry[entry]:
                if beat.stream in streams:
                    known = watermarks.get(beat.stream, beat.watermark)
                    watermarks[beat.stream] = max(known, beat.watermark)
