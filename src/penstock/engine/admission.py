"""Admission: which rows of a batch enter a stream (DESIGN §3, kept out).

All runners use this code. Rows that do not fit the schema, have no time or lie too far
in the future are quarantined with the reason; rows older than the watermark at the start of the
batch are late. accepted + late + quarantined = received, always.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BEGINNING, I64, Bool
from penstock.engine.encodings import decoded, widened
from penstock.engine.reasons import Reasons, note_unfit
from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.types import arrow_type

MALFORMED = "_malformed"
"""Column with the text of a row that the source could not parse."""
FARTHEST = 1 << 61  # windows have the same bound, so that sums fit 64 bits
_WRITTEN_TIMES = [pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")]
_UNFIT = (
    pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError
)  # fmt: skip
QUARANTINE = pa.schema([("_reason", pa.string()), ("_row", pa.string())])
NONE_QUARANTINED = QUARANTINE.empty_table()


@dataclass(frozen=True, slots=True)
class Admitted:
    """A batch after admission."""

    accepted: pa.RecordBatch
    ts: I64
    watermark: int
    late: pa.Table
    quarantined: pa.Table
    received: int


def admit(
    data: Any,
    schema: Schema,
    time: str,
    delay: int,
    max_ahead: int | None,
    watermark: int,
    wall: int,
) -> Admitted:
    """Check every row of `data` against schema, watermark and the wall time `wall` (µs)."""
    raw = as_columns(data, schema)
    n = len(next(iter(raw.values()))) if raw else 0
    reasons = Reasons(n)
    if MALFORMED in raw:
        reasons.note(_present(raw[MALFORMED]), "malformed row")
    arrays = []
    for column in schema:
        given = raw.get(column.name)
        values, bad = convert(given, column, n)
        if bad is not None and bad.any():
            note_unfit(reasons, bad, given, column)
        arrays.append(values)
    batch = pa.RecordBatch.from_arrays(arrays, names=list(schema.names))
    ts, low, high = _judge_times(arrays[schema.names.index(time)], time, reasons)
    if max_ahead is not None and high > wall + max_ahead:
        reasons.note(ts > wall + max_ahead, f"{time} is further in the future than MAX AHEAD")
    if not reasons and low >= watermark:  # the usual case: no row is kept out
        reached = high - delay if n else BEGINNING
        late = _no_late(schema)
        return Admitted(batch, ts, max(watermark, reached), late, NONE_QUARANTINED, n)
    good = reasons.code == 0
    is_late = good & (ts < watermark)
    accepted = good & ~is_late
    times_in = ts[accepted]
    reached = int(times_in.max()) - delay if times_in.shape[0] else BEGINNING
    return Admitted(
        batch if accepted.all() else batch.filter(pa.array(accepted)),
        times_in,
        max(watermark, reached),
        _late_table(batch, is_late, watermark),
        _quarantine_table(raw, reasons),
        n,
    )


def merged(parts: list[Admitted]) -> Admitted:
    """Combine batches that were checked against the same watermark."""
    if len(parts) == 1:
        return parts[0]
    accepted = pa.Table.from_batches([part.accepted for part in parts]).combine_chunks()
    return Admitted(
        accepted.to_batches()[0] if accepted.num_rows else parts[0].accepted,
        np.concatenate([part.ts for part in parts]),
        max(part.watermark for part in parts),
        pa.concat_tables([part.late for part in parts]),
        pa.concat_tables([part.quarantined for part in parts]),
        sum(part.received for part in parts),
    )


def _judge_times(times: pa.Array, name: str, reasons: Reasons) -> tuple[I64, int, int]:
    """Event times (0 where NULL), the least and the largest; rows without a usable one are bad."""
    if times.type != pa.int64():
        times = times.cast(pa.int64())
    if times.null_count:
        reasons.note(_numpy(pc.is_null(times)), f"{name} is NULL")
        times = pc.fill_null(times, 0)
    ts = np.array(_numpy(times))
    if not ts.shape[0]:
        return ts, 0, 0
    low, high = int(ts.min()), int(ts.max())
    if low < -FARTHEST or high > FARTHEST:
        outside = (ts > FARTHEST) | (ts < -FARTHEST)
        reasons.note(outside, f"{name} is outside the range of event time")
    return ts, low, high


def as_columns(data: Any, schema: Schema) -> dict[str, Any]:
    """Columns by name: Arrow arrays, or lists of Python values for a list of dicts."""
    if isinstance(data, pd.DataFrame):
        names = [str(name) for name in data.columns]
        _check_names(names, schema)
        return {name: _of_series(data.iloc[:, i]) for i, name in enumerate(names)}
    if isinstance(data, pa.RecordBatch | pa.Table):
        names = data.column_names
        _check_names(names, schema)
        return {name: decoded(data.column(i)) for i, name in enumerate(names)}
    if hasattr(data, "__arrow_c_stream__"):  # Polars and others
        return as_columns(read_stream(data), schema)
    if isinstance(data, dict):
        data = [data]
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        seen = dict.fromkeys(name for row in data for name in row)
        _check_names(list(seen), schema)
        return {n: [row.get(n) for row in data] for n in dict.fromkeys((*schema.names, *seen))}
    raise DataError(
        f"cannot read rows from a {type(data).__name__}",
        remedy="pass a pyarrow Table or RecordBatch, a pandas or Polars DataFrame, any object with "
        "__arrow_c_stream__, or a list of dicts",
    )


def read_stream(data: Any) -> pa.Table:
    """The table of an object with Arrow's C stream interface."""
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except pa.ArrowException as error:
        raise DataError(
            f"cannot read rows from this {type(data).__name__}: {error}",
            remedy="pass an object with columns and rows, such as a DataFrame",
        ) from error


def _of_series(column: pd.Series[Any]) -> Any:
    """A column of a frame: an Arrow array, or its values if they have several types."""
    try:
        return pa.array(column, from_pandas=True)
    except (*_UNFIT, TypeError):
        return [None if missing else v for v, missing in zip(column, column.isna(), strict=True)]


def _check_names(names: list[str], schema: Schema) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DataError(
            f"column {twice[0]} is given twice", code="PS-DATA-002", remedy="remove one of them"
        )
    unknown = [n for n in names if n not in schema.names and n != MALFORMED]
    if unknown:
        raise DataError(
            f"unknown column {unknown[0]}",
            code="PS-DATA-003",
            remedy=f"the columns are {', '.join(schema.names)}",
        )


def convert(values: Any, column: Field, n: int) -> tuple[pa.Array, Bool | None]:
    """`values` in the column's type, NULL where they are bad, and the mask of these (or None)."""
    target = arrow_type(column.type)
    if values is None:
        return pa.nulls(n, target), None
    if isinstance(values, list) and _narrows_floats(target) and _are_floats(values):
        values = pa.array(values, pa.float64())
    if isinstance(values, list):
        return _convert_python(values, target)
    values = decoded(values)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if pa.types.is_dictionary(values.type):
        values = _of_dictionary(values, target)
    if values.type == target:
        return values, None
    return _cast_leniently(values, target)


def _of_dictionary(values: pa.DictionaryArray, target: pa.DataType) -> pa.Array:
    """Dictionary-encoded values: as they are if these are strings for strings, else plain."""
    return values if values.type.value_type == target else values.dictionary_decode()


def _convert_python(values: list[Any], target: pa.DataType) -> tuple[pa.Array, Bool]:
    try:
        if _is_exact(values, target):
            return pa.array(values, target), np.zeros(len(values), np.bool_)
    except (*_UNFIT, TypeError):
        pass
    if len(values) == 1:
        array = _one_value(values[0], target)
        return (pa.nulls(1, target), np.ones(1, np.bool_)) if array is None else (
            array, np.zeros(1, np.bool_)
        )  # fmt: skip
    half = len(values) // 2
    first, second = _convert_python(values[:half], target), _convert_python(values[half:], target)
    return pa.concat_arrays([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _are_floats(values: list[Any]) -> bool:
    return {type(v) for v in values} <= {float, type(None)}


def _narrows_floats(target: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(target) or pa.types.is_float32(target))


def _is_exact(values: list[Any], target: pa.DataType) -> bool:
    """Whether pyarrow converts without changing values.

    Otherwise it truncates floats and times, overflows to infinity, and reads bools as ints and
    ints as times.
    """
    kinds = {type(v) for v in values} - {type(None)}
    if bool in kinds and not pa.types.is_boolean(target):
        return False
    if pa.types.is_date(target):
        return kinds <= {dt.date}
    if pa.types.is_timestamp(target) and any(issubclass(k, int | np.integer) for k in kinds):
        return False
    return not (kinds - {int} and (pa.types.is_integer(target) or pa.types.is_float32(target)))


def _one_value(value: Any, target: pa.DataType) -> pa.Array | None:
    if isinstance(value, bool) != pa.types.is_boolean(target) and not isinstance(value, str):
        return None
    try:
        array, bad = _cast_leniently(pa.array([value]), target)
    except _UNFIT:
        return None
    return None if bad.any() else array


def _cast_leniently(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, Bool]:
    n = len(values)
    if values.type == target:
        return values, np.zeros(n, np.bool_)
    if _differ(values.type, target):
        return pa.nulls(n, target), _numpy(values.is_valid())
    values = widened(values)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = values.cast(pa.timestamp(values.type.unit))  # the same instant, in UTC
    try:
        if pa.types.is_timestamp(target) and pa.types.is_string(values.type):
            return _read_times(values), np.zeros(n, np.bool_)
        if pa.types.is_decimal(target) and pa.types.is_integer(values.type):
            values = values.cast(pa.decimal128(38, target.scale))  # where every integer has room
        if pa.types.is_timestamp(target) and values.type == pa.timestamp("ns"):
            return _in_us(values), np.zeros(n, np.bool_)
        if pa.types.is_decimal(values.type) and pa.types.is_floating(target):
            values = values.cast(pa.string()).cast(pa.float64())  # the nearest; Arrow's is not
        return values.cast(target), _changes_by(values, target)
    except pa.ArrowNotImplementedError:  # no value of this type can be converted
        return pa.nulls(n, target), _numpy(values.is_valid())
    except pa.ArrowInvalid:
        if n <= 1:
            return pa.nulls(n, target), _numpy(values.is_valid())
    half = n // 2
    first = _cast_leniently(values[:half], target)
    second = _cast_leniently(values[half:], target)
    return pa.concat_arrays([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _differ(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether two types are never converted to each other: booleans, numbers and times."""
    if any(map(pa.types.is_null, (given, target))) or _is_text(given):
        return False
    if pa.types.is_boolean(given) != pa.types.is_boolean(target):
        return True
    numbers = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in (given, target)]
    times = [pa.types.is_temporal(t) for t in (given, target)]
    return bool((numbers[0] and times[1]) or (times[0] and numbers[1]))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _changes_by(values: pa.Array, target: pa.DataType) -> Bool:
    """The values that a successful cast would change."""
    if pa.types.is_date(target) and pa.types.is_timestamp(values.type):
        return _numpy(
            pc.fill_null(pc.not_equal(pc.floor_temporal(values, unit="day"), values), False)
        )
    if pa.types.is_floating(values.type) and pa.types.is_decimal(target):
        return _loses_digits(values, target)
    if pa.types.is_float64(values.type) and pa.types.is_float32(target):
        floats = _numpy(pc.fill_null(values, 0))
        with np.errstate(over="ignore"):
            return np.asarray(np.isinf(floats.astype(np.float32)) & ~np.isinf(floats))
    return np.zeros(len(values), np.bool_)


def _loses_digits(values: pa.Array, target: pa.DataType) -> Bool:
    """Floats that are not the nearest to a decimal of the target's scale, so a cast truncates."""
    floats = _numpy(pc.fill_null(values, 0))
    unit = 10.0**target.scale
    nearest = np.rint(floats.astype(np.float64) * unit) / unit
    return np.asarray(nearest.astype(floats.dtype) != floats)


def _read_times(text: pa.Array) -> pa.Array:
    """Timestamps in UTC, truncated to µs; a zone is converted."""
    for written in _WRITTEN_TIMES[:-1]:
        try:
            return _in_us(text.cast(written))
        except pa.ArrowInvalid:
            continue
    return _in_us(text.cast(_WRITTEN_TIMES[-1]))


def _in_us(times: pa.Array) -> pa.Array:
    if times.type.unit == "ns":  # a cast alone would round times before 1970 up
        times = pc.floor_temporal(times, unit="microsecond")
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.timestamp("us"))


def _present(values: Any) -> Bool:
    if isinstance(values, list):
        return np.array([v is not None for v in values], np.bool_)
    return _numpy(pc.is_valid(values))


def _numpy(array: Any) -> np.ndarray[Any, Any]:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return np.asarray(array.to_numpy(zero_copy_only=False))


@lru_cache(maxsize=256)
def _no_late(schema: Schema) -> pa.Table:
    return schema.arrow().append(pa.field("_watermark", pa.int64())).empty_table()


def _late_table(batch: pa.RecordBatch, is_late: Bool, watermark: int) -> pa.Table:
    rows = batch.filter(pa.array(is_late)) if is_late.any() else batch.slice(0, 0)
    mark = pa.array(np.full(rows.num_rows, watermark), pa.int64())
    return pa.Table.from_batches([rows]).append_column("_watermark", mark)


def _quarantine_table(raw: dict[str, Any], reasons: Reasons) -> pa.Table:
    index = np.flatnonzero(reasons.code)
    if index.shape[0] == 0:
        return NONE_QUARANTINED
    chosen = pa.array(index)
    columns = {
        name: [values[i] for i in index]
        if isinstance(values, list)
        else values.take(chosen).to_pylist()
        for name, values in raw.items()
    }
    rows = [
        json.dumps({name: values[i] for name, values in columns.items()}, default=str)
        for i in range(index.shape[0])
    ]
    return pa.table(
        [pa.array(reasons.texts).take(pa.array(reasons.code[index])), rows], schema=QUARANTINE
    )
