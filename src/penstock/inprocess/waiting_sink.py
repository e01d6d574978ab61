"""A sink whose batches wait while it cannot be written (a full disk, a directory in the way).

Batches are written in their order, each of them until it is there: a reader of the sink later
finds all of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from penstock.files.sinks import Sink

Waiting = list[tuple[int, pa.Table]]
"""Batches that are not written yet: their numbers and changes, in order."""


class WaitingSink:
    """A sink and what it could not write.

    A sink that is opened `later` opens with its first write, so that a session can be restored, and
    the sink dropped, while its directory cannot be used.
    """

    def __init__(self, open_: Callable[[], Sink], later: bool = False) -> None:
        self._open = open_
        self._sink = None if later else open_()
        self.waiting: Waiting = []

    def write(self, changes: pa.Table, batch: int) -> None:
        """Deliver the changes of `batch`, after those that wait."""
        if changes.num_rows:
            self.take([(batch, changes)])
        self.catch_up()

    def take(self, batches: Iterable[tuple[int, pa.Table]]) -> None:
        """Let batches wait for the next write."""
        self.waiting += batches

    def catch_up(self) -> None:
        """Deliver what waits; what cannot be delivered waits on."""
        while self.waiting:
            batch, changes = self.waiting[0]
            self._sink = self._sink or self._open()
            self._sink.write(changes, batch)
            del self.waiting[0]

    def close(self) -> None:
        """Deliver what waits, and nothing more."""
        try:
            self.catch_up()
        finally:
            if self._sink is not None:
                self._sink.close()
