"""What becomes of the rows of external streams, as each batch on Spark tells it.

A batch may speak of a stream that was dropped, and whose name another has by now: counts, times
and rows kept out are those of the stream that was declared when the batch ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.shards import wire
from penstock.shards.messages import Counts
from penstock.spark.manifest import Mark

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark


def _is_there(session: OnSpark, stream: str, entry: int) -> bool:
    """Whether a batch that ends with an entry speaks of the stream that has the name now."""
    return stream in session._meters and session._meters[stream].since <= entry


def keep_out(session: OnSpark, found: Iterable[bytes], entry: int) -> None:
    """Take note of late and quarantined rows."""
    for stream, kind, data in map(wire.loads, found):
        if _is_there(session, stream, entry):
            table = pa.Table.from_batches([wire.unpack_batch(data)])
            session._meters[stream].keep_out(kind, table)


def take_counts(session: OnSpark, status: dict[str, Any], entry: int) -> None:
    """Take note of rows and watermarks."""
    for stream, counts in status["counts"].items():
        if _is_there(session, stream, entry):
            session._meters[stream].add_counts(
                counts.received, counts.accepted, counts.late, counts.quarantined
            )
    _pass_by(session, status["watermarks"], entry)


def _pass_by(session: OnSpark, watermarks: Mapping[str, int], entry: int) -> None:
    """What streams have brought went to the shards."""
    for stream, mark in watermarks.items():
        source = session._engine.sources.get(stream)
        there = _is_there(session, stream, entry) and session._is_external(stream)
        if source is not None and mark != BEGINNING and there:
            passed = max(0, session._meters[stream].accepted - source.discarded)
            session._control.pass_by(stream, passed, mark)


def restore(session: OnSpark, mark: Mark) -> None:
    """The counts and times of a former process; a batch that is not marked as done comes again."""
    for stream, meter in session._meters.items():
        if session._is_external(stream):
            there = _is_there(session, stream, mark.last)
            counts = mark.counts.get(stream, Counts()) if there else Counts()
            meter.received, meter.accepted = counts.received, counts.accepted
            meter.late_rows, meter.quarantined = counts.late, counts.quarantined
    _pass_by(session, mark.watermarks, mark.last)
