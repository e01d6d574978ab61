r"""The backslash commands of the shell: pushing rows, moving time, watching views."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel

from penstock.cli.feed import parse_input
from penstock.cli.output import HIDDEN, counted, print_note, rich_table
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.session import Session

HELP = r"""Statements end with a semicolon:
  CREATE STREAM name (column TYPE, …) TIMESTAMP BY column [DELAY 5 SECONDS]
  CREATE TABLE, INSERT, UPDATE, DELETE, CREATE MATERIALIZED VIEW name AS SELECT …
  SELECT …                     a standing query without a name
  EXPLAIN SELECT …, SHOW STREAMS | TABLES | QUERIES, DESCRIBE name, DROP …
Commands:
  \push STREAM {"k": 1, …}     push a row, or a JSON list of rows
  \advance STREAM TIME         event time of the stream has reached TIME (* is all streams)
  \feed STREAM=FILE [ROWS/S]   push a file (.parquet .csv .jsonl) while watched views show live
  \view NAME                   the answer now
  \changes NAME                what changed since last asked
  \watch NAME                  show the view whenever it changes; again to stop
  \stats                       rows and bytes of state
  \help, \quit"""
ROWS_SHOWN = 15


class Commands:
    """Runs commands on one session and remembers what is watched."""

    def __init__(self, session: Session, console: Console) -> None:
        self.session = session
        self.console = console
        self.watched: list[str] = []
        self._commands: dict[str, Callable[[str], None]] = {
            "push": self._push,
            "advance": self._advance,
            "feed": self._feed,
            "view": self._view,
            "changes": self._changes,
            "watch": self._watch,
            "stats": self._stats,
            "help": lambda _: self.console.print(HELP, markup=False, highlight=False),
        }

    def run(self, line: str) -> bool:
        """Run one command; False when it was quit."""
        word, _, rest = line[1:].partition(" ")
        if word in ("quit", "q", "exit"):
            return False
        if word not in self._commands:
            raise PenstockError(
                f"unknown command \\{word}", code="PS-CLI-004", remedy="\\help lists them"
            )
        self._commands[word](rest.strip())
        return True

    def show_watched(self) -> None:
        """Show watched views that have changed."""
        for name in self.watched:
            changes = self.session[name].changes()
            if changes.num_rows:
                self.console.print(self._panel(name, changes))

    # ---- input -----------------------------------------------------------------------
    def _push(self, rest: str) -> None:
        stream, _, text = rest.partition(" ")
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise PenstockError(
                f"that is not JSON: {error}",
                code="PS-CLI-004",
                remedy='\\push STREAM {"column": value, …}',
            ) from error
        self.session.push(stream, rows if isinstance(rows, list) else [rows])
        self.session.flush()
        self.show_watched()

    def _advance(self, rest: str) -> None:
        stream, _, text = rest.partition(" ")
        when = text.strip().strip("'\"")
        if not when:
            raise PenstockError(
                "\\advance needs a stream and a time",
                code="PS-CLI-004",
                remedy="\\advance STREAM 2024-01-01 12:00:00, or \\advance * 100",
            )
        time_ = int(when) if when.lstrip("-").isdigit() else when
        self.session.advance(None if stream == "*" else stream, time_)
        self.session.flush()
        self.show_watched()

    def _feed(self, rest: str) -> None:
        text, _, rate = rest.partition(" ")
        per_second = _rate(rate)
        source = parse_input(text)
        rows = int(min(1_000, max(1, per_second / 4))) if per_second else 1_000
        pushed = 0
        with Live(console=self.console, refresh_per_second=8) as live:
            for table in source.tables(self.session, rows):
                self.session.push(source.stream, table)
                self.session.flush()
                pushed += table.num_rows
                live.update(self._board(f"{source.stream}: {pushed:,} rows"))
                if per_second:
                    time.sleep(table.num_rows / per_second)

    # ---- output ----------------------------------------------------------------------
    def _view(self, name: str) -> None:
        view = self.session[name].view()
        self.console.print(rich_table(view, name))
        print_note(self.console, view)

    def _changes(self, name: str) -> None:
        self.console.print(rich_table(self.session[name].changes(), name, hidden=HIDDEN))

    def _watch(self, name: str) -> None:
        if name in self.watched:
            self.watched.remove(name)
            self.console.print(f"no longer watching {name}")
            return
        self.session[name].changes()
        self.watched.append(name)
        self.console.print(self._panel(name, None))

    def _stats(self, _: str) -> None:
        stats = self.session.stats()
        for part in ("streams", "operators"):
            rows = stats[part].values() if isinstance(stats[part], dict) else stats[part]
            self.console.print(rich_table(pa.Table.from_pylist(list(rows)), part))
        self.console.print(f"{stats['queries']:,} queries, {stats['bytes']:,} bytes of state")

    def _board(self, title: str) -> RenderableType:
        panels = [self._panel(name, self.session[name].changes()) for name in self.watched]
        return Group(title, *panels)

    def _panel(self, name: str, changes: pa.Table | None) -> Panel:
        parts: list[RenderableType] = []
        if changes is not None and changes.num_rows:
            last = changes.slice(max(0, changes.num_rows - ROWS_SHOWN))
            parts.append(rich_table(last, "last changes", hidden=HIDDEN))
        try:
            view = self.session[name].view()
            parts.append(rich_table(view, counted(view), limit=ROWS_SHOWN))
        except PenstockError as error:
            parts.append(error.message)
        return Panel(Group(*parts), title=name, title_align="left", expand=False)


def _rate(text: str) -> float:
    """Rows per second; 0 is as fast as it goes."""
    try:
        return float(text or 0)
    except ValueError as error:
        raise PenstockError(
            f"{text!r} is not a number of rows per second",
            code="PS-CLI-004",
            remedy="\\feed STREAM=FILE 100",
        ) from error
