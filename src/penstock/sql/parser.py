"""From text to statements. DDL and DML are read here by hand; SELECT bodies by `dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from penstock.delta import Emission
from penstock.errors import Place, SqlSyntaxError
from penstock.logical.on_error import OnError
from penstock.roomy import roomy
from penstock.sql import alter, ddl, dml_syntax
from penstock.sql.body import Body
from penstock.sql.cursor import Cursor, Text
from penstock.sql.dialect import tokenize
from penstock.sql.statements import (
    CreateView,
    Describe,
    Explain,
    Select,
    Show,
    Statement,
)
from penstock.sql.view_options import view_options

SHOWN = ("STREAMS", "TABLES", "QUERIES", "SINKS")
KEPT_OUT = ("LATE", "QUARANTINE")
"""SHOW statements about one stream."""
STATEMENTS = (
    "CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "SHOW", "DESCRIBE",
    "EXPLAIN",
)  # fmt: skip
"""The first words of statements."""
_HELP = f"a statement starts with {', '.join(STATEMENTS[:-1])} or {STATEMENTS[-1]}"

_CONTINUED = {
    "ALTER": "STREAM",
    "CREATE": "STREAM, TABLE, MATERIALIZED VIEW or SINK",
    "INSERT": "INTO",
    "DELETE": "FROM",
}
"""The words that may follow the first word of a statement."""

_EMITS = ("EMIT CHANGES", "EMIT ON COMMIT")
_ON_ERROR: dict[str, OnError] = {
    "ON ERROR NULL": "null", "ON ERROR SKIP ROW": "skip", "ON ERROR FAIL": "fail",
}  # fmt: skip
_TRAILERS = ("WITH HISTORY", *_EMITS, *(f"{emit} PER ROW" for emit in _EMITS), *_ON_ERROR)
"""The clauses that may follow a SELECT."""
_LAST_WORDS = tuple(words.split()[-1] for words in _TRAILERS)


IsKnown = Callable[[Select], bool]
"""Whether a SELECT is known to parse, so that it need not be parsed now."""


def _no(_select: Select) -> bool:
    return False


@roomy
def parse_script(sql: str, is_known: IsKnown = _no) -> list[Statement]:
    """All statements of a text, separated by semicolons."""
    found = []
    for group, text in _groups(sql):
        statement = _statement(Cursor(group, text))
        select = _select_of(statement)
        if select is not None and not is_known(select):
            _ = select.body.query  # an error in it is found before anything runs
        found.append(statement)
    return found


def _groups(sql: str) -> Iterator[tuple[list[Token], Text]]:
    """The tokens of each statement."""
    text = Text(sql)
    group: list[Token] = []
    for token in tokenize(text):
        if token.token_type is not TokenType.SEMICOLON:
            group.append(token)
        elif group:
            yield group, text
            group = []
    if group:
        yield group, text


def _select_of(statement: Statement) -> Select | None:
    """The SELECT in a statement."""
    match statement:
        case Select():
            return statement
        case CreateView(select=select) | Explain(target=Select() as select):
            return select
    return None


def parse_statement(sql: str, is_known: IsKnown = _no) -> Statement:
    """The one statement of a text."""
    statements = parse_script(sql, is_known)
    if len(statements) != 1:
        place = statements[1].place if statements else Place(1, 1)
        raise SqlSyntaxError(
            f"expected one statement, found {len(statements)}",
            place=place,
            remedy="write exactly one statement, or run the text as a script",
        )
    return statements[0]


def _statement(cursor: Cursor) -> Statement:
    if cursor.sees("SELECT") or cursor.sees("WITH") or cursor.sees("("):
        return _select(cursor)
    for words, read in _READERS:
        if cursor.accept(words):
            statement = read(cursor)
            cursor.end()
            return statement
    for word, expected in _CONTINUED.items():
        if cursor.accept(word):
            cursor.fail(expected, f"write {word} {expected}")
    cursor.fail("a statement", _HELP)


def _if_not_exists(read: Callable[[Cursor, bool], Statement]) -> Callable[[Cursor], Statement]:
    return lambda cursor: read(cursor, cursor.accept("IF NOT EXISTS"))


def _view(cursor: Cursor, if_not_exists: bool) -> CreateView:
    place, source = ddl.origin(cursor)
    name = cursor.name("the view's name")
    strategy = view_options(cursor)
    cursor.expect("AS", "write CREATE MATERIALIZED VIEW name [WITH (strategy = '…')] AS SELECT …")
    select = replace(_select(cursor), strategy=strategy)
    return CreateView(
        name=name, select=select, if_not_exists=if_not_exists, place=place, source=source
    )


def _plain_view(cursor: Cursor) -> Statement:
    cursor.at -= 1
    cursor.fail(
        "MATERIALIZED VIEW", "write CREATE MATERIALIZED VIEW: every view is kept up to date"
    )


def _select(cursor: Cursor) -> Select:
    """SELECT … with the clauses that may follow it, in any order."""
    place = cursor.place()
    tokens = cursor.rest()
    clauses, kept = _trailers(Cursor(tokens, cursor.text), len(tokens))
    source = ddl.slice_of(tokens, cursor.text)
    emit = clauses.get("EMIT", "")
    return Select(
        body=Body(tokens[:kept], cursor.text, place),
        history="WITH" in clauses,
        emission=Emission("ON COMMIT" in emit, "PER ROW" in emit),
        on_error=_ON_ERROR.get(clauses.get("ON", "")),
        place=place,
        source=source,
    )


def _trailers(cursor: Cursor, end: int) -> tuple[dict[str, str], int]:
    """Strip the clauses that may follow a SELECT: by first word, and how many tokens are left."""
    found: dict[str, str] = {}
    while end and cursor.tokens[end - 1].text.upper().endswith(_LAST_WORDS):
        for words in _TRAILERS:
            cursor.at = start = end - len(words.split())
            if start <= 0 or not cursor.accept(words) or cursor.at != end:
                continue
            cursor.at = start
            if words.split()[0] in found:
                cursor.fail(
                    "the end of the statement", "write WITH HISTORY, EMIT … and ON ERROR … once"
                )
            found[words.split()[0]] = words
            end = start
            break
        else:
            break
    return found, end


def _show(cursor: Cursor) -> Show:
    place, source = ddl.origin(cursor)
    for what in SHOWN:
        if cursor.accept(what):
            return Show(what=what, place=place, source=source)
    for what in KEPT_OUT:
        if cursor.accept(what):
            return Show(what=what, of=cursor.name("a stream"), place=place, source=source)
    cursor.fail("STREAMS, TABLES, QUERIES, SINKS, LATE stream or QUARANTINE stream")


def _describe(cursor: Cursor) -> Describe:
    place, source = ddl.origin(cursor)
    return Describe(name=cursor.name(), place=place, source=source)


def _explain(cursor: Cursor) -> Explain:
    place, source = ddl.origin(cursor)
    target: Select | str
    if cursor.sees("SELECT") or cursor.sees("WITH") or cursor.sees("("):
        target = _select(cursor)
    else:
        target = cursor.name("a SELECT or the name of a view")
    return Explain(target=target, place=place, source=source)


_READERS: tuple[tuple[str, Callable[[Cursor], Statement]], ...] = (
    ("CREATE STREAM", _if_not_exists(ddl.create_stream)),
    ("CREATE TABLE", _if_not_exists(ddl.create_table)),
    ("CREATE SINK", _if_not_exists(ddl.create_sink)),
    ("CREATE MATERIALIZED VIEW", _if_not_exists(_view)),
    ("CREATE VIEW", _plain_view),
    ("ALTER STREAM", alter.alter_stream),
    ("DROP", ddl.drop),
    ("INSERT INTO", dml_syntax.insert),
    ("UPDATE", dml_syntax.update),
    ("DELETE FROM", dml_syntax.delete),
    ("SHOW", _show),
    ("DESCRIBE", _describe),
    ("DESC", _describe),
    ("EXPLAIN", _explain),
)
