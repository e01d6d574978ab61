"""Between Arrow and the physical form of rows (`types.py`, `delta.py`).

`to_rows` makes the int64 matrix of a batch, `to_arrow` the arrays a user sees. Both work on
whole buffers: a column of 64-bit values is one copy in and none out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from penstock.arrays import I64, Bool
from penstock.errors import DataError
from penstock.schema import Schema
from penstock.state.strings import StringTable, validity
from penstock.types import Kind, SqlType, arrow_type

F64 = NDArray[np.float64]
Native = NDArray[Any]

_DTYPES: dict[Kind, DTypeLike] = {
    Kind.INT: np.int32,
    Kind.BIGINT: np.int64,
    Kind.FLOAT: np.float32,
    Kind.DOUBLE: np.float64,
    Kind.DATE: np.int32,
    Kind.TIMESTAMP: np.int64,
    Kind.INTERVAL: np.int64,
}


# ---- Arrow to rows -------------------------------------------------------------------
def to_rows(batch: pa.RecordBatch | pa.Table, schema: Schema, strings: StringTable) -> I64:
    """The matrix of a batch with the columns of `schema`, by position."""
    if batch.num_columns != len(schema):
        raise DataError(f"{batch.num_columns} columns where {len(schema)} are expected")
    rows = np.empty((1 + len(schema), batch.num_rows), np.int64)
    rows[0] = 0
    for j, field in enumerate(schema):
        null = fill_column(batch.column(j), field.type, strings, rows[1 + j])
        if null is not None:
            rows[0] |= null.astype(np.int64) << j
    return rows


def fill_column(array: pa.Array, type_: SqlType, strings: StringTable, out: I64) -> Bool | None:
    """Write the physical values of `array` into `out` (0 where NULL); its NULL mask, if any."""
    array = _plain(array, type_)
    null: Bool | None = None
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
    if type_.is_string:
        out[:] = strings.intern(array)
    elif type_.kind is Kind.NULL:
        out[:] = 0
    elif type_.is_float:
        canonical(_values(array, type_), out.view(np.float64))
    else:
        out[:] = _values(array, type_)
    if null is not None:
        out[null] = 0
    return null


def canonical(values: NDArray[np.floating], out: F64) -> None:
    """Copy floats so that equal values have equal bits: 0.0 for −0.0, one NaN."""
    np.add(values, 0.0, out=out)
    nan = np.isnan(out)
    if nan.any():
        out[nan] = np.nan


def _plain(array: pa.Array, type_: SqlType) -> pa.Array:
    """One array of the type's Arrow type; strings stay in any encoding the table can read."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    have, want = array.type, arrow_type(type_)
    if have == want:
        return array
    if type_.is_string and pa.types.is_large_string(have):
        return array
    if pa.types.is_dictionary(have):
        if type_.is_string and array.dictionary.null_count == 0:
            return array
        array = array.dictionary_decode()
    try:
        return array.cast(want)
    except pa.ArrowException as error:
        raise DataError(
            f"a column of {have} does not fit {type_}: {error}",
            code="PS-DATA-013",
            remedy=f"give a column with values that can be cast to {type_}",
        ) from None


def _values(array: pa.Array, type_: SqlType) -> Native:
    """The values buffer as NumPy, without a copy where the layout allows."""
    n = len(array)
    if n == 0:
        return np.empty(0, np.int64)
    if type_.kind is Kind.BOOLEAN:
        bits = np.frombuffer(array.buffers()[1], np.uint8)
        first = array.offset
        return np.unpackbits(bits, count=first + n, bitorder="little")[first:]
    if type_.kind is Kind.DECIMAL:
        words = np.frombuffer(array.buffers()[1], np.int64)
        return words[2 * array.offset :: 2][:n]  # ≤ 18 digits: the low word says it all
    dtype = np.dtype(_DTYPES[type_.kind])
    return np.frombuffer(array.buffers()[1], dtype, n, array.offset * dtype.itemsize)


# ---- rows to Arrow -------------------------------------------------------------------
def to_arrow(rows: I64, schema: Schema, strings: StringTable) -> list[pa.Array]:
    """One array per column, typed as `arrow_type`."""
    some_null = bool(rows[0].any())
    arrays = []
    for j, field in enumerate(schema):
        null = (rows[0] >> j) & 1 != 0 if some_null else None
        arrays.append(column_array(rows[1 + j], null, field.type, strings))
    return arrays


def column_array(data: I64, null: Bool | None, type_: SqlType, strings: StringTable) -> pa.Array:
    """Physical values as an Arrow array."""
    if type_.is_string:
        return strings.decode(data, null)
    values = data.view(np.float64) if type_.is_float else data
    return native_array(values, null, type_)


def native_array(values: Native, null: Bool | None, type_: SqlType) -> pa.Array:
    """Values that are not strings (floats as floats) as an Arrow array."""
    n = values.shape[0]
    if type_.kind is Kind.NULL:
        return pa.nulls(n)
    if type_.kind is Kind.BOOLEAN:
        packed: Native = np.packbits(values != 0, bitorder="little")
    elif type_.kind is Kind.DECIMAL:
        words = np.empty((n, 2), np.int64)
        words[:, 0] = values
        words[:, 1] = words[:, 0] >> 63
        packed = words
    else:
        if type_.kind is Kind.INT:
            _check_int32(values, null)
        with np.errstate(over="ignore"):
            packed = np.ascontiguousarray(values, _DTYPES[type_.kind])
    buffers = [validity(null), pa.py_buffer(packed)]
    return pa.Array.from_buffers(arrow_type(type_), n, buffers)


def _check_int32(values: Native, null: Bool | None) -> None:
    narrow = values.astype(np.int32)
    wrong = narrow != values
    if null is not None:
        wrong &= ~null
    if wrong.any():
        raise DataError(
            "a value is outside the range of INT", code="PS-DATA-013", remedy="use BIGINT"
        )
