"""File and console sinks for the changes of a query.

A file sink is a directory with one file per batch, written to a temporary name and renamed, so a
reader never sees half a batch, and a batch delivered twice appears once. File names contain the
writer (session and sink), so that writers in one directory never collide.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from penstock.errors import DataError
from penstock.shards.changes import in_texts

__all__ = ["FORMATS", "PipedConsole", "Sink", "file_name", "json_lines", "open_sink"]

FORMATS = ("parquet", "json", "csv", "console")
_BATCH_FILE = re.compile(r"part-\d{12}(-[0-9a-f]+-\d+)?\.(parquet|json|csv)")
_AWAY = re.compile(r"[/\\%\0]|^\.")
"""Characters that would make a name a path, and their replacement."""
_SIGNS = {"insert": "+", "delete": "-", "update_preimage": "<", "update_postimage": ">"}


class Sink(Protocol):
    """Takes the changes of one query, batch by batch."""

    def write(self, changes: pa.Table, batch: int) -> None:
        """Deliver the changes of `batch`; the same batch again replaces them."""

    def close(self) -> None:
        """Deliver nothing more."""


def open_sink(format: str, options: Mapping[str, str], name: str, writer: str = "") -> Sink:
    """A sink called `name`; options are `path` and `mode` for files, `rows` for the console.

    Files of one `writer` (a sink of a session) replace each other, batch by batch, and no others.
    Mode `append` (the default) adds to the directory; `overwrite` first removes the batch
    files in it; `error` refuses a directory that already has some.
    """
    kind = format.lower()
    given = {key.lower(): value for key, value in options.items()}
    if kind not in FORMATS:
        raise DataError(
            f"unknown sink format {format!r}",
            code="PS-SINK-001",
            remedy=f"use one of {', '.join(FORMATS)}",
        )
    allowed = {"rows"} if kind == "console" else {"path", "mode"}
    if unknown := sorted(set(given) - allowed):
        raise DataError(
            f"unknown option {unknown[0]!r} for sink {name}",
            code="PS-SINK-002",
            remedy=f"the options of {kind} are {', '.join(sorted(allowed))}",
        )
    if kind == "console":
        return _console(name, given.get("rows", "20"))
    return _directory(kind, given, name, writer)


def file_name(name: str) -> str:
    """A user's name as a file name, which cannot leave its directory."""
    return _AWAY.sub(lambda found: f"%{ord(found[0]):02X}", name)


# ---- directories ---------------------------------------------------------------------
def _directory(kind: str, options: Mapping[str, str], name: str, writer: str) -> Sink:
    path, mode = options.get("path", ""), options.get("mode", "append").lower()
    if not path:
        raise DataError(
            f"sink {name} needs a path",
            code="PS-SINK-002",
            remedy="add OPTIONS (path 'out')",
        )
    if mode not in ("append", "overwrite", "error"):
        raise DataError(
            f"sink {name} has no mode {mode!r}",
            code="PS-SINK-002",
            remedy="use append, overwrite or error",
        )
    try:
        os.makedirs(path, exist_ok=True)
        old = [f for f in os.listdir(path) if _BATCH_FILE.fullmatch(f)]
        if old and mode == "error":
            raise DataError(
                f"{path} already holds {len(old)} batches",
                code="PS-SINK-006",
                remedy="choose an empty directory, or mode 'append' or 'overwrite'",
            )
        if mode == "overwrite":
            for file in old:
                os.remove(os.path.join(path, file))
    except OSError as error:
        raise DataError(
            f"sink {name} cannot use {path}: {error.strerror}",
            code="PS-SINK-003",
            remedy="name a directory that can be written",
        ) from error
    tag = f"-{hashlib.sha256(writer.encode()).hexdigest()[:8]}-0" if writer else ""
    return _DirectorySink(path, f"{tag}.{kind}", _WRITERS[kind])


@dataclass(frozen=True, slots=True)
class _DirectorySink:
    path: str
    ending: str  # of names: the writer and the format
    save: Callable[[pa.Table, str], None]

    def write(self, changes: pa.Table, batch: int) -> None:
        if not changes.num_rows:
            return
        final = os.path.join(self.path, f"part-{batch:012d}{self.ending}")
        staged = os.path.join(self.path, f".part-{batch:012d}{self.ending}.{os.getpid()}")
        try:
            os.makedirs(self.path, exist_ok=True)
            self.save(_with_names(changes), staged)
            os.replace(staged, final)
        except OSError as error:
            with suppress(OSError):
                os.remove(staged)
            raise DataError(
                f"cannot write {final}: {error}",
                code="PS-SINK-003",
                remedy="free disk space, or make the directory writable; the changes wait and are "
                "written with the next batch, flush() or close()",
            ) from error

    def close(self) -> None:
        """Do nothing: every batch is already written."""


def _with_names(changes: pa.Table) -> pa.Table:
    """The changes with the names of queries as texts, as every runner writes them."""
    columns = [in_texts(column) for column in changes.columns]
    return pa.Table.from_arrays(columns, names=changes.column_names)


def _save_json(table: pa.Table, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(json_lines(table))


_WRITERS: dict[str, Callable[[pa.Table, str], None]] = {
    "parquet": lambda table, path: pq.write_table(table, path, compression="zstd"),
    "csv": lambda table, path: pa_csv.write_csv(table, path),
    "json": _save_json,
}


def json_lines(table: pa.Table) -> str:
    """One JSON object per row and line; times as ISO 8601, NaN and ±Inf as strings."""
    plain = pa.table([_plain(column) for column in table.columns], names=table.column_names)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain.to_pylist())


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with values that JSON can hold."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        texts = [
            None if v is None else v.isoformat(timespec="microseconds") for v in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        values = column.to_pylist()
        if any(v is not None and not math.isfinite(v) for v in values):
            return pa.chunked_array([pa.array([None if v is None else str(v) for v in values])])
    return column


# ---- console -------------------------------------------------------------------------
class PipedConsole(Console):
    """A console that raises if its reader is gone; rich would end the writing thread."""

    def on_broken_pipe(self) -> None:
        """Called where the error is handled."""
        raise


def _console(name: str, rows: str) -> Sink:
    if not rows.isdigit() or not int(rows):
        raise DataError(
            f"option rows of sink {name} is {rows!r}, which is not a positive whole number",
            code="PS-SINK-002",
            remedy="write the number of rows to print, such as rows '20'",
        )
    return _ConsoleSink(name, int(rows))


@dataclass(frozen=True, slots=True)
class _ConsoleSink:
    name: str
    rows: int
    console: Console = field(default_factory=PipedConsole)

    def write(self, changes: pa.Table, batch: int) -> None:
        try:
            if changes.num_rows:
                self._print(changes, batch)
        except OSError as error:
            raise DataError(
                f"sink {self.name} cannot print: {error.strerror}",
                code="PS-SINK-003",
                remedy="keep standard output open, or use another format",
            ) from error

    def _print(self, changes: pa.Table, batch: int) -> None:
        self.console.print(f"[bold]{self.name}, batch {batch}[/]", highlight=False)
        table = Table()
        for column in changes.column_names:
            table.add_column("" if column == "_change_type" else column)
        for row in changes.slice(0, self.rows).to_pylist():
            row["_change_type"] = _SIGNS.get(str(row.get("_change_type")), "")
            table.add_row(*(str(row[column]) for column in changes.column_names))
        self.console.print(table)
        if changes.num_rows > self.rows:
            self.console.print(f"and {changes.num_rows - self.rows} more changes")

    def close(self) -> None:
        """Do nothing: no resource is open."""
