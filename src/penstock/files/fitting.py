"""Check the columns of files against a stream's declaration before any row is read.

Single values that do not fit are quarantined later. A stream is refused here if no value of a
column can ever fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.admission import convert
from penstock.errors import DataError
from penstock.files.formats import FileFormat
from penstock.files.listing import Listing
from penstock.files.parquet import names_in
from penstock.schema import Field, Schema
from penstock.sql.catalog import StreamDef

_TRIED: dict[Callable[[pa.DataType], bool], list[Any]] = {
    pa.types.is_boolean: [True],
    pa.types.is_integer: [1],
    pa.types.is_floating: [1.0],
    pa.types.is_decimal: [Decimal(0)],
    pa.types.is_temporal: [0],
    pa.types.is_binary: [b"1"],
}


def check_files(stream: StreamDef, form: FileFormat, options: Mapping[str, str]) -> None:
    """Refuse a stream if its columns can never fit those of the existing files."""
    if form.kind != "parquet":
        return  # text: admission checks every value
    listing = Listing.of(options["path"].removeprefix("file:"), {}, stream.name)
    for file in listing.files()[:1]:
        try:
            found = pq.read_schema(file.path)
        except (OSError, pa.ArrowException):
            return  # the reader reports it later
        check_columns(file.path, found, stream.schema, stream.name)


def check_columns(path: str, found: pa.Schema, schema: Schema, stream: str) -> None:
    """Refuse a column if its values can never have the declared type."""
    named = names_in(schema, found.names)
    for field in schema:
        theirs = found.field(named[field.name]) if field.name in named else None
        if theirs is not None and not can_hold(field, theirs.type):
            raise DataError(
                f"stream {stream} declares {field.name} {field.type}, but in {path} it is "
                f"{theirs.type}",
                code="PS-SRC-006",
                remedy=f"declare {field.name} with the type of its values",
            )


def can_hold(field: Field, type_: pa.DataType) -> bool:
    """Whether some value of a type can become one of a column."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    for of_kind, values in _TRIED.items():
        if of_kind(type_):
            tried = _array(values, type_)
            _, bad = convert(tried, field, len(tried))
            return bad is None or not bad.all()
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_null(type_)
    )


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_):
        width = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, width).cast(type_)
    return pa.array(values, type_) if pa.types.is_decimal(type_) else pa.array(values).cast(type_)
