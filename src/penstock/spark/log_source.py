"""The session log as a Spark streaming source; the offset is the number of the last entry.

It yields blocks, not entries: one message with all entries of the batch for every shard, so that
no further Python worker is needed between the log and the shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.errors import StateError
from penstock.shards.session_log import LogReader, Record, RecordPosition
from penstock.spark.block_source import BlockReader, BlockSource
from penstock.spark.cells import block_batch, parts

FORMAT = "penstock_log"
LOG_ORIGIN = -1
BATCH_BYTES = 64 << 20
"""The size limit of a batch's entries; a batch takes at least one entry."""


@dataclass
class EntryRange(InputPartition):
    """The entries of a batch, and the place of the first."""

    first: int
    last: int
    place: RecordPosition


def batch_end(records: Mapping[int, Record], first: int) -> int:
    """The last entry of the batch that begins with `first`."""
    size, last = 0, first - 1
    while (record := records.get(last + 1)) is not None:
        size += record.blocks
        if size > BATCH_BYTES and last >= first:
            break
        last += 1
    return last


class LogSource(BlockSource):
    """Options: `path` of the log, `keys` of the shards."""

    format = FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader."""
        keys = tuple(int(k) for k in self.options["keys"].split(","))
        return LogStream(Path(self.options["path"]), keys)


class LogStream(BlockReader):
    """Runs in a process beside the driver and finds new entries; `read` runs in a task."""

    def __init__(self, path: Path, keys: tuple[int, ...]) -> None:
        self._path = path
        self._keys = keys
        self._reader: LogReader | None = None
        self._known: dict[int, Record] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_keys": self._keys, "_reader": None, "_known": {}}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first entry."""
        return {"entry": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The last entry of the next batch."""
        first = start["entry"] + 1
        self._find(first)
        return {"entry": batch_end(self._known, first)}

    def _find(self, first: int) -> None:
        """Look for new entries; a restart begins in the middle of the log."""
        if self._reader is None:
            self._reader = LogReader(self._path, first)
        self._known.update((r.number, r) for r in self._reader.poll())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """All entries of the batch in one task: they are one sequence."""
        first, last = start["entry"] + 1, end["entry"]
        if first > last:
            return []
        if first not in self._known:
            self._reader = None
            self._find(first)
        if last not in self._known:
            raise StateError(
                f"entries {first} to {last} of the log {self._path} are gone", code="PS-STATE-005"
            )
        return [EntryRange(first, last, self._known[first].place)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One message for every shard."""
        from penstock.shards import wire  # the process beside the driver does not import the engine
        from penstock.shards.messages import LogMessage

        assert isinstance(partition, EntryRange)
        reader = LogReader(self._path, partition.first, partition.place)
        entries = []
        for record in reader.poll():
            entries.append(reader.read(record)[1])
            if record.number == partition.last:
                break
        reader.close()
        data = wire.dumps(LogMessage(tuple(entries)))
        for key in self._keys:
            for block in parts(key, False, LOG_ORIGIN, data):
                yield block_batch([block])

    def commit(self, end: dict[str, int]) -> None:
        """Forget the places of entries up to `end`."""
        for number in [n for n in self._known if n <= end["entry"]]:
            del self._known[number]
