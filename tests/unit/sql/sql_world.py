"""A small catalog, shorthands for binding, and a compact picture of a plan."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.logical.nodes import (
    Filter,
    GroupBy,
    Join,
    Node,
    Project,
    Scan,
    SetOp,
    TableScan,
    Windowed,
)
from penstock.logical.udf import Udf
from penstock.sql.binder import Bound, bind
from penstock.sql.catalog import MemoryCatalog, ViewDef, stream_def, table_def
from penstock.sql.lift import lift
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import CreateStream, CreateTable, Select
from penstock.types import DOUBLE

SCHEMA = """
CREATE STREAM r (k INT, a INT, b BIGINT, p DOUBLE, d DECIMAL(10,2), name STRING, ok BOOLEAN,
                 day DATE, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE STREAM s (k BIGINT, a INT, b BIGINT, p DOUBLE, d DECIMAL(10,2), name STRING, ts TIMESTAMP)
                 TIMESTAMP BY ts;
CREATE STREAM u (k INT, v INT, t BIGINT) TIMESTAMP BY t;
CREATE TABLE tab (k INT, label STRING);
CREATE TABLE nrr (k INT, label STRING) NONRETROACTIVE;
CREATE TABLE nrr2 (k INT) NONRETROACTIVE;
"""


def catalog() -> MemoryCatalog:
    result = MemoryCatalog()
    for statement in parse_script(SCHEMA):
        if isinstance(statement, CreateStream):
            result.add(stream_def(statement))
        elif isinstance(statement, CreateTable):
            result.add(table_def(statement))
    result.add(Udf("twice", lambda x: x, (DOUBLE,), DOUBLE))
    for name, sql in (
        ("plain", "SELECT k, a FROM r WHERE a > 7"),
        ("grouped", "SELECT k, count(*) AS n FROM r [RANGE 1 HOUR] GROUP BY k"),
    ):
        result.add(ViewDef(name, bound(sql, result).node))
    return result


def bound(sql: str, known: MemoryCatalog | None = None) -> Bound:
    statement = parse_statement(sql)
    assert isinstance(statement, Select)
    return bind(statement.body.query, known or catalog())


def plan(sql: str) -> Node:
    return bound(sql).node


def template(sql: str) -> tuple[Node, tuple[object, ...]]:
    result = bound(sql)
    node, literals = lift(result.node, result.params)
    return node, tuple(literal.value for literal in literals)


def picture(node: Node) -> str:
    """A plan on one line: operator, what matters of it, inputs in brackets."""
    inside = ", ".join(picture(child) for child in node.inputs)
    return f"{_head(node)}[{inside}]" if inside else _head(node)


def _head(node: Node) -> str:
    if isinstance(node, Scan):
        return node.stream
    if isinstance(node, TableScan):
        return node.table
    if isinstance(node, Filter):
        return f"σ({node.predicate})"
    if isinstance(node, Project):
        return f"π({', '.join(map(str, node.exprs))})"
    if isinstance(node, Join):
        keys = ",".join(f"{a}={b}" for a, b in node.equi)
        band = f" band {node.band.left_column},{node.band.right_column}" if node.band else ""
        rest = f" if {node.residual}" if node.residual is not None else ""
        return f"{node.kind.value}({keys}{band}{rest})"
    if isinstance(node, GroupBy):
        return f"γ({','.join(map(str, node.keys))}; {', '.join(map(str, node.aggs))})"
    if isinstance(node, SetOp):
        return node.kind.value + (" all" if node.all else "")
    if isinstance(node, Windowed):
        return f"window({node.window})"
    return type(node).__name__.lower()


def shape(sql: str) -> str:
    return picture(plan(sql))


def refused(sql: str, code: str, place: str) -> PenstockError:
    """Binding fails with `code` at ``line:column`` and says what to do."""
    with pytest.raises(PenstockError) as caught:
        bound(sql)
    error = caught.value
    assert error.code == code, error
    assert error.place is not None
    assert f"{error.place.line}:{error.place.column}" == place, error
    assert error.remedy
    return error
