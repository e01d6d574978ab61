"""A tiny evaluator of logical plans over given window and table contents: rows are tuples.

It knows plans before and after lowering, so that every rewrite can be compared with what it
rewrote. Slow and plain on purpose.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from penstock.logical.expr import Agg, Call, Column, Expr, Literal, Param
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Window,
    Windowed,
)

Row = tuple[Any, ...]
Contents = Mapping[tuple[str, Window | None], list[Row]]
PARAMS: Row = (1, 2)

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "add": operator.add, "mul": operator.mul,
    "udf:f": lambda a, b: 2 * a + b,
}  # fmt: skip


def bag(node: Node, contents: Contents) -> Counter[Row]:
    return Counter(evaluate(node, contents))


def evaluate(node: Node, contents: Contents) -> list[Row]:
    inputs = [evaluate(child, contents) for child in node.inputs]
    match node:
        case Scan():
            return [pick(row, node.columns) for row in contents[node.stream, node.window]]
        case TableScan():
            return [pick(row, node.columns) for row in contents[node.table, None]]
        case Filter():
            return [row for row in inputs[0] if value(node.predicate, row) is True]
        case Project():
            return [tuple(value(e, row) for e in node.exprs) for row in inputs[0]]
        case Join():
            return joined(node, *inputs)
        case GroupBy():
            return grouped(node, inputs[0])
        case Distinct():
            return list(dict.fromkeys(inputs[0]))
        case SetOp():
            return combined(node, *inputs)
        case Windowed(window=Rows() as rows):
            return last_rows(rows, inputs[0])
        case Windowed():
            return inputs[0]
        case _:
            raise NotImplementedError(type(node).__name__)


def pick(row: Row, indices: tuple[int, ...]) -> Row:
    return tuple(row[i] for i in indices)


def value(expr: Expr, row: Row) -> Any:
    match expr:
        case Column():
            return row[expr.index]
        case Literal():
            return expr.value
        case Param():
            return PARAMS[expr.index]
        case Call(fn="is_null"):
            return value(expr.args[0], row) is None
        case Call():
            return call(expr.fn, [value(a, row) for a in expr.args])
        case _:
            raise NotImplementedError(str(expr))


def call(fn: str, args: list[Any]) -> Any:
    if fn == "and":
        return False if False in args else None if None in args else True
    if fn == "or":
        return True if True in args else None if None in args else False
    if None in args:
        return None
    return not args[0] if fn == "not" else _BINARY[fn](*args)


def joined(node: Join, left: list[Row], right: list[Row]) -> list[Row]:
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    pairs = [(i, j) for i, j in pairs if matches(node, left[i], right[j])]
    hit_left, hit_right = {i for i, _ in pairs}, {j for _, j in pairs}
    if node.kind is JoinKind.SEMI:
        return [row for i, row in enumerate(left) if i in hit_left]
    if node.kind is JoinKind.ANTI:
        return [row for i, row in enumerate(left) if i not in hit_left]
    result = [left[i] + right[j] for i, j in pairs]
    if node.kind in (JoinKind.LEFT, JoinKind.FULL):
        pad = (None,) * len(node.right.schema)
        result += [row + pad for i, row in enumerate(left) if i not in hit_left]
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        pad = (None,) * len(node.left.schema)
        result += [pad + row for j, row in enumerate(right) if j not in hit_right]
    return result


def matches(node: Join, left: Row, right: Row) -> bool:
    for a, b in node.equi:
        if left[a] != right[b] or (left[a] is None and not node.null_safe):
            return False
    if node.band is not None:
        a, b = left[node.band.left_column], right[node.band.right_column]
        if a is None or b is None:
            return False
        low, high = node.band.low, node.band.high
        if (low is not None and b - a < low) or (high is not None and b - a > high):
            return False
    return node.residual is None or value(node.residual, left + right) is True


def grouped(node: GroupBy, rows: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(pick(row, node.keys), []).append(row)
    return [key + tuple(aggregate(a, part) for a in node.aggs) for key, part in groups.items()]


def aggregate(agg: Agg, rows: list[Row]) -> Any:
    if agg.filter is not None:
        rows = [row for row in rows if value(agg.filter, row) is True]
    if agg.arg is None:
        return len(rows)
    values = [v for row in rows if (v := value(agg.arg, row)) is not None]
    values = list(set(values)) if agg.distinct else values
    if agg.fn == "count":
        return len(values)
    return {"sum": sum, "min": min, "max": max}[agg.fn](values) if values else None


def combined(node: SetOp, left: list[Row], right: list[Row]) -> list[Row]:
    if node.kind is SetKind.UNION:
        both = left + right
        return both if node.all else list(dict.fromkeys(both))
    counts, other = Counter(left), Counter(right)
    if not node.all:
        keep = [row in other for row in counts]
        wanted = node.kind is SetKind.INTERSECT
        return [row for row, found in zip(counts, keep, strict=True) if found is wanted]
    result = counts & other if node.kind is SetKind.INTERSECT else counts - other
    return list(result.elements())


def last_rows(window: Rows, rows: list[Row]) -> list[Row]:
    seen: Counter[Row] = Counter()
    kept = []
    for row in reversed(rows):
        key = pick(row, window.partition)
        seen[key] += 1
        if seen[key] <= window.count:
            kept.append(row)
    return kept[::-1]
