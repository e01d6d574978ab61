"""CREATE and DROP statements: clauses in any order, each at most once (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import NameError_, Place, SqlSyntaxError, TypeError_, UnsupportedError
from penstock.schema import Field, Schema
from penstock.sql.complain import CHANGELOG_NAMES, KEPT_OUT_NAMES, reserved
from penstock.sql.cursor import Cursor, Text
from penstock.sql.literals import type_named
from penstock.sql.statements import CreateSink, CreateStream, CreateTable, Drop, Options
from penstock.sql.units import UNITS, Duration
from penstock.types import Kind, SqlType

KINDS = ("STREAM", "TABLE", "MATERIALIZED VIEW", "VIEW", "SINK")
_CLAUSES = "TIMESTAMP BY, DELAY, MAX AHEAD, IDLE AFTER, TICK, RETAIN or FROM"


def slice_of(tokens: list[Token], text: Text) -> str:
    """The source of a run of tokens."""
    return text.sql[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def origin(cursor: Cursor) -> tuple[Place, str]:
    """Place and source of the statement the cursor is in."""
    return cursor.text.place(cursor.tokens[0].start), slice_of(cursor.tokens, cursor.text)


def create_stream(cursor: Cursor, if_not_exists: bool) -> CreateStream:
    """Read what follows CREATE STREAM [IF NOT EXISTS]."""
    place, source = origin(cursor)
    name = cursor.name("the stream's name")
    schema = columns(cursor, CHANGELOG_NAMES | KEPT_OUT_NAMES)
    clauses = _clauses(cursor)
    if "TIMESTAMP BY" not in clauses:
        cursor.fail("TIMESTAMP BY column", "say which column is the event time")
    time, unit_time = _time_column(schema, *clauses["TIMESTAMP BY"])

    def length(clause: str) -> int | None:
        span: Duration | None = clauses.get(clause)
        return span.resolve(unit_time, clause) if span is not None else None

    ahead = length("MAX AHEAD")
    format_, options = clauses.get("FROM", (None, ()))
    return CreateStream(
        name=name, schema=schema, time=time, delay=length("DELAY") or 0,
        max_ahead=UNITS["DAY"] if ahead is None and not unit_time else ahead,
        idle_after=clauses.get("IDLE AFTER"), tick=clauses.get("TICK"), retain=length("RETAIN"),
        format=format_, options=options, if_not_exists=if_not_exists, place=place, source=source,
    )  # fmt: skip


def _clauses(cursor: Cursor) -> dict[str, Any]:
    readers: dict[str, Callable[[], Any]] = {
        "TIMESTAMP BY": lambda: (cursor.place(), cursor.name("the time column")),
        "DELAY": cursor.span,
        "MAX AHEAD": cursor.span,
        "RETAIN": cursor.span,
        "IDLE AFTER": lambda: cursor.wall_span("IDLE AFTER"),
        "TICK": lambda: cursor.wall_span("TICK"),
        "FROM": lambda: (cursor.name("a source format"), options(cursor)),
    }
    found: dict[str, Any] = {}
    while not cursor.done:
        clause = next((c for c in readers if cursor.sees(c)), None)
        if clause is None:
            cursor.fail(_CLAUSES, f"the clauses of CREATE STREAM are {_CLAUSES}")
        if clause in found:
            cursor.fail("each clause once", f"remove the second {clause}")
        cursor.accept(clause)
        found[clause] = readers[clause]()
    return found


def _time_column(schema: Schema, place: Place, name: str) -> tuple[str, bool]:
    """The time column's name as declared, and whether it counts plain units."""
    for field in schema:
        if field.name.lower() != name.lower():
            continue
        if field.type.kind not in (Kind.TIMESTAMP, Kind.BIGINT):
            raise TypeError_(
                f"the time column {name} has type {field.type}", code="PS-TYPE-009", place=place,
                remedy="declare it as TIMESTAMP or BIGINT",
            )  # fmt: skip
        return field.name, field.type.kind is Kind.BIGINT
    raise NameError_(
        f"the stream has no column {name}", code="PS-NAME-002", place=place,
        remedy=f"choose one of {', '.join(schema.names)}",
    )  # fmt: skip


def create_table(cursor: Cursor, if_not_exists: bool) -> CreateTable:
    """Read what follows CREATE TABLE [IF NOT EXISTS]."""
    place, source = origin(cursor)
    name = cursor.name("the table's name")
    schema = columns(cursor)
    nonretroactive = cursor.accept("NONRETROACTIVE")
    return CreateTable(
        name=name, schema=schema, nonretroactive=nonretroactive, if_not_exists=if_not_exists,
        place=place, source=source,
    )  # fmt: skip


def create_sink(cursor: Cursor, if_not_exists: bool) -> CreateSink:
    """Read what follows CREATE SINK [IF NOT EXISTS]."""
    place, source = origin(cursor)
    name = cursor.name("the sink's name")
    cursor.expect("FROM", "write CREATE SINK name FROM view INTO format OPTIONS (…)")
    view = cursor.name("the view's name")
    cursor.expect("INTO", "write CREATE SINK name FROM view INTO format OPTIONS (…)")
    format_ = cursor.name("a sink format")
    return CreateSink(
        name=name, view=view, format=format_.lower(), options=options(cursor),
        if_not_exists=if_not_exists, place=place, source=source,
    )  # fmt: skip


def drop(cursor: Cursor) -> Drop:
    """Read what follows DROP."""
    place, source = origin(cursor)
    kind = next((k for k in KINDS if cursor.accept(k)), None)
    if kind is None:
        cursor.fail("STREAM, TABLE, MATERIALIZED VIEW or SINK")
    if_exists = cursor.accept("IF EXISTS")
    return Drop(
        kind=kind.split()[-1], name=cursor.name(), if_exists=if_exists, place=place, source=source
    )


def columns(cursor: Cursor, refused: frozenset[str] = CHANGELOG_NAMES) -> Schema:
    """Read ``(name TYPE, …)``."""
    cursor.expect("(", "list the columns: (name TYPE, …)")
    fields: list[Field] = []
    while True:
        place = cursor.place()
        name = cursor.name("a column name")
        if name.lower() in (f.name.lower() for f in fields):
            raise NameError_(
                f"column {name} is declared twice", code="PS-NAME-005", place=place,
                remedy="give every column its own name",
            )  # fmt: skip
        if name.lower() in refused:
            raise reserved(name, place)
        fields.append(Field(name, _type(cursor)))
        if cursor.sees("NOT NULL") or cursor.sees("PRIMARY KEY") or cursor.sees("DEFAULT"):
            raise UnsupportedError(
                "column constraints are not supported", code="PS-SQL-024", place=cursor.place(),
                remedy="leave the constraint out; filter in the query instead",
            )  # fmt: skip
        if not cursor.accept(","):
            break
    cursor.expect(")", "close the list of columns")
    return Schema(tuple(fields))


def _type(cursor: Cursor) -> SqlType:
    place = cursor.place()
    name = "DOUBLE" if cursor.accept("DOUBLE PRECISION") else cursor.name("a type")
    numbers: list[int] = []
    if cursor.accept("("):
        numbers.append(cursor.integer())
        if cursor.accept(","):
            numbers.append(cursor.integer())
        cursor.expect(")")
    return type_named(name, tuple(numbers), place)


def options(cursor: Cursor) -> Options:
    """Read ``OPTIONS (key 'value', dotted.key 'value')`` if it is there."""
    if not cursor.accept("OPTIONS"):
        return ()
    cursor.expect("(", "list the options: OPTIONS (key 'value', …)")
    found: dict[str, str] = {}
    while not cursor.sees(")"):
        place = cursor.place()
        key = _option_key(cursor)
        if key in found:
            raise SqlSyntaxError(
                f"option {key} is given twice",
                code="PS-NAME-005",
                place=place,
                remedy="keep one of them",
            )
        found[key] = _option_value(cursor)
        if not cursor.accept(","):
            break
    cursor.expect(")", "close the list of options")
    return tuple(found.items())


def _option_key(cursor: Cursor) -> str:
    parts = [cursor.name("an option's name")]
    while cursor.accept("."):
        parts.append(cursor.name("an option's name"))
    return ".".join(parts)


def _option_value(cursor: Cursor) -> str:
    for word in ("TRUE", "FALSE"):
        if cursor.accept(word):
            return word.lower()
    if not cursor.done and cursor.tokens[cursor.at].token_type is TokenType.NUMBER:
        return str(cursor.integer())
    return cursor.string("a quoted value")
