"""The wire format between driver, pack tasks, shards and sinks.

Rows are Arrow IPC (strings travel as text, never as a shard's codes); everything else is
pickled. Both ends run the same version: a checkpoint of another one is refused. How a block
becomes bytes is in `shards/encoding.py`.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.frozen import record
from penstock.roomy import roomy
from penstock.schema import Schema
from penstock.shards.narrow import is_plain, narrowed, widened
from penstock.state.convert import to_arrow
from penstock.state.prefixes import small_items
from penstock.state.strings import StringTable

TIME = "__ts"
"""Column of event times beside the columns of a stream."""
_FEW = 1 << 10
"""Below this many rows, or bytes per row, compression and a second thread do not pay."""
_SMALL = pa.ipc.IpcWriteOptions(use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions()
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_READ_SMALL = pa.ipc.IpcReadOptions(use_threads=False)


@roomy
def dumps(value: Any) -> bytes:
    """Pickle."""
    return pickle.dumps(value, protocol=5)


@roomy
def loads(data: bytes) -> Any:
    """Unpickle; only what this job wrote is ever read."""
    return pickle.loads(data)


def pack_batch(batch: pa.RecordBatch | pa.Table) -> bytes:
    """An Arrow batch as IPC; in large batches, integers are narrowed and the rest is compressed."""
    options = _SMALL
    if batch.num_rows > _FEW:
        batch = narrowed(batch) if isinstance(batch, pa.RecordBatch) else batch
        options = _PLAIN if is_plain(batch) else _COMPRESSED
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write(batch)
    return bytes(sink.getvalue())


def unpack_batch(data: bytes) -> pa.RecordBatch:
    """The batch of an IPC stream."""
    options = _READ_SMALL if len(data) <= 64 * _FEW else None
    with pa.ipc.open_stream(data, options=options) as reader:
        batches = list(reader)
        schema = reader.schema
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    if batches:
        return widened(batches[0])
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema.names)


def stream_batch(batch: pa.RecordBatch, ts: I64, columns: tuple[str, ...] | None) -> bytes:
    """Admitted rows of a stream: the columns that some plan reads, and the times."""
    names = batch.schema.names if columns is None else columns
    arrays = [batch.column(name) for name in names]
    return pack_batch(pa.RecordBatch.from_arrays([*arrays, pa.array(ts)], [*names, TIME]))


# ---- results -------------------------------------------------------------------------
@record
class Result:
    """A result of the job: changes of a template, rows kept out, or a failure.

    `order` is the place within the batch (step, level, shard): sorted by it, the changes of a
    query are in the order in which they happened. A template has one block of changes per order,
    so (order, row) numbers its changes in a batch.
    """

    kind: str  # changes | read | failure | kept_out | status | shard
    template: int
    order: int
    data: bytes


def pack_changes(changes: Changes, schema: Schema, strings: StringTable) -> bytes:
    """Changes as Arrow: qid (or the set of qids), kind, time, then the query's columns."""
    columns = to_arrow(changes.rows, schema, strings)
    meta = [_owners(changes), pa.array(changes.kind), pa.array(changes.time)]
    names = ["_qid", "_kind", "_time", *(f"c{j}" for j in range(len(columns)))]
    return pack_batch(pa.RecordBatch.from_arrays([*meta, *columns], names))


def _owners(changes: Changes) -> pa.Array:
    """The query of each change, or its set; each distinct set is stored once."""
    if changes.sets is None:
        return pa.array(changes.qid)
    offsets, items = (a.astype(np.int32) for a in small_items(changes.sets))
    sets = pa.ListArray.from_arrays(pa.array(offsets), pa.array(items))
    return pa.DictionaryArray.from_arrays(pa.array(changes.qid.astype(np.int32)), sets)
