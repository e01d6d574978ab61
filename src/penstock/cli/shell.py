"""`penstock sql`: a shell for trying statements and watching views change.

Statements may span lines and end with a semicolon; commands are a line each. With standard
input piped in, it runs the same lines without prompts and stops at the first error.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pyarrow as pa
from rich.console import Console

import penstock
from penstock.cli.commands import QUIT, WORDS, Commands, as_command
from penstock.cli.line_editor import Completer, LineEditor
from penstock.cli.output import print_note, rich_table
from penstock.cli.report import print_error
from penstock.cli.runner import open_session, runner_options, strategy_option
from penstock.cli.script import Piece, Script, ScriptError, located
from penstock.errors import PenstockError
from penstock.session import Query
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateView, Select, Show, Statement

if TYPE_CHECKING:
    from penstock.session import Session

PROMPT, MORE = "penstock> ", "     ...> "


@click.command()
@click.option(
    "--checkpoint", metavar="DIR", help="Save streams, tables, queries and state in this directory."
)
@runner_options("inprocess")
@strategy_option
def sql(
    checkpoint: str | None, runner: str, master: str | None, shards: int | None, strategy: str
) -> None:
    """Type statements, push rows and watch views change.

    Statements end with a semicolon; help lists the commands. Input can be piped in. Runs in
    this process unless --runner spark is given: answers come at once, not a batch later.

    \b
    Example:
      penstock> CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts;
      penstock> CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k;
      penstock> watch v
      penstock> push s {"k": 1, "ts": 5}
      penstock> advance s 15
    """  # noqa: D301
    console = Console()
    opened = open_session(runner, master, shards, checkpoint, quiet=False, strategy=strategy)
    with opened as session:
        # Spark would cancel all jobs at Ctrl-C; here it discards a line
        signal.signal(signal.SIGINT, signal.default_int_handler)
        shell = Shell(session, console, runner == "spark")
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
        """Add a line; return the command or the statements that it completes."""
        command = as_command(line)
        if command is not None and (not self.held or command.lower() in QUIT):
            return [command]
        script = Script("<input>", self.held + line.rstrip("\n") + "\n")
        pieces = list(script.pieces())
        rest = [piece for piece in pieces if not piece.closed]
        self.held = rest[0].text + "\n" if rest else ""
        return [(script, piece) for piece in pieces if piece.closed]

    def end(self) -> list[Action]:
        """The incomplete text at the end of the input."""
        script = Script("<input>", self.held)
        self.held = ""
        return [(script, piece) for piece in script.pieces()]

    @property
    def is_whole(self) -> bool:
        """Whether only the semicolon of a statement is missing."""
        try:
            parse_statement(self.held)
        except PenstockError:
            return False
        return True


class Shell:
    """Runs commands and statements and shows what they return."""

    def __init__(self, session: Session, console: Console, on_spark: bool = False) -> None:
        self.session = session
        self.console = console
        self.commands = Commands(session, console, on_spark)
        self._hinted = False  # that a semicolon is missing

    def run_lines(self, lines: Iterable[str]) -> None:
        """Run lines until they end or `quit`; the first error stops."""
        gatherer = Gatherer()
        for line in lines:
            if not all(self.do(action) for action in gatherer.add(line)):
                return
        for action in gatherer.end():
            self.do(action)

    def run_typed(self) -> None:
        """Prompt for lines; show errors and continue."""
        words = self.session.outline().typed_words
        editor = LineEditor(Completer(words, sorted(WORDS)))
        self.console.print(f"penstock {penstock.__version__}; type help for help, quit to leave")
        gatherer = Gatherer()
        try:
            while self._take(editor, gatherer):
                pass
        finally:
            editor.save()

    def _take(self, editor: LineEditor, gatherer: Gatherer) -> bool:
        """Read one line and run what it completes; False at the end."""
        try:
            line = editor.read(MORE if gatherer.held else PROMPT)
            if not all(self.do(action) for action in gatherer.add(line)):
                return False
            self._hint(gatherer, line)
        except EOFError:
            left = "; the last statement had no semicolon and was not run" if gatherer.held else ""
            self.console.print(left, highlight=False)
            return False
        except KeyboardInterrupt:
            gatherer.held = ""
            self.console.print()
        except (PenstockError, ScriptError) as error:
            print_error(self.console, error)
        return True

    def _hint(self, gatherer: Gatherer, line: str) -> None:
        """Explain what is missing: at an empty line, and once if only the semicolon is missing."""
        if gatherer.held and (not line.strip() or (not self._hinted and gatherer.is_whole)):
            self._hinted = True
            self.console.print(
                "the statement runs when it ends with ;  (Ctrl-C drops it)", style="dim"
            )

    def do(self, action: Action) -> bool:
        """Run one command or statement; False for `quit`."""
        if isinstance(action, str):
            return self.commands.run(action)
        script, piece = action
        with located(script, piece):
            self._statement(piece)
        self.commands.show_watched()
        return True

    def _asks(self, statement: Statement) -> bool:
        """Whether a statement reads rows that have arrived; a new query sees later ones."""
        if isinstance(statement, Show):
            return statement.of != "" and len(self.session.sql("SHOW QUERIES")) > 0
        if not isinstance(statement, Select):
            return False
        read = {name.lower() for name in statement.body.reads.names}
        return not read & {stream.name.lower() for stream in self.session.outline().streams()}

    def _statement(self, piece: Piece) -> None:
        statement = parse_statement(piece.text)
        if self._asks(statement):
            self.commands.read_sources()
        result = self.session.sql(piece.text)
        if isinstance(result, Query):
            kind = "view" if isinstance(statement, CreateView) else "query"
            name = result.name
            self.console.print(f"{kind} [bold]{name}[/] is registered; watch {name} shows it")
        elif isinstance(result, str):
            self.console.print(result, markup=False, highlight=False, soft_wrap=True)
        elif isinstance(result, pa.Table):
            self.console.print(rich_table(result))
            print_note(self.console, result)
        else:
            self.console.print("ok", style="dim")
