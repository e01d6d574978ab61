"""Pack: turn the rows that a task reads from an external source into blocks for the shards.

All other inputs come from the manifest of the batch, so a repeated task makes the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from penstock.files.formats import FileFormat
from penstock.shards import wire
from penstock.shards.intake import Given, Intake, Part, take_in
from penstock.spark.cells import block_batch, parts
from penstock.spark.found_files import file_parts
from penstock.spark.manifest import Manifests

_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Pack:
    """A function for `mapInArrow` over rows, or over parts of files (`found_files`).

    Its stream has `number` among `sources`. Spark may give a task partitions of several sources,
    so the number of the task alone does not identify the sender of a block.
    """

    stream: str
    number: int
    sources: int
    manifests: Path
    keys: tuple[int, ...]
    files: FileFormat | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of a task make one message for every shard."""
        context = TaskContext.get()
        assert context is not None
        manifest = Manifests(self.manifests).read(int(context.getLocalProperty(_BATCH) or 0))
        intake = manifest.intakes.get(self.stream)
        found = [b for b in batches if b.num_rows]
        if intake is None or not found:  # the stream is not declared yet, or there is no row
            return
        task, count = context.partitionId(), len(self.keys)
        messages, kept_out = take_in(
            self._parts(found, intake, task), self.stream, intake,
            manifest.moment(self.stream), count,
        )  # fmt: skip
        origin = task * self.sources + self.number
        for key, message in zip(self.keys, messages, strict=True):
            for block in parts(key, False, origin, wire.dumps(message)):
                yield block_batch([block])
        if kept_out:
            for block in parts(self.keys[task % count], True, origin, wire.dumps(kept_out)):
                yield block_batch([block])

    def _parts(self, found: list[pa.RecordBatch], intake: Intake, task: int) -> Iterable[Part]:
        if self.files is not None:
            return file_parts(found, self.files, intake.schema)
        return [Given(("", task), pa.Table.from_batches(found))]
