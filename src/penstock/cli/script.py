"""Scripts: split SQL text into statements, and map places back to the script.

Splitting considers only quotes and comments; the parser reads the statements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError, Place
from penstock.sql.parser import parse_statement
from penstock.sql.statements import Statement

_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*(?:'|\Z)        # string
  | "(?:[^"]|"")*(?:"|\Z)        # quoted name
  | `[^`]*(?:`|\Z)               # quoted name
  | --[^\n]*                     # comment to the end of the line
  | /\*.*?(?:\*/|\Z)             # comment
  | ;
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of one statement without its semicolon, and where it begins in the script."""

    text: str
    start: Place
    closed: bool = True

    def place(self, inside: Place) -> Place:
        """The place in the script of a place in this statement."""
        column = inside.column + (self.start.column - 1 if inside.line == 1 else 0)
        return Place(self.start.line + inside.line - 1, column)


@dataclass(frozen=True, slots=True)
class Script:
    """A SQL text with a name for messages."""

    name: str
    text: str

    def pieces(self) -> Iterator[Piece]:
        """The statements in order; the last may lack its semicolon (`closed` is False)."""
        begin = 0
        for token in _TOKEN.finditer(self.text):
            if token.group() == ";":
                yield from self._piece(begin, token.start(), closed=True)
                begin = token.end()
        yield from self._piece(begin, len(self.text), closed=False)

    def _piece(self, begin: int, end: int, closed: bool) -> Iterator[Piece]:
        text = self.text[begin:end]
        if not re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip():
            return
        begin += len(text) - len(text.lstrip())
        line = self.text.count("\n", 0, begin) + 1
        column = begin - self.text.rfind("\n", 0, begin)
        yield Piece(text.strip(), Place(line, column), closed)


class ScriptError(Exception):
    """An error with its place in the script."""

    def __init__(self, error: PenstockError, script: Script, piece: Piece) -> None:
        super().__init__(str(error))
        self.error = error
        self.script = script
        self.place = piece.place(error.place) if error.place else piece.start


@contextmanager
def located(script: Script, piece: Piece) -> Iterator[None]:
    """Translate errors raised inside to their place in the script."""
    try:
        yield
    except PenstockError as error:
        raise ScriptError(error, script, piece) from error


def parse(script: Script) -> list[tuple[Piece, Statement]]:
    """Parse all statements, so that an error at the end is found before anything runs."""
    parsed = []
    for piece in script.pieces():
        with located(script, piece):
            parsed.append((piece, parse_statement(piece.text)))
    return parsed


def read_script(path: str) -> Script:
    """The script in a file, or on standard input for `-`."""
    if path == "-":
        return Script("<stdin>", sys.stdin.read())
    try:
        return Script(path, Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PenstockError(
            f"cannot read {path}: {reason}",
            code="PS-CLI-001",
            remedy="give the path of a SQL script, or - for standard input",
        ) from error
