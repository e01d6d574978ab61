"""INSERT, UPDATE and DELETE tied to a table: constants in column types, bound conditions."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import DataError, NameError_, Place, TypeError_
from penstock.logical.expr import Expr, Literal
from penstock.logical.nodes import TableScan
from penstock.sql import coercion
from penstock.sql.catalog import Catalog, TableDef
from penstock.sql.coercion import Params
from penstock.sql.dialect import place_of
from penstock.sql.expressions import Binder
from penstock.sql.literals import cast_literal
from penstock.sql.scopes import Context, Scope
from penstock.sql.statements import Delete, Insert, Update
from penstock.types import STRING, SqlType


@dataclass(frozen=True, slots=True)
class BoundUpdate:
    """New values by column position, for the rows where `where` holds (None: all)."""

    assignments: tuple[tuple[int, Expr], ...]
    where: Expr | None


def bind_insert(statement: Insert, table: TableDef) -> tuple[tuple[Literal, ...], ...]:
    """The rows to insert, complete and in the table's types; left out columns are NULL."""
    schema, place = table.schema, statement.place
    names = statement.columns or schema.names
    positions = [_position(table, name, place) for name in names]
    rows = []
    for row in statement.rows:
        if len(row) != len(positions):
            raise DataError(
                f"{len(row)} values for {len(positions)} columns of {table.name}",
                place=place, remedy=f"give a value for each of {', '.join(names)}",
            )  # fmt: skip
        given = dict(zip(positions, row, strict=True))
        rows.append(
            tuple(
                _stored(given[i], f.type, place) if i in given else Literal(f.type, None)
                for i, f in enumerate(schema)
            )
        )
    return tuple(rows)


def _stored(literal: Literal, to: SqlType, place: Place) -> Literal:
    if to == STRING and literal.type != STRING and literal.value is not None:
        raise TypeError_(
            f"{literal} is not a STRING", code="PS-TYPE-006", place=place, remedy="put it in quotes"
        )
    return cast_literal(literal, to, place)


def bind_update(statement: Update, table: TableDef, catalog: Catalog) -> BoundUpdate:
    """The assignments and the condition of an UPDATE over the table's columns."""
    binder = _binder(table, catalog)
    assignments = []
    for name, value in statement.assignments:
        index = _position(table, name, place_of(value) or statement.place)
        expr = coercion.cast(binder.partial(value), table.schema[index].type, place_of(value))
        assignments.append((index, expr))
    return BoundUpdate(tuple(assignments), _where(statement.where, binder))


def bind_delete(statement: Delete, table: TableDef, catalog: Catalog) -> Expr | None:
    """The condition of a DELETE over the table's columns, None for all rows."""
    return _where(statement.where, _binder(table, catalog))


def _binder(table: TableDef, catalog: Catalog) -> Binder:
    scan = TableScan(table.name, table.schema, False, tuple(range(len(table.schema))))
    return Binder(Scope.of(table.name, scan), Context(catalog, Params()))


def _where(node: exp.Expr | None, binder: Binder) -> Expr | None:
    return binder.condition(node) if node is not None else None


def _position(table: TableDef, name: str, place: Place) -> int:
    lower = [n.lower() for n in table.schema.names]
    if name.lower() not in lower:
        raise NameError_(
            f"table {table.name} has no column {name}", code="PS-NAME-002", place=place,
            remedy=f"its columns are {', '.join(table.schema.names)}",
        )  # fmt: skip
    return lower.index(name.lower())
