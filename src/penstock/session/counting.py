"""Records rows of external streams (read, late, quarantined) as each Spark batch reports them.

A batch may report a stream that has been dropped, and a new stream may have the same name. The
report counts only if the current stream was declared before the batch ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.engine.control import ControlEngine
from penstock.session.catalog import SessionCatalog
from penstock.session.spark_sources import is_external
from penstock.shards import wire
from penstock.shards.messages import Counts
from penstock.spark.manifest import Mark


class Counting:
    """Adds reported counts, times and rejected rows to the meters of external streams."""

    def __init__(self, catalog: SessionCatalog, control: ControlEngine) -> None:
        self._catalog, self._control = catalog, control

    def _is_there(self, stream: str, entry: int) -> bool:
        """Whether a batch that ends with `entry` reports on the stream that now has this name."""
        meters = self._catalog.meters
        return stream in meters and meters[stream].since <= entry

    def keep_out(self, found: Iterable[bytes], entry: int) -> None:
        """Record late and quarantined rows."""
        for stream, kind, data in map(wire.loads, found):
            if self._is_there(stream, entry):
                table = pa.Table.from_batches([wire.unpack_batch(data)])
                self._catalog.meters[stream].keep_out(kind, table)

    def take_counts(self, status: dict[str, Any], entry: int) -> None:
        """Record row counts and watermarks."""
        for stream, counts in status["counts"].items():
            if self._is_there(stream, entry):
                self._catalog.meters[stream].add_counts(
                    counts.received, counts.accepted, counts.late, counts.quarantined
                )
        self._pass_by(status["watermarks"], entry)

    def _pass_by(self, watermarks: Mapping[str, int], entry: int) -> None:
        """Advance the clocks of streams: their rows went to the shards directly."""
        for stream, mark in watermarks.items():
            source = self._control.sources.get(stream)
            there = self._is_there(stream, entry) and is_external(self._catalog, stream)
            if source is not None and mark != BEGINNING and there:
                passed = max(0, self._catalog.meters[stream].accepted - source.discarded)
                self._control.pass_by(stream, passed, mark)

    def restore(self, mark: Mark) -> None:
        """Restore the counts and times of a former process.

        A batch not marked as done runs again.
        """
        for stream, meter in self._catalog.meters.items():
            if is_external(self._catalog, stream):
                there = self._is_there(stream, mark.last)
                counts = mark.counts.get(stream, Counts()) if there else Counts()
                meter.received, meter.accepted = counts.received, counts.accepted
                meter.late_rows, meter.quarantined = counts.late, counts.quarantined
        self._pass_by(mark.watermarks, mark.last)
