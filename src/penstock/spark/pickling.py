"""Pickles that may hold functions of the user's script, which workers cannot import.

Arrow pickles a slice with its whole parent; here the slice is copied first.
"""

from __future__ import annotations

import io
from collections import ChainMap
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle

from penstock.roomy import roomy


@roomy
def dumps(value: Any) -> bytes:
    """Pickle; `wire.loads` reads it."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)  # type: ignore[no-untyped-call]
    return file.getvalue()


def read_batch(data: bytes) -> pa.RecordBatch:
    """Unpickle a batch."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def read_table(data: bytes) -> pa.Table:
    """Unpickle a table."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _written(value: pa.RecordBatch | pa.Table) -> bytes:
    if not value.num_rows:  # even an empty slice would carry its texts
        empty = value.schema.empty_table()
        value = (
            empty
            if isinstance(value, pa.Table)
            else pa.record_batch([c.combine_chunks() for c in empty.columns], schema=value.schema)
        )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    return bytes(sink.getvalue())


def _reduce_batch(batch: pa.RecordBatch) -> tuple[Any, ...]:
    return read_batch, (_written(batch),)


def _reduce_table(table: pa.Table) -> tuple[Any, ...]:
    return read_table, (_written(table),)


class _Pickler(cloudpickle.Pickler):
    dispatch_table: ClassVar[Any] = ChainMap(  # type: ignore[misc]
        {pa.RecordBatch: _reduce_batch, pa.Table: _reduce_table},
        cloudpickle.Pickler.dispatch_table,
    )
