"""The output of a run: changes as they happen or views at the end, as tables, JSON or Parquet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.errors import PenstockError
from penstock.files.sinks import PipedConsole, Sink, file_name, json_lines, open_sink
from penstock.session.history import NOTE

STYLES = {
    "insert": ("+", "green"),
    "delete": ("-", "red"),
    "update_preimage": ("<", "yellow"),
    "update_postimage": (">", "yellow"),
}
HIDDEN = ("_query", "_batch", "_seq")
MAX_ROWS = 40


def rich_table(
    rows: pa.Table, title: str = "", limit: int = MAX_ROWS, hidden: Iterable[str] = ()
) -> Group:
    """Rows for people: at most `limit`, the kind of a change as its sign."""
    shown = [name for name in rows.column_names if name not in set(hidden)]
    table = Table(box=box.SIMPLE_HEAD)
    for name in shown:
        number = pa.types.is_integer(rows[name].type) or pa.types.is_floating(rows[name].type)
        heading = "" if name == "_change_type" else name
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows.slice(0, limit).to_pylist():
        sign, style = STYLES.get(str(row.get("_change_type")), ("", ""))
        cells = [sign if n == "_change_type" else _cell(row[n]) for n in shown]
        table.add_row(*cells, style=style)
    parts: list[RenderableType] = [Text(title, style="bold"), table] if title else [table]
    if rows.num_rows > limit:
        parts.append(Text(f"  and {rows.num_rows - limit:,} more rows\n", style="dim"))
    return Group(*parts)


def counted(rows: pa.Table) -> str:
    """How many rows, in words."""
    return plural(rows.num_rows, "row")


def plural(count: int, one: str, many: str = "") -> str:
    """A number and what it counts."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).replace("[", "\\[")


class Writer(Protocol):
    """Writes the output of a run."""

    def changes(self, query: str, rows: pa.Table, batch: int) -> None:
        """Changes of one query in one batch."""

    def view(self, query: str, rows: pa.Table) -> None:
        """The answer of one query at the end."""

    def close(self) -> None:
        """Finish: no more output follows."""


def open_writer(format: str, out: str | None, append: bool = False) -> Writer:
    """A writer to standard output, or to `out` (a file; a directory for Parquet).

    With `append`, it continues after the output of a former run.
    """
    if format == "parquet":
        if out is None:
            raise PenstockError(
                "Parquet output needs a directory",
                code="PS-CLI-006",
                remedy="add --out DIR",
            )
        return ParquetWriter(out, append)
    file = open_text(out, append, "--out") if out else sys.stdout
    return JsonWriter(file) if format == "json" else TableWriter(file)


def open_text(path: str, append: bool, option: str) -> IO[str]:
    """A file to write, which an option names."""
    try:
        return open(path, "a" if append else "w", encoding="utf-8")
    except OSError as error:
        raise PenstockError(
            f"cannot write {path}: {error.strerror}",
            code="PS-CLI-002",
            remedy=f"choose another {option}",
        ) from error


def _close(file: IO[str]) -> None:
    file.flush()
    if file is not sys.stdout:
        file.close()


@dataclass(slots=True)
class TableWriter:
    """Tables for reading."""

    file: IO[str]
    console: Console = field(init=False)

    def __post_init__(self) -> None:
        self.console = PipedConsole(file=self.file)

    def changes(self, query: str, rows: pa.Table, batch: int) -> None:
        """A table per query and batch."""
        self.console.print(rich_table(rows, f"{query}, batch {batch}", hidden=HIDDEN))

    def view(self, query: str, rows: pa.Table) -> None:
        """A table per query."""
        self.console.print(rich_table(rows, f"{query}: {counted(rows)}"))

    def close(self) -> None:
        """Close the file, not standard output."""
        _close(self.file)


@dataclass(slots=True)
class JsonWriter:
    """JSON lines; every line names its query."""

    file: IO[str]

    def changes(self, query: str, rows: pa.Table, batch: int) -> None:
        """One line per change."""
        self.file.write(json_lines(rows))
        self.file.flush()

    def view(self, query: str, rows: pa.Table) -> None:
        """One line per row of the answer."""
        named = rows.add_column(0, "_query", pa.array([query] * rows.num_rows, pa.string()))
        self.file.write(json_lines(named))

    def close(self) -> None:
        """Close the file, not standard output."""
        _close(self.file)


@dataclass(slots=True)
class ParquetWriter:
    """`out/<query>/part-*.parquet` for changes, `out/<query>.parquet` for views."""

    out: str
    append: bool = False
    sinks: dict[str, Sink] = field(default_factory=dict)

    def changes(self, query: str, rows: pa.Table, batch: int) -> None:
        """One file per query and batch."""
        if query not in self.sinks:
            mode = "append" if self.append else "overwrite"
            options = {"path": os.path.join(self.out, file_name(query)), "mode": mode}
            self.sinks[query] = open_sink("parquet", options, query)
        self.sinks[query].write(rows, batch)

    def view(self, query: str, rows: pa.Table) -> None:
        """One file per query."""
        try:
            os.makedirs(self.out, exist_ok=True)
            pq.write_table(rows, os.path.join(self.out, f"{file_name(query)}.parquet"))
        except OSError as error:
            raise PenstockError(
                f"cannot write into {self.out}: {error.strerror}",
                code="PS-CLI-002",
                remedy="choose another --out",
            ) from error

    def close(self) -> None:
        """Close the sinks."""
        for sink in self.sinks.values():
            sink.close()


def print_note(console: Console, answer: pa.Table) -> None:
    """Print the note of an answer, if its schema has one."""
    said = (answer.schema.metadata or {}).get(NOTE)
    if said:
        console.print(said.decode(), style="dim", markup=False, highlight=False)
