"""INSERT, UPDATE and DELETE on tables, as changes for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from sqlglot import exp

from penstock.arrays import I64
from penstock.engine.blocks import TableChange
from penstock.engine.engine import Engine
from penstock.errors import DataError, NameError_, Place, SqlSyntaxError
from penstock.expressions.evaluate import EvaluationError, compile_expr
from penstock.logical.expr import Call, Expr, Literal
from penstock.logical.nodes import Filter, Node, Project
from penstock.roomy import roomy
from penstock.session.values import arrow_value, cast_scalar, rows_of
from penstock.sql.binder import bind
from penstock.sql.catalog import MemoryCatalog, TableDef
from penstock.sql.statements import Delete, Insert, Update
from penstock.types import SqlType

T = TypeVar("T")
_NOTHING = np.empty(0, np.int64)


@roomy
def insert(statement: Insert, table: TableDef, engine: Engine) -> TableChange[I64]:
    """The rows of an INSERT; columns that it does not name are NULL."""
    names = statement.columns or table.schema.names
    places = _places(names, table, statement.place)
    for row in statement.rows:
        if len(row) != len(names):
            raise SqlSyntaxError(
                f"{len(row)} values for {len(names)} columns",
                code="PS-TYPE-005",
                place=statement.place,
                remedy=f"give values for {', '.join(names)}",
            )
    columns = []
    for i, field in enumerate(table.schema):
        at = places.index(i) if i in places else None
        cells = [None if at is None else row[at] for row in statement.rows]
        columns.append([_scalar(cell, field.name, field.type) for cell in cells])
    return TableChange(table.name, _NOTHING, rows_of(columns, table.schema, engine.strings))


def _places(names: Iterable[str], table: TableDef, place: Place | None) -> list[int]:
    """The indexes of the columns called `names`; raises an error if one is repeated."""
    known = [name.lower() for name in table.schema.names]
    places: list[int] = []
    for name in names:
        if name.lower() not in known:
            raise NameError_(
                f"table {table.name} has no column {name}",
                code="PS-NAME-002",
                place=place,
                remedy=f"its columns are {', '.join(table.schema.names)}",
            )
        places.append(known.index(name.lower()))
        if places.count(places[-1]) > 1:
            raise NameError_(
                f"column {name} is named twice",
                code="PS-NAME-005",
                place=place,
                remedy="name it once",
            )
    return places


def _scalar(cell: Literal | None, name: str, type_: SqlType) -> Any:
    value = pa.scalar(None) if cell is None else arrow_value(cell)
    return cast_scalar(value, type_, f"column {name}")


@roomy
def delete(
    statement: Delete, table: TableDef, catalog: MemoryCatalog, engine: Engine
) -> TableChange[I64]:
    """The rows that a DELETE removes."""
    rows = engine.tables[table.name].contents()
    hit = _matching(statement, table, catalog, engine, rows)
    return TableChange(table.name, hit, rows[:, :0])


@roomy
def update(
    statement: Update, table: TableDef, catalog: MemoryCatalog, engine: Engine
) -> TableChange[I64]:
    """The rows that an UPDATE removes, and those it adds instead."""
    rows = engine.tables[table.name].contents()
    hit = _matching(statement, table, catalog, engine, rows)
    old = np.ascontiguousarray(rows[:, hit])
    new = old.copy()
    places = _places([name for name, _ in statement.assignments], table, statement.place)
    for at, (_, ast) in zip(places, statement.assignments, strict=True):
        bound = _expression(ast, table, catalog)
        target = table.schema[at].type
        value = bound if bound.type == target else Call(target, "cast", (bound,))
        compute = partial(compile_expr(value, engine.ctx), old)
        column = _computed(compute, statement.place)
        new[1 + at] = column.data
        new[0] &= ~(1 << at)
        if column.null is not None:
            new[0] |= column.null.astype(np.int64) << at
    return TableChange(table.name, hit, new)


def _matching(
    statement: Update | Delete,
    table: TableDef,
    catalog: MemoryCatalog,
    engine: Engine,
    rows: I64,
) -> I64:
    if statement.where is None:
        return np.arange(rows.shape[1])
    select = exp.select(exp.Star()).from_(exp.to_table(table.name)).where(statement.where.copy())
    node = bind(select, _alone(table, catalog)).node
    mask = np.ones(rows.shape[1], np.bool_)
    for predicate in _predicates(node):
        compute = partial(compile_expr(predicate, engine.ctx).mask, rows)
        mask &= _computed(compute, statement.place)
    return np.flatnonzero(mask)


def _computed(compute: Callable[[], T], place: Place | None) -> T:
    """Return the value of `compute()`; an expression that fails on a row fails the statement."""
    try:
        return compute()
    except EvaluationError as error:
        raise DataError(
            f"the statement fails for {int(error.bad.sum())} rows: {error.reason}",
            code="PS-DATA-006",
            place=place,
            remedy="nothing was changed; correct the expression, or exclude these rows with WHERE",
        ) from error


def _predicates(node: Node) -> list[Expr]:
    found = [node.predicate] if isinstance(node, Filter) else []
    return found + [p for child in node.inputs for p in _predicates(child)]


def _expression(ast: exp.Expr, table: TableDef, catalog: MemoryCatalog) -> Expr:
    select = exp.select(exp.alias_(ast.copy(), "value")).from_(exp.to_table(table.name))
    node = bind(select, _alone(table, catalog)).node
    assert isinstance(node, Project)
    return node.exprs[0]


def _alone(table: TableDef, catalog: MemoryCatalog) -> MemoryCatalog:
    """A catalog with this table only, read as an ordinary relation."""
    return MemoryCatalog({table.name.lower(): replace(table, nonretroactive=False)}, catalog.udfs)
