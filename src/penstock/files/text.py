"""CSV and JSON lines from bytes, leniently: every record becomes exactly one row.

Bytes are split into chunks of whole records. Arrow parses each chunk; only a chunk that Arrow
refuses is parsed record by record. Values that do not fit the declared type stay text; a record
that cannot be parsed goes into `_malformed`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from penstock.schema import Field, Schema
from penstock.types import Kind, arrow_type

MALFORMED = "_malformed"
"""Extra column: the text of a record that could not be parsed, else NULL."""

_READ_BYTES = 1 << 20
_MAX_RECORD_BYTES = 1 << 25
_JSON_AS_TEXT = {Kind.TIMESTAMP, Kind.DATE, Kind.DECIMAL}
_NONE = type(None)
_JSON_TYPES: dict[Kind, set[type]] = {
    Kind.BOOLEAN: {bool, _NONE},
    Kind.INT: {int, _NONE},
    Kind.BIGINT: {int, _NONE},
    Kind.FLOAT: {int, float, _NONE},
    Kind.DOUBLE: {int, float, _NONE},
}
"""Types that pyarrow parses exactly; for an INT it would truncate 1.5."""
_BOM = b"\xef\xbb\xbf"


def record_chunks(read: Callable[[int], bytes], quoted: bool) -> Iterator[bytes]:
    """Chunks of whole records; with `quoted`, a newline inside double quotes ends none."""
    held = b""
    first = True
    while block := read(_READ_BYTES):
        if first:
            block, first = block.removeprefix(_BOM), False
        held += block
        # a stray quote must not make one record of the rest of the file
        cut = _record_end(held, quoted and len(held) < _MAX_RECORD_BYTES)
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held.strip():
        yield held


def _record_end(data: bytes, quoted: bool) -> int:
    """One past the last newline that ends a record, or 0."""
    end = len(data)
    quotes = data.count(b'"') if quoted else 0
    while (newline := data.rfind(b"\n", 0, end)) >= 0:
        # doubled quotes keep the parity, so an even count before a newline is outside quotes
        quotes -= data.count(b'"', newline, end) if quoted else 0
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0


# ---- CSV -----------------------------------------------------------------------------
def csv_header(chunk: bytes, delimiter: str) -> tuple[tuple[str, ...], bytes]:
    """The names in the first record of `chunk`, and what follows it."""
    end = _first_record(chunk)
    text = chunk[:end].decode("utf-8", "replace")
    names = next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
    return tuple(name.strip() for name in names), chunk[end:]


def _first_record(chunk: bytes) -> int:
    end = chunk.find(b"\n") + 1
    while end and chunk.count(b'"', 0, end) % 2:
        end = chunk.find(b"\n", end) + 1
    return end or len(chunk)


def csv_tables(
    chunks: Iterable[bytes], names: tuple[str, ...], delimiter: str, schema: Schema
) -> Iterator[pa.Table]:
    """All columns as text; an empty field is NULL, a quoted empty one is the empty string."""
    for chunk in chunks:
        if chunk.strip():
            yield _csv_table(chunk, names, delimiter, schema)


def _csv_table(chunk: bytes, names: tuple[str, ...], delimiter: str, schema: Schema) -> pa.Table:
    malformed: list[str] = []

    def keep(row: pa_csv.InvalidRow) -> str:
        malformed.append(row.text)
        return "skip"

    data = chunk.decode("utf-8", "replace").encode()  # invalid UTF-8 must not end the run
    present = [name for name in schema.names if name in names]
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            column_names=list(names), block_size=len(data) + 1, use_threads=False
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=keep
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            include_columns=present,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    if len(present) < len(schema):
        table = _with_absent(table, schema)
    return _with_malformed(table, malformed)


def _with_absent(table: pa.Table, schema: Schema) -> pa.Table:
    """A column that the text does not have is NULL."""
    there = {name: table[name] for name in table.column_names}
    absent = pa.nulls(table.num_rows, pa.string())
    return pa.table({name: there.get(name, absent) for name in schema.names})


# ---- JSON lines ----------------------------------------------------------------------
def json_tables(chunks: Iterable[bytes], schema: Schema) -> Iterator[pa.Table]:
    """A column is typed when all of a chunk's values are; an absent key is NULL."""
    for chunk in chunks:
        table = _json_fast(chunk, schema)
        yield _json_slow(chunk, schema) if table is None else table


def _json_fast(chunk: bytes, schema: Schema) -> pa.Table | None:
    options = pa_json.ParseOptions(
        explicit_schema=pa.schema([(f.name, _json_type(f)) for f in schema]),
        unexpected_field_behavior="ignore",
    )
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(chunk) + 1)
    if _text(chunk) is None:
        return None
    try:
        table = pa_json.read_json(pa.BufferReader(chunk), reading, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    lines = sum(1 for line in chunk.split(b"\n") if line.strip())
    # the record-by-record parser handles several records on a line, or one over several lines
    return table.select(list(schema.names)) if table.num_rows == lines else None


def _text(data: bytes) -> str | None:
    """None if the bytes are not UTF-8: decoding would change values."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _json_type(field: Field) -> pa.DataType:
    return pa.string() if field.type.kind in _JSON_AS_TEXT else arrow_type(field.type)


def _json_slow(chunk: bytes, schema: Schema) -> pa.Table:
    rows: list[dict[str, object]] = []
    malformed: list[str] = []
    for line in chunk.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(_text(line) or "")
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            malformed.append(line.decode("utf-8", "replace"))
    columns = {f.name: _json_column([r.get(f.name) for r in rows], f) for f in schema}
    return _with_malformed(pa.table(columns), malformed)


def _json_column(values: list[object], field: Field) -> pa.Array:
    if {type(value) for value in values} <= _JSON_TYPES.get(field.type.kind, set()):
        try:
            return pa.array(values, _json_type(field))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return pa.array([_as_text(value) for value in values], pa.string())


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _with_malformed(table: pa.Table, texts: list[str]) -> pa.Table:
    """Append a row of NULLs for every malformed text."""
    if not texts:
        return table
    good = table.append_column(MALFORMED, pa.nulls(table.num_rows, pa.string()))
    bad: dict[str, pa.Array] = {
        field.name: pa.nulls(len(texts), field.type) for field in table.schema
    }
    bad[MALFORMED] = pa.array(texts, pa.string())
    return pa.concat_tables([good, pa.table(bad)])
