"""A sink that keeps batches while it cannot write them (a full disk, a read-only directory).

Batches are written in order, each until it succeeds, so every batch appears exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from penstock.files.sinks import Sink

Waiting = list[tuple[int, pa.Table]]
"""Batches that are not written yet: their numbers and changes, in order."""


class WaitingSink:
    """A sink and what it could not write.

    With `later`, the sink opens with its first write, so that a session can be restored, and the
    sink dropped, while its directory is unusable.
    """

    def __init__(self, open_: Callable[[], Sink], later: bool = False) -> None:
        self._open = open_
        self._sink = None if later else open_()
        self.waiting: Waiting = []

    def write(self, changes: pa.Table, batch: int) -> None:
        """Write the changes of `batch`, after waiting batches."""
        if changes.num_rows:
            self.take([(batch, changes)])
        self.catch_up()

    def take(self, batches: Iterable[tuple[int, pa.Table]]) -> None:
        """Let batches wait for the next write."""
        self.waiting += batches

    def catch_up(self) -> None:
        """Write waiting batches; those that fail keep waiting."""
        while self.waiting:
            batch, changes = self.waiting[0]
            self._sink = self._sink or self._open()
            self._sink.write(changes, batch)
            del self.waiting[0]

    def close(self) -> None:
        """Write waiting batches, and close."""
        try:
            self.catch_up()
        finally:
            if self._sink is not None:
                self._sink.close()
