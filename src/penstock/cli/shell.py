"""`penstock sql`: a shell for trying statements and watching views change.

Statements may span lines and end with a semicolon; commands start with a backslash. With
standard input piped in, it runs the same lines without prompts and stops at the first error.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pyarrow as pa
from rich.console import Console

import penstock
from penstock.cli.commands import Commands
from penstock.cli.output import print_note, rich_table
from penstock.cli.report import print_error
from penstock.cli.runner import open_session, runner_options
from penstock.cli.script import Piece, Script, ScriptError, located
from penstock.errors import PenstockError
from penstock.session.once import is_once
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateView, Select

if TYPE_CHECKING:
    from penstock.session import Session

PROMPT, MORE = "penstock> ", "     ...> "


@click.command()
@click.option("--checkpoint", metavar="DIR", help="Keep streams, tables, queries and state here.")
@runner_options("inprocess")
def sql(checkpoint: str | None, runner: str, master: str | None, shards: int | None) -> None:
    """Type statements, push rows and watch views change.

    Statements end with a semicolon; \\help lists the commands. Input can be piped in. Runs in
    this process unless --runner spark is given: answers come at once, not a batch later.

    \b
    Example:
      penstock> CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts;
      penstock> CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k;
      penstock> \\watch v
      penstock> \\push s {"k": 1, "ts": 5}
      penstock> \\advance s 15
    """  # noqa: D301
    console = Console()
    with open_session(runner, master, shards, checkpoint, quiet=False) as session:
        shell = Shell(session, console)
        if sys.stdin.isatty():
            shell.run_typed()
        else:
            shell.run_lines(sys.stdin)


Action = str | tuple[Script, Piece]


@dataclass(slots=True)
class Gatherer:
    """Lines in, whole commands and statements out."""

    held: str = ""

    def add(self, line: str) -> list[Action]:
        """What is complete with this line: a command, or statements whose semicolon has come."""
        if not self.held and line.lstrip().startswith("\\"):
            return [line.strip()]
        script = Script("<input>", self.held + line.rstrip("\n") + "\n")
        pieces = list(script.pieces())
        rest = [piece for piece in pieces if not piece.closed]
        self.held = rest[0].text + "\n" if rest else ""
        return [(script, piece) for piece in pieces if piece.closed]

    def end(self) -> list[Action]:
        """What is left when no more lines come."""
        script = Script("<input>", self.held)
        self.held = ""
        return [(script, piece) for piece in script.pieces()]


class Shell:
    """Runs commands and statements and shows what they return."""

    def __init__(self, session: Session, console: Console) -> None:
        self.session = session
        self.console = console
        self.commands = Commands(session, console)

    def run_lines(self, lines: Iterable[str]) -> None:
        """Take lines until they end or quit; the first error ends it."""
        gatherer = Gatherer()
        for line in lines:
            if not all(self.do(action) for action in gatherer.add(line)):
                return
        for action in gatherer.end():
            self.do(action)

    def run_typed(self) -> None:
        """Prompt for lines; an error is shown and the next line asked for."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (gives input() history and editing)
        self.console.print(f"penstock {penstock.__version__}", r"\help for help, \quit to leave")
        gatherer = Gatherer()
        while True:
            try:
                line = input(MORE if gatherer.held else PROMPT)
                if not all(self.do(action) for action in gatherer.add(line)):
                    return
            except EOFError:
                return
            except KeyboardInterrupt:
                gatherer.held = ""
                self.console.print()
            except (PenstockError, ScriptError) as error:
                print_error(self.console, error)

    def do(self, action: Action) -> bool:
        """Run one command or statement; False when it was quit."""
        if isinstance(action, str):
            return self.commands.run(action)
        script, piece = action
        with located(script, piece):
            self._statement(piece)
        self.commands.show_watched()
        return True

    def _statement(self, piece: Piece) -> None:
        statement = parse_statement(piece.text)
        if isinstance(statement, Select) and not is_once(self.session, statement):
            name = self.session.query(piece.text).name
            self.console.print(f"query [bold]{name}[/] is standing; \\watch {name} shows it")
            return
        result = self.session.sql(piece.text)
        if isinstance(statement, CreateView):
            self.console.print(f"view [bold]{statement.name}[/] is standing")
        elif isinstance(result, str):
            self.console.print(result, markup=False, highlight=False, soft_wrap=True)
        elif isinstance(result, pa.Table):
            self.console.print(rich_table(result))
            print_note(self.console, result)
        else:
            self.console.print("ok", style="dim")
