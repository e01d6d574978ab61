"""Which external streams a job reads: sources come, go, pause and resume while it runs.

A running query cannot change its sources, so it starts again after each change.
"""

from __future__ import annotations

import time

from penstock.spark.paused import BY_USER, Paused
from penstock.spark.source_set import SourceSet
from penstock.spark.sources import Source
from penstock.spark.streaming import Streaming


class SourceControl:
    """The sources of one job."""

    def __init__(self, sources: SourceSet, streaming: Streaming) -> None:
        self._sources = sources
        self._streaming = streaming

    def add(self, name: str, source: Source, entry: int) -> None:
        """Read an external stream, which an entry declares."""
        with self._streaming.changed:
            self._sources.add(name, source, entry)
            self._streaming.renew_if_needed()

    def check_drop(self, name: str) -> None:
        """Refuse to drop a source that the job cannot do without."""
        self._sources.check_drop(name)

    def drop(self, name: str, entry: int) -> None:
        """An entry has dropped an external stream; if it was what stopped the job, it goes on."""
        with self._streaming.changed:
            self._sources.drop(name, entry)
        self._go_on()

    def pause(self, name: str) -> None:
        """Read no more of a source until `resume`."""
        with self._streaming.changed:
            self._sources.pause(name, Paused(BY_USER))
        self._streaming.renew_if_needed()

    def resume(self, name: str) -> None:
        """Read a source again, also if that was what stopped the job."""
        with self._streaming.changed:
            self._sources.resume(name)
        self._go_on()

    def retry(self) -> None:
        """Read again what failed and may go well by now."""
        with self._streaming.changed:
            due = self._sources.resume_due(time.monotonic())
        if due:
            self._streaming.renew_if_needed()

    @property
    def paused(self) -> dict[str, str]:
        """The paused streams, and why they are paused."""
        return {name: why.reason for name, why in dict(self._sources.paused).items()}

    def _go_on(self) -> None:
        self._streaming.forgive()
        self._streaming.renew_if_needed()
