"""A cursor over sqlglot tokens for the statements and clauses that are parsed by hand.

Words match without case and across multi-word tokens (``PARTITION BY`` is one token); quoted
identifiers never match a word. Every failure is a SqlSyntaxError at the offending token.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place, SqlSyntaxError
from penstock.sql.units import CALENDAR, UNITS, Duration, whole


def _check_unicode(sql: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        line = sql.count("\n", 0, error.start) + 1
        raise SqlSyntaxError(
            f"{sql[error.start]!r} is half of a surrogate pair, not a character",
            place=Place(line, error.start - sql.rfind("\n", 0, error.start)),
            remedy="remove it, or write both halves",
        ) from error


class Text:
    """A SQL text that computes the line and column of an offset."""

    def __init__(self, sql: str) -> None:
        if not isinstance(sql, str):
            raise SqlSyntaxError(
                f"expected SQL text, got a {type(sql).__name__}",
                remedy="pass the text of a statement",
            )
        if not sql.isascii():
            _check_unicode(sql)
        self.sql = sql
        self._starts = [0, *(i + 1 for i, c in enumerate(sql) if c == "\n")]
        self._places: dict[int, Place] = {}

    def place(self, offset: int) -> Place:
        """The 1-based line and column of `offset`: one object for every place of this text."""
        if offset not in self._places:
            line = bisect_right(self._starts, offset)
            self._places[offset] = Place(line, offset - self._starts[line - 1] + 1)
        return self._places[offset]


_BEGINNINGS = (
    "CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN",
    "ALTER",
)  # fmt: skip
"""First words of statements."""


def semicolon_remedy(token: Token | None) -> str:
    """The remedy for a word that begins a statement inside another one; empty if it does not."""
    words = _words(token) if token is not None else []
    if not words or words[0] not in _BEGINNINGS:
        return ""
    return f"put a ; before {words[0]} if it begins another statement"


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


def _words(token: Token) -> list[str]:
    return [] if token.token_type in _QUOTED else token.text.upper().split()


class Cursor:
    """Reads tokens one by one."""

    def __init__(self, tokens: list[Token], text: Text) -> None:
        self.tokens = tokens
        self.text = text
        self.at = 0

    @property
    def done(self) -> bool:
        """Whether all tokens are read."""
        return self.at >= len(self.tokens)

    def place(self) -> Place:
        """The place of the next token, or the end of the text."""
        if self.done:
            last = self.tokens[-1].end + 1 if self.tokens else len(self.text.sql)
            return self.text.place(last)
        return self.text.place(self.tokens[self.at].start)

    def fail(self, expected: str, remedy: str = "") -> NoReturn:
        """Refuse the next token."""
        got = "the end of the statement" if self.done else f"'{self.tokens[self.at].text}'"
        raise SqlSyntaxError(
            f"expected {expected}, found {got}",
            place=self.place(),
            remedy=self._misplaced() or remedy or f"write {expected} here",
        )

    def _misplaced(self) -> str:
        """The remedy if the next token begins another statement."""
        return "" if self.done or not self.at else semicolon_remedy(self.tokens[self.at])

    def _match(self, words: tuple[str, ...]) -> int | None:
        """The number of tokens of the words; None if they do not come next."""
        left, at = list(words), self.at
        while left:
            if at >= len(self.tokens):
                return None
            found = _words(self.tokens[at])
            if not found or found != left[: len(found)]:
                return None
            left, at = left[len(found) :], at + 1
        return at - self.at

    def sees(self, words: str) -> bool:
        """Whether the given words come next."""
        return self._match(tuple(words.split())) is not None

    def accept(self, words: str) -> bool:
        """Read the given words if they come next."""
        count = self._match(tuple(words.split()))
        self.at += count or 0
        return count is not None

    def expect(self, words: str, remedy: str = "") -> None:
        """Read the given words or fail."""
        if not self.accept(words):
            self.fail(words, remedy)

    def name(self, what: str = "a name") -> str:
        """Read an identifier; any unquoted word will do."""
        if not self.done:
            token = self.tokens[self.at]
            plain = token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()
            if token.token_type is TokenType.IDENTIFIER or (
                token.token_type is not TokenType.STRING and plain
            ):
                self.at += 1
                return token.text
        self.fail(what)

    def string(self, what: str = "a quoted string") -> str:
        """Read a string literal."""
        if self.done or self.tokens[self.at].token_type is not TokenType.STRING:
            self.fail(what, f"write {what} in single quotes")
        self.at += 1
        return self.tokens[self.at - 1].text

    def integer(self, what: str = "a whole number") -> int:
        """Read an unsigned integer."""
        if not self.done:
            token = self.tokens[self.at]
            number = whole(token.text) if token.token_type is TokenType.NUMBER else None
            if number is not None:
                self.at += 1
                return number
        self.fail(what)

    def span(self) -> Duration:
        """Read ``10 MINUTES`` or ``10``."""
        place = self.place()
        return self._span(self.integer("a length of time such as 10 SECONDS"), place, None)

    def length(self) -> Duration:
        """Read a span, or ``$name MINUTES`` or ``$name``."""
        place = self.place()
        return self._span(1, place, self.name()) if self.accept("$") else self.span()

    def _span(self, amount: int, place: Place, name: str | None) -> Duration:
        unit = self.tokens[self.at].text.upper() if not self.done else ""
        if unit in UNITS:
            self.at += 1
            return Duration(amount, unit, place, name)
        if unit in CALENDAR:
            self.fail(
                "a unit of fixed length", "months and years vary in length: use DAYS or WEEKS"
            )
        return Duration(amount, None, place, name)

    def wall_span(self, clause: str) -> int:
        """Read a length of wall-clock time, in µs: always with a unit."""
        span = self.span()
        if span.unit is None:
            self.fail("a unit such as SECONDS", f"{clause} is wall-clock time: add a unit")
        return span.resolve(unit_time=False, what=clause)

    def upto(self, *closers: str) -> list[Token]:
        """Read the tokens before the first of `closers` outside parentheses and brackets."""
        start, depth = self.at, 0
        while not self.done:
            text = self.tokens[self.at].text
            quoted = self.tokens[self.at].token_type in _QUOTED
            if depth == 0 and any(self.sees(c) for c in closers):
                break
            if not quoted:
                depth += (text in "([") - (text in ")]") if text else 0
            self.at += 1
        return self.tokens[start : self.at]

    def rest(self) -> list[Token]:
        """Read all remaining tokens."""
        start, self.at = self.at, len(self.tokens)
        return self.tokens[start:]

    def end(self) -> None:
        """Refuse remaining tokens."""
        if not self.done:
            self.fail("the end of the statement", "remove the rest, or put a ; before it")
