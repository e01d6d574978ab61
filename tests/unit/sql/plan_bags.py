"""Evaluates a bound plan over table contents, row by row: what the plan means, nothing else."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.logical.expr import Agg, Call, Column, Expr, Literal
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    SetKind,
    SetOp,
    TableScan,
)

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]

_STRICT: dict[str, Callable[..., Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "add": operator.add, "sub": operator.sub,
    "mul": operator.mul, "neg": operator.neg, "not": operator.not_, "cast": lambda x: x,
    "in": lambda x, *items: x in items, "abs": abs,
}  # fmt: skip


def value(expr: Expr, row: Row) -> Any:
    if isinstance(expr, Column):
        return row[expr.index]
    if isinstance(expr, Literal):
        return expr.value
    assert isinstance(expr, Call), expr
    args = [value(a, row) for a in expr.args]
    match expr.fn:
        case "and":
            return False if False in args else None if None in args else True
        case "or":
            return True if True in args else None if None in args else False
        case "is_null":
            return args[0] is None
        case "is_not_null":
            return args[0] is not None
        case "coalesce":
            return next((a for a in args if a is not None), None)
        case "case":
            pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
            return next((v for c, v in pairs if c is True), args[-1])
    return None if None in args else _STRICT[expr.fn](*args)


def rows(node: Node, tables: Tables) -> list[Row]:
    inputs = [rows(child, tables) for child in node.inputs]
    match node:
        case TableScan():
            return tables[node.table]
        case Filter():
            return [r for r in inputs[0] if value(node.predicate, r) is True]
        case Project():
            return [tuple(value(e, r) for e in node.exprs) for r in inputs[0]]
        case Distinct():
            return list(dict.fromkeys(inputs[0]))
        case Join():
            return _joined(node, *inputs)
        case GroupBy():
            return _grouped(node, inputs[0])
        case SetOp():
            return _combined(node, *inputs)
    raise AssertionError(node)


def _matches(node: Join, left: Row, right: Row) -> bool:
    if any(left[a] is None or left[a] != right[b] for a, b in node.equi):
        return False
    if node.band is not None:
        a, b = left[node.band.left_column], right[node.band.right_column]
        low, high = node.band.low, node.band.high
        if a is None or b is None or (low is not None and b - a < low):
            return False
        if high is not None and b - a > high:
            return False
    return node.residual is None or value(node.residual, left + right) is True


def _joined(node: Join, left: list[Row], right: list[Row]) -> list[Row]:
    pairs = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right)
             if _matches(node, a, b)]  # fmt: skip
    hit_left, hit_right = {i for i, _ in pairs}, {j for _, j in pairs}
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        wanted = node.kind is JoinKind.SEMI
        return [a for i, a in enumerate(left) if (i in hit_left) is wanted]
    result = [left[i] + right[j] for i, j in pairs]
    if node.kind in (JoinKind.LEFT, JoinKind.FULL):
        nothing = (None,) * len(node.right.schema)
        result += [a + nothing for i, a in enumerate(left) if i not in hit_left]
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        nothing = (None,) * len(node.left.schema)
        result += [nothing + b for j, b in enumerate(right) if j not in hit_right]
    return result


def _grouped(node: GroupBy, source: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in source:
        groups.setdefault(tuple(row[k] for k in node.keys), []).append(row)
    return [
        key + tuple(_aggregated(a, members) for a in node.aggs) for key, members in groups.items()
    ]


def _aggregated(agg: Agg, members: list[Row]) -> Any:
    assert agg.filter is None or isinstance(agg.filter, Column)
    assert agg.arg is None or isinstance(agg.arg, Column)
    if agg.filter is not None:
        members = [r for r in members if value(agg.filter, r) is True]
    if agg.arg is None:
        return len(members)
    values = [v for r in members if (v := value(agg.arg, r)) is not None]
    values = list(set(values)) if agg.distinct else values
    if agg.fn == "count":
        return len(values)
    return {"sum": sum, "min": min, "max": max}[agg.fn](values) if values else None


def _combined(node: SetOp, left: list[Row], right: list[Row]) -> list[Row]:
    a, b = Counter(left), Counter(right)
    if not node.all:
        a, b = Counter(set(left)), Counter(set(right))
    if node.kind is SetKind.UNION:
        both = a + b
        return list((both if node.all else Counter(set(both))).elements())
    return list((a & b if node.kind is SetKind.INTERSECT else a - b).elements())
