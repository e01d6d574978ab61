r"""The commands of the shell besides SQL: push rows, advance time, watch views."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel

from penstock.cli.feed import Interrupt, parse_input
from penstock.cli.live import Sources, show_live
from penstock.cli.output import HIDDEN, counted, plural, print_note, rich_table
from penstock.errors import PenstockError
from penstock.sql.parser import STATEMENTS

if TYPE_CHECKING:
    from penstock.session import Session

HELP = r"""Statements end with a semicolon and may span lines:
  CREATE STREAM name (column TYPE, …) TIMESTAMP BY column [DELAY 5 SECONDS] [FROM …]
  CREATE TABLE, INSERT, UPDATE, DELETE, CREATE MATERIALIZED VIEW name AS SELECT …
  SELECT … FROM stream         a standing query without a name
  SELECT … FROM view           the answer now, also with ORDER BY and LIMIT
  SHOW STREAMS | TABLES | QUERIES | SINKS, DESCRIBE name, EXPLAIN SELECT …, DROP …
  SHOW LATE stream | QUARANTINE stream     rows that were kept out, and why
Each command is one line; a \ before it and a ; after it are optional:
  watch NAME …                 show views as they change: until Ctrl-C while streams with
                               FROM deliver rows, else after each line; unwatch NAME stops it
  view NAME                    the answer now
  changes NAME                 changes since the last call
  push STREAM {"k": 1, …}      push a row, or a JSON list of rows
  advance STREAM TIME          move the stream's event time to TIME (* for all streams)
  feed STREAM=FILE [ROWS/S]    push a file (.parquet .csv .jsonl) while watched views show live
  stats                        rows and bytes of state
  help, quit                   also \?, exit, \q, Ctrl-D
The first view, changes or watch starts to read FROM sources. Tab completes names and words;
Ctrl-C discards the line."""
ROWS_SHOWN = 15
QUIT = ("quit", "exit", "q")
WORDS = ("push", "advance", "feed", "view", "changes", "watch", "unwatch", "stats", "help", *QUIT)
"""Commands that need no backslash, because no statement starts with them."""
STARTS = tuple(word.lower() for word in STATEMENTS)


def as_command(line: str) -> str | None:
    """The command of a line, without backslash and semicolon, also if misspelt; None for SQL."""
    text = line.strip().rstrip(";").rstrip()
    if text[:1] in ("\\", ".", "?"):
        return text.lstrip("\\.").strip() or "help"
    word = text.partition(" ")[0].lower()
    close = get_close_matches(word, [*WORDS, *STARTS], n=1, cutoff=0.8)
    return text if close and close[0] in WORDS else None


class Commands:
    """Runs commands on one session and remembers what is watched."""

    def __init__(self, session: Session, console: Console, on_spark: bool = False) -> None:
        self.session = session
        self.console = console
        self.sources = Sources(session, on_spark)
        self.watched: list[str] = []
        self._recent: dict[str, pa.Table] = {}  # last changes of watched queries
        self._commands: dict[str, Callable[[str], None]] = {
            "push": self._push,
            "advance": self._advance,
            "feed": self._feed,
            "view": self._view,
            "changes": self._changes,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "stats": self._stats,
            "d": self._describe,
            **dict.fromkeys(
                ("help", "?", "h"),
                lambda _: self.console.print(HELP, markup=False, highlight=False, soft_wrap=True),
            ),
        }

    def run(self, line: str) -> bool:
        """Run one command; False for `quit`."""
        word, _, rest = line.partition(" ")
        if word.lower() in QUIT:
            return False
        if word.lower() not in self._commands:
            close = get_close_matches(word.lower(), WORDS, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise PenstockError(
                f"there is no command {word}",
                code="PS-CLI-004",
                remedy=f"{meant}help lists the commands",
            )
        self._commands[word.lower()](rest.strip())
        return True

    def show_watched(self) -> None:
        """Show watched views that have changed."""
        for name in self.watched:
            changes = self.session[name].changes()
            if changes.num_rows:
                self.console.print(self._panel(name, changes))

    def read_sources(self) -> None:
        """Read the new rows of streams with FROM."""
        with Interrupt().listening() as interrupt:
            self.sources.read(interrupt)

    # ---- input -----------------------------------------------------------------------
    def _push(self, rest: str) -> None:
        stream, _, text = rest.partition(" ")
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise PenstockError(
                f"the row is not valid JSON: {error}",
                code="PS-CLI-004",
                remedy='write push STREAM {"column": value, …}',
            ) from error
        before = self._kept_out(stream)
        self.session.push(stream, rows if isinstance(rows, list) else [rows])
        self._settle()
        for kind, count in self._kept_out(stream).items():
            if more := count - before[kind]:
                told = f"{plural(more, 'row')} kept out; SHOW {kind.upper()} {stream} shows why"
                self.console.print(told, style="yellow", markup=False, highlight=False)

    def _kept_out(self, stream: str) -> dict[str, int]:
        """How many rows of a stream were kept out, by what SHOW shows."""
        known = {name.lower(): row for name, row in self.session.stats()["streams"].items()}
        row = known.get(stream.lower(), {})
        return {"late": row.get("late", 0), "quarantine": row.get("quarantined", 0)}

    def _advance(self, rest: str) -> None:
        stream, _, text = rest.partition(" ")
        when = text.strip().strip("'\"")
        if not when:
            raise PenstockError(
                "advance needs a stream and a time",
                code="PS-CLI-004",
                remedy="write advance STREAM 2024-01-01 12:00:00, or advance * 100",
            )
        time_ = int(when) if when.lstrip("-").isdigit() else when
        self.session.advance(None if stream == "*" else stream, time_)
        self._settle()

    def _settle(self) -> None:
        """Process pushed rows, and show the watched views."""
        if self.sources.on_spark:
            self.session.flush()
        self.show_watched()

    def _feed(self, rest: str) -> None:
        text, _, rate = rest.partition(" ")
        per_second = _rate(rate)
        source = parse_input(text)
        rows = int(min(1_000, max(1, per_second / 4))) if per_second else 1_000
        pushed = 0
        with Interrupt().listening() as interrupt, Live(console=self.console) as live:
            for table in source.tables(self.session, rows):
                if interrupt.pressed:
                    break
                self.session.push(source.stream, table)
                self.session.flush()
                pushed += table.num_rows
                live.update(self._board(f"{source.stream}: {pushed:,} rows"))
                if per_second:
                    time.sleep(table.num_rows / per_second)

    # ---- output ----------------------------------------------------------------------
    def _view(self, name: str) -> None:
        query = self.session[_named("view", name)]
        self.read_sources()
        view = query.view()
        self.console.print(rich_table(view, name))
        print_note(self.console, view)

    def _changes(self, name: str) -> None:
        query = self.session[_named("changes", name)]
        self.read_sources()
        self.console.print(rich_table(query.changes(), name, hidden=HIDDEN))

    def _watch(self, rest: str) -> None:
        names = _named("watch", rest).replace(",", " ").split()
        for name in names:
            self.session[name].changes()
        self.watched += [name for name in names if name not in self.watched]
        if self.sources and self.console.is_terminal:
            show_live(self.sources, lambda: self._board("Ctrl-C ends this"), self.console)
            return
        self.read_sources()
        for name in names:
            self.console.print(self._panel(name, self.session[name].changes()))

    def _unwatch(self, rest: str) -> None:
        gone = rest.replace(",", " ").split() or list(self.watched)
        self.watched = [name for name in self.watched if name not in gone]

    def _describe(self, name: str) -> None:
        if name:
            self.console.print(rich_table(self.session.sql(f'DESCRIBE "{name}"'), name))
            return
        for what in ("STREAMS", "TABLES", "QUERIES", "SINKS"):
            found = self.session.sql(f"SHOW {what}")
            if found.num_rows:
                self.console.print(rich_table(found, what.lower()))

    def _stats(self, _: str) -> None:
        stats = self.session.stats()
        for part in ("streams", "operators"):
            rows = stats[part].values() if isinstance(stats[part], dict) else stats[part]
            self.console.print(rich_table(pa.Table.from_pylist(list(rows)), part))
        self.console.print(f"{stats['queries']:,} queries, {stats['bytes']:,} bytes of state")

    def _board(self, title: str) -> RenderableType:
        for name in self.watched:
            changes = self.session[name].changes()
            if changes.num_rows or name not in self._recent:
                self._recent[name] = changes
        return Group(title, *(self._panel(name, self._recent[name]) for name in self.watched))

    def _panel(self, name: str, changes: pa.Table) -> Panel:
        parts: list[RenderableType] = []
        if changes.num_rows:
            last = changes.slice(max(0, changes.num_rows - ROWS_SHOWN))
            parts.append(rich_table(last, "last changes", hidden=HIDDEN))
        try:
            view = self.session[name].view()
            parts.append(rich_table(view, counted(view), limit=ROWS_SHOWN))
        except PenstockError as error:
            parts.append(error.message)
        return Panel(Group(*parts), title=name, title_align="left", expand=False)


def _named(command: str, name: str) -> str:
    """The name that a command is given."""
    if not name:
        raise PenstockError(
            f"{command} needs the name of a view or query",
            code="PS-CLI-004",
            remedy=f"write {command} NAME; SHOW QUERIES lists the names",
        )
    return name


def _rate(text: str) -> float:
    """Rows per second; 0 is as fast as it goes."""
    try:
        return float(text or 0)
    except ValueError as error:
        raise PenstockError(
            f"{text!r} is not a number of rows per second",
            code="PS-CLI-004",
            remedy="write feed STREAM=FILE 100",
        ) from error
