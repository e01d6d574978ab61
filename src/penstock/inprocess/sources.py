"""File sources: Parquet, CSV and JSON lines as a stream of Arrow tables.

A source never judges values: what does not fit its column's type is handed on as text, and
a record that cannot be taken apart is a row of NULLs with its text in `_malformed`, so that
admission quarantines it with a reason and nothing is lost. Files of a glob are read in the
order of their names; `-` is standard input, handed on as it arrives.
"""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DataError
from penstock.inprocess.text import (
    MALFORMED,
    csv_header,
    csv_tables,
    json_tables,
    record_chunks,
    refuse_unknown,
)
from penstock.schema import Schema

__all__ = ["FORMATS", "MALFORMED", "format_of", "open_source", "total_rows"]

STDIN = "-"
FORMATS = ("parquet", "csv", "json")
_OPTIONS = {"parquet": {"path"}, "csv": {"path", "header", "delimiter"}, "json": {"path"}}
_EXTENSIONS = {
    "parquet": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
_COUNT_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class _Settings:
    """Options of one source, checked."""

    format: str
    paths: tuple[str, ...]
    header: bool
    delimiter: str


def open_source(
    format: str, options: Mapping[str, str], schema: Schema, batch_rows: int
) -> Iterator[pa.Table]:
    """Tables of at most `batch_rows` rows with the columns of `schema`.

    Options and paths are checked at once, before the first table is asked for.
    """
    if batch_rows < 1:
        raise DataError("a batch needs at least one row", code="PS-SRC-003")
    settings = _check(format, options)
    return _tables(settings, schema, batch_rows)


def total_rows(format: str, options: Mapping[str, str]) -> int | None:
    """About how many rows the source will yield, or None where only reading it would tell.

    Text is counted in lines, so blank lines and line breaks inside quotes count too.
    """
    settings = _check(format, options)
    if settings.format == "parquet":
        return sum(int(pq.read_metadata(path).num_rows) for path in settings.paths)
    if any(path == STDIN or path.endswith((".gz", ".bz2", ".zst")) for path in settings.paths):
        return None
    header = settings.format == "csv" and settings.header
    return sum(max(0, _count_lines(path) - header) for path in settings.paths)


def format_of(path: str) -> str:
    """The format a file's name tells (`in.csv.gz` is csv); standard input is JSON lines."""
    if path == STDIN:
        return "json"
    for part in reversed(os.path.basename(path).lower().split(".")[1:]):
        if part in _EXTENSIONS:
            return _EXTENSIONS[part]
    raise DataError(
        f"cannot tell the format of {path!r} from its name",
        code="PS-SRC-001",
        remedy=f"use a name ending in {', '.join('.' + e for e in _EXTENSIONS)}",
    )


# ---- options -------------------------------------------------------------------------
def _check(format: str, options: Mapping[str, str]) -> _Settings:
    name = format.lower()
    if name not in FORMATS:
        raise DataError(
            f"unknown source format {format!r}",
            code="PS-SRC-001",
            remedy=f"one of {', '.join(FORMATS)}",
        )
    given = {key.lower(): value for key, value in options.items()}
    if unknown := sorted(set(given) - _OPTIONS[name]):
        raise DataError(
            f"unknown option {unknown[0]!r} for format {name}",
            code="PS-SRC-002",
            remedy=f"options of {name}: {', '.join(sorted(_OPTIONS[name]))}",
        )
    delimiter = given.get("delimiter", ",").replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DataError(
            f"delimiter {delimiter!r} is not one character",
            code="PS-SRC-002",
            remedy=r"give one character, such as ',' or '\t'",
        )
    header = _boolean("header", given.get("header", "true"))
    return _Settings(name, _expand(name, given.get("path", "")), header, delimiter)


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise DataError(
            f"option {option} is {text!r}", code="PS-SRC-002", remedy="say 'true' or 'false'"
        )
    return text.lower() == "true"


def _expand(format: str, path: str) -> tuple[str, ...]:
    if not path:
        raise DataError(
            f"format {format} needs a path",
            code="PS-SRC-002",
            remedy="add OPTIONS (path 'dir/*." + format + "')",
        )
    if path == STDIN:
        if format == "parquet":
            raise DataError(
                "Parquet cannot be read from standard input",
                code="PS-SRC-002",
                remedy="name a file, or pipe csv or json",
            )
        return (STDIN,)
    pattern = os.path.join(path, "*." + format) if os.path.isdir(path) else path
    found = sorted(p for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))
    if not found:
        raise DataError(
            f"no file matches {path!r}",
            code="PS-SRC-004",
            remedy="check the path; a glob such as 'in/*.csv' is relative to the working directory",
        )
    return tuple(found)


# ---- reading -------------------------------------------------------------------------
def _tables(settings: _Settings, schema: Schema, batch_rows: int) -> Iterator[pa.Table]:
    for path in settings.paths:
        if settings.format == "parquet":
            yield from _read_parquet(path, schema, batch_rows)
        else:
            yield from _read_text(settings, path, schema, batch_rows)


def _read_parquet(path: str, schema: Schema, batch_rows: int) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as file:
            _require(path, schema, file.schema_arrow.names)
            for batch in file.iter_batches(batch_rows, columns=list(schema.names)):
                yield pa.Table.from_batches([batch]).select(list(schema.names))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{path} is not a readable Parquet file: {error}", code="PS-SRC-005"
        ) from error


def _read_text(
    settings: _Settings, path: str, schema: Schema, batch_rows: int
) -> Iterator[pa.Table]:
    if path == STDIN:
        # read1 returns what has arrived, so a live pipe is not held back to fill a block
        yield from _split(_parse(settings, path, _read_arrived, schema), batch_rows)
        return
    with _open(path) as file:
        yield from _fill(_parse(settings, path, file.read, schema), batch_rows)


def _read_arrived(size: int) -> bytes:
    buffer = sys.stdin.buffer
    return buffer.read1(size) if isinstance(buffer, io.BufferedReader) else buffer.read(size)


def _open(path: str) -> IO[bytes]:
    stream: IO[bytes] = pa.input_stream(path, compression="detect")
    return stream


def _parse(
    settings: _Settings, path: str, read: Callable[[int], bytes], schema: Schema
) -> Iterator[pa.Table]:
    if settings.format == "json":
        yield from json_tables(record_chunks(read, quoted=False), schema)
        return
    chunks = record_chunks(read, quoted=True)
    names: tuple[str, ...] = schema.names
    if settings.header:
        first = next(chunks, b"")
        names, rest = csv_header(first, settings.delimiter)
        if first:
            _require(path, schema, names)
        chunks = _prepend(rest, chunks)
    yield from csv_tables(chunks, names, settings.delimiter, schema)


def _prepend(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _require(path: str, schema: Schema, present: Iterable[str]) -> None:
    names = list(present)
    if missing := [name for name in schema.names if name not in names]:
        raise DataError(
            f"{path} has no column {missing[0]!r}",
            code="PS-SRC-005",
            remedy=f"its columns are {', '.join(names)}",
        )
    refuse_unknown(schema, names)


# ---- batch sizes ---------------------------------------------------------------------
def _split(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Cut what is too long; never wait for more."""
    for table in tables:
        for start in range(0, table.num_rows, batch_rows):
            yield table.slice(start, batch_rows)


def _fill(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Batches of exactly `batch_rows` rows, but for the last."""
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows < batch_rows:
            continue
        joined = _join(held)
        whole = rows - rows % batch_rows
        yield from _split([joined.slice(0, whole)], batch_rows)
        held, rows = [joined.slice(whole)], rows - whole
    if rows:
        yield _join(held)


def _join(tables: list[pa.Table]) -> pa.Table:
    """One table; a column that is text in one part becomes text in all."""
    if len(tables) == 1:
        return tables[0]
    text = {
        field.name for table in tables for field in table.schema if pa.types.is_string(field.type)
    }
    parts = [
        pa.table(
            {
                name: table[name].cast(pa.string()) if name in text else table[name]
                for name in table.column_names
            }
        )
        for table in tables
    ]
    return pa.concat_tables(parts, promote_options="default")


def _count_lines(path: str) -> int:
    """Newlines, plus a last line without one."""
    lines, last = 0, b"\n"
    with open(path, "rb") as file:
        while chunk := file.read(_COUNT_BYTES):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")
