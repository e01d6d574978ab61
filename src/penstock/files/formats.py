"""Readers of Parquet, CSV and JSON lines, shared by all runners.

Single values never fail a file: a value that does not fit its column's type stays text, and a
record that is not a row goes into `_malformed`. Undeclared columns are ignored, missing columns
are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from penstock.errors import DataError
from penstock.files.parquet import FilePart, folder_value, names_in, unreadable
from penstock.files.text import csv_header, csv_tables, json_tables, record_chunks
from penstock.schema import Schema
from penstock.shards.intake import Given, Part
from penstock.sql.source_options import CODE

FORMATS = ("parquet", "csv", "json")
LISTING = frozenset({
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst", "filenameonly",
    "cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup", "maxcachedfiles",
    "discardcachedinputratio",
})  # fmt: skip
"""Options that select files and their batches."""
_AS_IT_IS: Mapping[str, tuple[str, ...]] = {
    "mergeschema": ("true", "false"),
    "columnpruning": ("true", "false"),
    "enforceschema": ("true", "false"),
    "mode": ("permissive",),
    "multiline": ("false",),
    "encoding": ("utf-8", "utf8"),
    "charset": ("utf-8", "utf8"),
    "quote": ('"',),
    "comment": ("",),
    "nullvalue": ("",),
    "linesep": ("\n", "\\n"),
}
"""Options with values that request the default behaviour."""
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How the files of a source are read."""

    kind: str
    header: bool = True
    delimiter: str = ","

    @property
    def divisible(self) -> bool:
        """Whether several tasks can share a file; CSV records may contain line breaks."""
        return self.kind != "csv"

    def parts(self, path: str, number: int, count: int, schema: Schema) -> Iterator[Part]:
        """The rows of part `number` of `count` of a file."""
        if self.kind == "parquet":
            yield FilePart(path, number, count, schema)
            return
        try:
            with Lines(path, number, count) as lines:
                for at, table in enumerate(self.tables(lines.read, schema)):
                    yield Given((path, (number << 32) + at), _of_folder(table, path, schema))
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, self.kind.upper(), error) from None

    def tables(self, read: Callable[[int], bytes], schema: Schema) -> Iterator[pa.Table]:
        """The rows of text."""
        if self.kind == "json":
            yield from json_tables(record_chunks(read, quoted=False), schema)
            return
        chunks = record_chunks(read, quoted=True)
        names: tuple[str, ...] = schema.names
        if self.header:
            names, rest = csv_header(next(chunks, b""), self.delimiter)
            named = names_in(schema, list(names))
            ours = {theirs: name for name, theirs in named.items()}
            names = tuple(ours.get(name, f"{name} ({n})") for n, name in enumerate(names))
            chunks = _prepend(rest, chunks)
        yield from csv_tables(chunks, names, self.delimiter, schema)


def file_format(kind: str, options: Mapping[str, str]) -> FileFormat | str:
    """The format for options (names in lower case), or the first option that needs Spark."""
    for name, value in options.items():
        if name in LISTING or (kind == "csv" and name in ("header", "sep", "delimiter")):
            continue
        if value.lower() not in _AS_IT_IS.get(name, ()):
            return name
    delimiter = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        return "sep" if "sep" in options else "delimiter"
    return FileFormat(kind, options.get("header", "true").lower() == "true", delimiter)


def check_delimiter(options: Mapping[str, str], what: str) -> None:
    """Refuse an invalid separator."""
    for name in ("sep", "delimiter"):
        if options.get(name, ",") in ("", '"', "\r", "\n", "\\n"):
            raise DataError(
                f"{what}: {name} {options[name]!r} is not one character", code=CODE,
                remedy=r"give one character, such as ',' or '\t'",
            )  # fmt: skip


class Lines:
    """Whole lines of a file: those that begin in part `number` of `count` of its bytes."""

    def __init__(self, path: str, number: int, count: int) -> None:
        self._file = open_bytes(path)
        self._left: int | None = None
        if count == 1:
            return
        if path.endswith(_COMPRESSED):  # it cannot be read from the middle
            self._left = None if number == 0 else 0
            return
        size = self._file.size()  # type: ignore[attr-defined]
        begin, end = (self._line_at(size * n // count, size) for n in (number, number + 1))
        self._file.seek(begin)
        self._left = end - begin

    def _line_at(self, place: int, size: int) -> int:
        """The start of the first line at or after a place."""
        if place == 0 or place >= size:
            return min(place, size)
        self._file.seek(place - 1)
        while block := self._file.read(1 << 16):
            if (found := block.find(b"\n")) >= 0:
                return place + found
            place += len(block)
        return size

    def read(self, count: int) -> bytes:
        """The next bytes; empty at the end of the part."""
        if self._left is None:
            return self._file.read(count)
        data = self._file.read(min(count, self._left))
        self._left -= len(data)
        return data

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def open_bytes(path: str) -> IO[bytes]:
    """A file, decompressed according to its name."""
    stream: IO[bytes] = pa.input_stream(path, compression="detect")
    return stream


def _prepend(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _of_folder(table: pa.Table, path: str, schema: Schema) -> pa.Table:
    """Fill the columns that a folder `name=value` names."""
    for name in schema.names if "=" in path else ():
        value = folder_value(path, name)
        if value is not None:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.repeat(value, table.num_rows))
    return table
