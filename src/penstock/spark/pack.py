"""Pack: the rows that a task reads from an external source become blocks for the shards.

Everything that is not in the rows comes from the manifest of the batch, so a task that runs
again makes the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from penstock.shards import wire
from penstock.shards.intake import take_in
from penstock.spark.cells import block_batch, parts
from penstock.spark.manifest import Manifests

_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Pack:
    """A function for `mapInArrow`."""

    stream: str
    manifests: Path
    keys: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of a task make one message for every shard."""
        context = TaskContext.get()
        assert context is not None
        manifest = Manifests(self.manifests).read(int(context.getLocalProperty(_BATCH) or 0))
        intake = manifest.intakes.get(self.stream)
        found = [b for b in batches if b.num_rows]
        if intake is None or not found:  # nobody has declared the stream, or there is no row
            return
        task, count = context.partitionId(), len(self.keys)
        rows = pa.Table.from_batches(found)
        messages, kept_out = take_in(
            rows, self.stream, intake, manifest.moment(self.stream), task, count
        )
        for key, message in zip(self.keys, messages, strict=True):
            for block in parts(key, False, task, wire.dumps(message)):
                yield block_batch([block])
        if kept_out:
            for block in parts(self.keys[task % count], True, task, wire.dumps(kept_out)):
                yield block_batch([block])
