"""Conversion of Python and SQL constants into physical 64-bit values."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine.admission import FARTHEST, convert
from penstock.errors import PenstockError, TypeError_
from penstock.logical.expr import Literal
from penstock.schema import Field, Schema
from penstock.sql.catalog import StreamDef
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateTable
from penstock.state.convert import canonical, to_rows
from penstock.state.strings import StringTable
from penstock.types import Kind, SqlType, arrow_type

_EPOCH_UNITS = {Kind.TIMESTAMP: pa.timestamp("us"), Kind.DATE: pa.date32()}


def arrow_value(literal: Literal) -> Any:
    """The literal as an Arrow scalar of its own type."""
    kind, value = literal.type.kind, literal.value
    if value is None:
        return pa.scalar(None)
    if kind in _EPOCH_UNITS:
        width = pa.int64() if kind is Kind.TIMESTAMP else pa.int32()
        return pa.scalar(value, width).cast(_EPOCH_UNITS[kind])
    if kind is Kind.DECIMAL:
        from decimal import Decimal

        return pa.scalar(Decimal(int(value)).scaleb(-literal.type.scale), arrow_type(literal.type))
    return pa.scalar(value)


def cast_scalar(value: Any, type_: SqlType, what: str) -> Any:
    """Cast an Arrow scalar to a column's type; raise an error that names `what` if that fails."""
    if not value.is_valid:
        return pa.scalar(None, arrow_type(type_))
    array, bad = convert(pa.array([value.as_py()], value.type), Field(what, type_), 1)
    if bad is not None and bad.any():
        raise TypeError_(
            f"{value.as_py()!r} does not fit {what}, which is a {type_}",
            code="PS-DATA-013",
            remedy=f"give a {type_}",
        )
    return array[0]


def rows_of(columns: list[list[Any]], schema: Schema, strings: StringTable) -> I64:
    """Columns of Arrow scalars as a physical matrix."""
    arrays = [
        pa.array([s.as_py() for s in scalars], arrow_type(f.type))
        for f, scalars in zip(schema, columns, strict=True)
    ]
    return to_rows(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow()), schema, strings)


def literal_rows(literals: tuple[Literal, ...], strings: StringTable) -> I64:
    """One row of literals (a query's lifted constants) as a physical matrix (1 + k, 1)."""
    rows = np.zeros((1 + len(literals), 1), np.int64)
    for j, literal in enumerate(literals):
        if literal.value is None:
            rows[0] |= 1 << j
        elif literal.type.is_float:
            value = np.array([literal.value], np.float64)
            if literal.type.kind is Kind.FLOAT:
                with np.errstate(over="ignore"):
                    value = value.astype(np.float32).astype(np.float64)
            canonical(value, rows[1 + j].view(np.float64))
        elif isinstance(literal.value, str):
            rows[1 + j] = strings.code(literal.value)
        else:
            rows[1 + j] = int(literal.value)
    return rows


def parse_type(text: str) -> SqlType:
    """The SQL type written as `text`, such as DECIMAL(10, 2)."""
    statement = parse_statement(f"CREATE TABLE t (c {text})")
    assert isinstance(statement, CreateTable)
    return statement.schema[0].type


def params_schema(types: list[tuple[str, SqlType]]) -> Schema:
    """The columns of a parameter relation."""
    return Schema(tuple(Field(name, type_) for name, type_ in types))


def event_time(ts: Any, stream: StreamDef) -> int:
    """The time of a heartbeat, in the stream's units."""
    try:
        number = _event_number(ts, stream)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        number = None
    if number is None or abs(number) > FARTHEST:
        raise PenstockError(
            f"{ts!r} is not an event time of {stream.name}",
            code="PS-DATA-005",
            remedy="pass an integer for BIGINT time, and a datetime, text or µs for TIMESTAMP time",
        )
    return number


def shown_time(time: int, unit_time: bool) -> str:
    """An event time as text; a time outside the calendar stays a number of µs."""
    if unit_time:
        return str(time)
    try:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time)).isoformat(" ")
    except OverflowError:
        return f"{time} µs"


def _event_number(ts: Any, stream: StreamDef) -> int | None:
    """The number that a time stands for; None if it stands for none."""
    if isinstance(ts, bool):
        return None
    if isinstance(ts, int | np.integer):
        return int(ts)
    if stream.unit_time:
        return int(ts) if isinstance(ts, str) or int(ts) == ts else None
    return int(pa.scalar(ts).cast(pa.timestamp("us")).cast(pa.int64()).as_py())
