"""File sources: Parquet, CSV and JSON lines as a stream of Arrow tables.

A source does not check values (`files/formats.py`): admission quarantines rows that do not fit,
with a reason. Files of a glob are read in order of their names; `-` is standard input, delivered
as it arrives.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DataError
from penstock.files.formats import (
    FORMATS,
    LISTING,
    FileFormat,
    check_delimiter,
    file_format,
)
from penstock.files.listing import Listing
from penstock.files.text import MALFORMED
from penstock.schema import Schema
from penstock.sql.source_options import CODE, SOURCES, check_options, unknown

__all__ = ["FORMATS", "MALFORMED", "FileSource", "check_source", "format_of", "open_source",
           "total_rows"]  # fmt: skip

STDIN = "-"
_EXTENSIONS = {
    "parquet": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
_COUNT_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class FileSource:
    """FROM format OPTIONS (…), checked: where files are, and how they are read."""

    format: FileFormat
    listing: Listing

    @property
    def is_stdin(self) -> bool:
        """Whether rows come from standard input."""
        return self.listing.path == STDIN

    def read(self, path: str, schema: Schema) -> Iterator[pa.Table]:
        """The rows of a file."""
        if path == STDIN:
            # read1 returns what has arrived, so a live pipe is not held back to fill a block
            yield from self.format.tables(_read_arrived, schema)
            return
        for part in self.format.parts(path, 0, 1, schema):
            yield part.read(None)


def open_source(
    format: str, options: Mapping[str, str], schema: Schema, batch_rows: int
) -> Iterator[pa.Table]:
    """Tables of at most `batch_rows` rows with the columns of `schema`.

    Options and paths are checked immediately, before the first table is read.
    """
    if batch_rows < 1:
        raise DataError(
            "a batch needs at least one row", code="PS-SRC-003", remedy="give a size of 1 or more"
        )
    source = check_source(format, options)
    return _tables(source, _paths(source), schema, batch_rows)


def total_rows(format: str, options: Mapping[str, str]) -> int | None:
    """The approximate number of rows, or None if only reading can tell.

    Text is counted in lines, so blank lines and line breaks inside quotes count too.
    """
    source = check_source(format, options)
    paths = _paths(source)
    if source.format.kind == "parquet":
        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    if any(path == STDIN or path.endswith((".gz", ".bz2", ".zst")) for path in paths):
        return None
    header = source.format.kind == "csv" and source.format.header
    return sum(max(0, _count_lines(path) - header) for path in paths)


def format_of(path: str) -> str:
    """The format of a file by its name (`in.csv.gz` is csv); standard input is JSON lines."""
    if path == STDIN:
        return "json"
    for part in reversed(os.path.basename(path).lower().split(".")[1:]):
        if part in _EXTENSIONS:
            return _EXTENSIONS[part]
    raise DataError(
        f"the name {path!r} does not show the file's format",
        code="PS-SRC-001",
        remedy=f"use a name that ends in {', '.join('.' + e for e in _EXTENSIONS)}, or write the "
        f"format before the path: csv:{path}",
    )


# ---- options -------------------------------------------------------------------------
def check_source(format: str, options: Mapping[str, str], what: str = "the source") -> FileSource:
    """A checked in-process source; raises an error with a remedy."""
    kind = format.lower()
    if kind not in FORMATS:
        on_spark = kind in SOURCES
        raise DataError(
            f"{what}: there is no source format {format!r}" + (" in process" if on_spark else ""),
            code="PS-SRC-001",
            remedy=f"use one of {', '.join(FORMATS)}" + ("; or run on Spark" if on_spark else ""),
        )
    check_options(kind, options, what)
    given = {key.lower(): value for key, value in options.items()}
    check_delimiter(given, what)
    made = file_format(kind, given)
    if isinstance(made, str):
        raise _only_on_spark(made, given[made], kind, what)
    return FileSource(made, Listing.of(_path(kind, given.get("path", ""), what), given, what))


def _only_on_spark(name: str, value: str, kind: str, what: str) -> DataError:
    if name not in {option.lower() for option in SOURCES[kind]}:
        return unknown(kind, name, SOURCES[kind], what)
    ours = sorted({*LISTING, *(("header", "sep") if kind == "csv" else ())})
    return DataError(
        f"{what}: option {name} {value!r} needs Spark's reader",
        code=CODE,
        remedy=f"run on Spark, or remove the option; in process {kind} has {', '.join(ours)}",
    )


def _path(kind: str, path: str, what: str) -> str:
    if not path:
        raise DataError(
            f"{what}: format {kind} needs a path",
            code=CODE,
            remedy=f"add OPTIONS (path 'dir/*.{kind}')",
        )
    if path == STDIN and kind == "parquet":
        raise DataError(
            f"{what}: Parquet cannot be read from standard input",
            code=CODE,
            remedy="name a file, or pipe csv or json",
        )
    return path


def _paths(source: FileSource) -> tuple[str, ...]:
    """All files, in the order of their names."""
    if source.is_stdin:
        return (STDIN,)
    found = tuple(sorted(file.path for file in source.listing.files()))
    if not found:
        raise DataError(
            f"no file matches {source.listing.path!r}",
            code="PS-SRC-004",
            remedy="check the path; a glob such as 'in/*.csv' is relative to the working directory",
        )
    return found


# ---- reading -------------------------------------------------------------------------
def _tables(
    source: FileSource, paths: Iterable[str], schema: Schema, batch_rows: int
) -> Iterator[pa.Table]:
    for path in paths:
        cut = _split if source.is_stdin else _fill
        yield from cut(source.read(path, schema), batch_rows)


def _read_arrived(size: int) -> bytes:
    buffer = sys.stdin.buffer
    return buffer.read1(size) if isinstance(buffer, io.BufferedReader) else buffer.read(size)


# ---- batch sizes ---------------------------------------------------------------------
def _split(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Split tables that are too long; never wait for more rows."""
    for table in tables:
        for start in range(0, table.num_rows, batch_rows):
            yield table.slice(start, batch_rows)


def _fill(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Batches of exactly `batch_rows` rows, except the last."""
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
    """The number of lines, with or without a final newline."""
    lines, last = 0, b"\n"
    with open(path, "rb") as file:
        while chunk := file.read(_COUNT_BYTES):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")
