"""The SELECT dialect: sqlglot's parser plus window brackets and ``$`` parameters.

Function calls are left unresolved (the binder has its own table of functions) and every node
records its place in the whole text, so that later errors can point at it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer as SqlglotTokenizer

from penstock.errors import PenstockError, Place, SqlSyntaxError
from penstock.sql.cursor import Cursor, Text, semicolon_remedy
from penstock.sql.windows import (
    STARTS,
    WINDOW_CALLS,
    WINDOW_REMEDY,
    WindowSpec,
    parse_window,
)

_KEPT = ("CAST", "TRY_CAST", "EXTRACT")
_CLAUSE_REMEDY = (
    "end the query with ON ERROR NULL, ON ERROR SKIP ROW or ON ERROR FAIL, and with EMIT CHANGES "
    "or EMIT ON COMMIT; write ORDER BY and LIMIT before these clauses"
)
_AFTER = ("order", "limit", "offset")
_BEGINNINGS = (TokenType.SELECT, TokenType.WITH)


_KEYWORDS = ("FROM", "WHERE", "GROUP", "HAVING", "JOIN", "UNION", "EXCEPT", "INTERSECT")
"""Keywords that sqlglot reads as names when they are misspelt."""


class Penstock(Dialect):
    """Names and numbers as in ANSI SQL; see the nested classes for what is added."""

    class Tokenizer(SqlglotTokenizer):
        """``$`` starts a parameter; no statement swallows the rest of the text."""

        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            **{k: v for k, v in SqlglotTokenizer.SINGLE_TOKENS.items() if k != "@"},
            "$": TokenType.PARAMETER,
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(SqlglotParser):
        """Attaches windows to relations and places to nodes (in `meta`)."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: SqlglotParser.FUNCTION_PARSERS[name] for name in _KEPT
        }
        STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {}
        text: Text

        def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
            """Remember where the node was built."""
            built = super().expression(instance, token, comments)
            at = token or self._prev
            if at:
                built.meta.setdefault("at", self.text.place(at.start))
            return built

        def parse_query(self) -> Any:
            """A statement that is a query; the first word usually decides this."""
            if self._curr and self._curr.token_type in _BEGINNINGS:
                return self._parse_query_modifiers(self._parse_select())
            return self._parse_statement()

        def _parse_primary(self) -> Any:
            start = self._curr.start if self._curr else 0
            node = super()._parse_primary()
            if node is not None and "at" not in node.meta:
                node.meta["at"] = self.text.place(start)
            return node

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
            start = self._curr.start if self._curr else 0
            node = super()._parse_function_call(*args, **kwargs)
            if node is not None:
                node.meta["at"] = self.text.place(start)
            return node

        def _parse_parameter(self) -> exp.Parameter:
            at = self.text.place(self._prev.start)
            node = super()._parse_parameter()
            node.meta["at"] = at
            return node

        def _window(self) -> WindowSpec | None:
            """The window that starts at the current token, if one does."""
            if self._curr is None or self._curr.token_type is not TokenType.L_BRACKET:
                return None
            if self._next.text.upper().split()[:1] not in STARTS:
                return None
            cursor = Cursor(self._tokens[self._index :], self.text)
            spec = parse_window(cursor)
            self._advance(cursor.at)
            if self._window() is not None:
                raise SqlSyntaxError(
                    "one relation has two windows",
                    code="PS-SQL-020",
                    place=spec.place,
                    remedy="keep one of them",
                )
            return spec

        def _note(self, node: Any, spec: WindowSpec | None) -> None:
            if spec is None or node is None:
                return
            node.meta["window"] = spec

        def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
            table = super()._parse_table_parts(*args, **kwargs)
            self._note(table, self._window())
            return table

        def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
            alias = super()._parse_table_alias(*args, **kwargs)
            if alias is not None:
                self._note(alias, self._window())
            return alias

        def _parse_subquery(self, this: Any, *args: Any, **kwargs: Any) -> Any:
            spec = self._window() if this is not None else None
            subquery = super()._parse_subquery(this, *args, **kwargs)
            self._note(subquery, spec)
            return subquery


_DIALECT = Penstock()


class _OfThread(threading.local):
    """One tokenizer per thread; it is reset for every text."""

    def __init__(self) -> None:
        self.tokenizer = Penstock.Tokenizer(dialect=_DIALECT)


_of_thread = _OfThread()


def tokenize(text: Text) -> list[Token]:
    """The tokens of a whole text."""
    try:
        return list(_of_thread.tokenizer.tokenize(text.sql))
    except TokenError as error:
        raise SqlSyntaxError(
            "a quoted string, a quoted name or a comment is not closed",
            place=_unclosed(text),
            remedy="close it",
        ) from error


def _unclosed(text: Text) -> Place:
    """The place of the quote or comment that is not closed."""
    sql, at = text.sql, 0
    closers = {"'": "'", '"': '"', "--": "\n", "/*": "*/"}
    while at < len(sql):
        opener = sql[at : at + 2] if sql[at : at + 2] in closers else sql[at]
        if opener in closers:
            end = sql.find(closers[opener], at + len(opener))
            if end < 0:
                return text.place(at)
            at = end + len(closers[opener])
        else:
            at += 1
    return text.place(max(0, len(sql) - 1))


def parse_query(tokens: list[Token], text: Text, place: Place) -> exp.Query:
    """A SELECT, set operation or WITH query."""
    node = _parse(tokens, text, place, Penstock.Parser.parse_query, "a SELECT")
    while isinstance(node, exp.Subquery) and not node.args.get("alias"):
        node = _without_parentheses(node, place)
    if not isinstance(node, exp.Select | exp.SetOperation):
        raise SqlSyntaxError("expected a SELECT", place=place, remedy="write a SELECT here")
    return node


def _without_parentheses(node: exp.Subquery, place: Place) -> Any:
    """A query in parentheses, with the clauses that follow them."""
    inner, after = node.this, {k: v for k, v in node.args.items() if k != "this" and v}
    cut = any(inner.args.get(clause) for clause in _AFTER)
    if "window" in node.meta or any(k not in _AFTER or cut for k in after):
        raise SqlSyntaxError(
            "these clauses cannot follow a query in parentheses",
            place=place,
            remedy="remove the parentheses, or write SELECT … FROM (…) AS name",
        )
    for clause, value in after.items():
        inner.set(clause, value)
    return inner


def parse_expression(tokens: list[Token], text: Text, place: Place) -> exp.Expr:
    """One scalar expression."""
    node: exp.Expr = _parse(
        tokens, text, place, Penstock.Parser._parse_disjunction, "an expression"
    )
    return node


def _parse(
    tokens: list[Token], text: Text, place: Place, method: Callable[..., Any], what: str
) -> Any:
    if not tokens:
        raise SqlSyntaxError(f"expected {what}", place=place, remedy=f"write {what} here")
    parser = Penstock.Parser(dialect=_DIALECT, error_level=ErrorLevel.IMMEDIATE)
    parser.text = text
    try:
        (node,) = parser._parse(method, tokens, text.sql)
    except PenstockError:
        raise
    except RecursionError as error:
        raise SqlSyntaxError(
            "the statement is nested too deeply",
            code="PS-SQL-028",
            place=place,
            remedy="split it into views",
        ) from error
    except Exception as error:  # sqlglot may raise anything on unexpected text
        raise _syntax_error(error, parser, place) from error
    if node is None:
        raise SqlSyntaxError(f"expected {what}", place=place, remedy=f"write {what} here")
    return node


def _syntax_error(error: Exception, parser: Penstock.Parser, place: Place) -> SqlSyntaxError:
    """The error of sqlglot as a SqlSyntaxError at the token where it stopped."""
    told = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    token = parser._curr or parser._prev
    at = parser.text.place(token.start) if token else place
    message = _in_words(str(told.get("description") or "cannot be parsed"))
    found = f" near '{token.text}'" if token and token.text else ""
    return SqlSyntaxError(
        message[0].lower() + message[1:] + found,
        place=at,
        remedy=_window_remedy(parser)
        or _clause_remedy(parser)
        or _keyword_remedy(parser)
        or semicolon_remedy(parser._curr)
        or "check the text just before this place: a missing comma, bracket or keyword",
    )


def _window_remedy(parser: Penstock.Parser) -> str:
    """The remedy if a window function of another dialect precedes the error."""
    read = parser._tokens[: parser._index + 1]
    calls = (a.text for a, b in pairwise(read) if b.token_type is TokenType.L_PAREN)
    return WINDOW_REMEDY if any(name.lower() in WINDOW_CALLS for name in calls) else ""


def _clause_remedy(parser: Penstock.Parser) -> str:
    """The remedy if EMIT or ON ERROR is misspelt, or something follows it."""
    near = [token.text.upper() for token in parser._tokens[parser._index - 1 : parser._index + 2]]
    on_error = any(a == "ON" and b.startswith("ERR") for a, b in pairwise(near))
    return _CLAUSE_REMEDY if on_error or "EMIT" in near else ""


def _keyword_remedy(parser: Penstock.Parser) -> str:
    """The remedy if the last word read as a name is nearly a keyword."""
    last = parser._prev
    if last is None or last.token_type is not TokenType.VAR or last.text.upper() in _KEYWORDS:
        return ""
    close = get_close_matches(last.text.upper(), _KEYWORDS, n=1, cutoff=0.75)
    return f"did you mean {close[0]} instead of {last.text}?" if close else ""


def _in_words(complaint: str) -> str:
    """The message of sqlglot without the names of its classes and tokens."""
    if complaint.startswith("Required keyword"):
        return "something is missing"
    if complaint.startswith("Expected DISTINCT or ALL"):
        return "expected DISTINCT or ALL"
    if complaint.startswith("Invalid expression"):
        return "unexpected text"
    return complaint.split(" but got ")[0].rstrip(".")


def place_of(node: exp.Expr | None) -> Place | None:
    """The place of the first token of `node`, if known."""
    found = [p for n in node.walk() if (p := n.meta.get("at"))] if node is not None else []
    return min(found, key=lambda p: (p.line, p.column)) if found else None
