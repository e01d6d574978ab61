"""INSERT, UPDATE and DELETE as written. Values are constants; conditions stay trees."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import SqlSyntaxError, UnsupportedError
from penstock.logical.expr import Literal
from penstock.sql.cursor import Cursor
from penstock.sql.ddl import origin
from penstock.sql.dialect import parse_expression
from penstock.sql.literals import literal_of
from penstock.sql.statements import Delete, Insert, Update


def insert(cursor: Cursor) -> Insert:
    """Read what follows INSERT INTO."""
    place, source = origin(cursor)
    table = cursor.name("the table's name")
    names = _names(cursor) if cursor.sees("(") else None
    if cursor.sees("SELECT") or cursor.sees("WITH"):
        raise UnsupportedError(
            "INSERT … SELECT is not supported", code="PS-SQL-024", place=cursor.place(),
            remedy="insert VALUES, or keep the SELECT as a materialized view",
        )  # fmt: skip
    cursor.expect("VALUES", "write INSERT INTO table VALUES (…), (…)")
    rows = [_row(cursor)]
    while cursor.accept(","):
        rows.append(_row(cursor))
    return Insert(table=table, columns=names, rows=tuple(rows), place=place, source=source)


def _names(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = [cursor.name("a column")]
    while cursor.accept(","):
        names.append(cursor.name("a column"))
    cursor.expect(")")
    return tuple(names)


def _row(cursor: Cursor) -> tuple[Literal, ...]:
    cursor.expect("(", "put each row in parentheses")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")", "close the row with )")
    return tuple(values)


def _value(cursor: Cursor) -> Literal:
    place = cursor.place()
    literal = literal_of(parse_expression(cursor.upto(",", ")"), cursor.text, place))
    if literal is None:
        raise SqlSyntaxError(
            "only constants can be inserted", place=place,
            remedy="write a number, a quoted string, TRUE, FALSE, NULL, DATE '…' or TIMESTAMP '…'",
        )  # fmt: skip
    return literal


def update(cursor: Cursor) -> Update:
    """Read what follows UPDATE."""
    place, source = origin(cursor)
    table = cursor.name("the table's name")
    cursor.expect("SET", "write UPDATE table SET column = value WHERE …")
    assignments = [_assignment(cursor)]
    while cursor.accept(","):
        assignments.append(_assignment(cursor))
    return Update(
        table=table, assignments=tuple(assignments), where=_where(cursor), place=place,
        source=source,
    )  # fmt: skip


def _assignment(cursor: Cursor) -> tuple[str, exp.Expr]:
    name = cursor.name("a column")
    cursor.expect("=", "write SET column = value")
    place = cursor.place()
    return name, parse_expression(cursor.upto(",", "WHERE"), cursor.text, place)


def delete(cursor: Cursor) -> Delete:
    """Read what follows DELETE FROM."""
    place, source = origin(cursor)
    table = cursor.name("the table's name")
    return Delete(table=table, where=_where(cursor), place=place, source=source)


def _where(cursor: Cursor) -> exp.Expr | None:
    if not cursor.accept("WHERE"):
        return None
    place = cursor.place()
    return parse_expression(cursor.rest(), cursor.text, place)
