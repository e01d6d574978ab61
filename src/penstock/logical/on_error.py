"""ON ERROR NULL and SKIP ROW as a rewrite of the plan; the rewritten plan cannot fail.

NULL wraps every call that can fail in a hiding function. SKIP ROW wraps every condition, adds a
filter below every projection (keep rows on which all expressions have a value), and one above every
GROUP BY (keep groups with sums that fit). So the setting is part of the template, all optimizer
rules preserve it, and a row gets the same result on arrival and on departure. A view that the query
reads keeps its own setting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Literal

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.expr import (
    COMPARISONS,
    Agg,
    Call,
    Column,
    Expr,
    chained,
    columns_of,
    conjunction,
    conjuncts,
    transform,
)
from penstock.logical.expr import Literal as Constant
from penstock.logical.failing import COMPUTES, OR_NULL, OR_SKIP, QUIET, can_fail, fails_itself
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Received,
    Scan,
    SetOp,
    TableScan,
    ViewScan,
    Windowed,
)
from penstock.types import BIGINT, BOOLEAN, Kind

OnError = Literal["fail", "null", "skip"]
KEY = "_key"
"""The prefix of columns that the binder adds for computed keys of a join."""
_STRICT = (*COMPARISONS, "in", "like", "ilike", "starts_with")
_NULL: dict[type[Node], Callable[..., Node]] = {}
_SKIP: dict[type[Node], Callable[..., Node]] = {}
_KEEP_UNMATCHED = (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL, JoinKind.ANTI)


def apply(node: Node, on_error: OnError, views: Collection[Node]) -> Node:
    """The plan of a query with this setting; `views` are subplans with their own setting."""
    if on_error == "fail":
        return node
    rewrite = _null if on_error == "null" else _skip
    done: dict[int, Node] = {id(view): view for view in views}

    def visit(part: Node) -> Node:
        if id(part) not in done:
            done[id(part)] = _over(part, rewrite, visit)
        return done[id(part)]

    return visit(node)


def _over(node: Node, rewrite: Callable[[Node], Node], visit: Callable[[Node], Node]) -> Node:
    """Rewrite the inputs of `node`, then `node`; the same object if nothing changes."""
    if isinstance(node, Join) and rewrite is _skip and node.kind in _KEEP_UNMATCHED:
        node = _unmatched_keys(node)
    inputs = [visit(child) for child in node.inputs]
    if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
        node = node.with_inputs(*inputs)
    return rewrite(node)


# ---- ON ERROR NULL -------------------------------------------------------------------
def _null(node: Node) -> Node:
    return _NULL[type(node)](node)


@case(_NULL, Scan, TableScan, ViewScan, Received, Windowed, Distinct, SetOp)
@case(_SKIP, Scan, TableScan, ViewScan, Received, Windowed, Distinct, SetOp)
def _unchanged(node: Node) -> Node:
    return node  # a column or constant computes nothing


@case(_NULL, Filter)
def _null_filter(node: Filter) -> Node:
    predicate = or_null(node.predicate)
    return node if predicate is node.predicate else replace(node, predicate=predicate)


@case(_NULL, Project)
def _null_project(node: Project) -> Node:
    exprs = tuple(or_null(e) for e in node.exprs)
    return node if exprs == node.exprs else replace(node, exprs=exprs)


@case(_NULL, Join)
def _null_join(node: Join) -> Node:
    return node if node.residual is None else replace(node, residual=or_null(node.residual))


@case(_NULL, GroupBy)
def _null_group_by(node: GroupBy) -> Node:
    aggs = tuple(_settled(agg, "null") for agg in node.aggs)
    return node if aggs == node.aggs else replace(node, aggs=aggs)


def or_null(expr: Expr) -> Expr:
    """Replace every failing call in `expr` by NULL."""
    if not can_fail(expr):
        return expr

    def wrap(part: Expr) -> Expr:
        fails = isinstance(part, Call) and fails_itself(part)
        return Call(part.type, OR_NULL, (part,)) if fails else part

    return transform(expr, wrap)


# ---- ON ERROR SKIP ROW ---------------------------------------------------------------
def _skip(node: Node) -> Node:
    return _SKIP[type(node)](node)


@case(_SKIP, Filter)
def _skip_filter(node: Filter) -> Node:
    predicate = _skipping(node.predicate)
    return node if predicate is node.predicate else replace(node, predicate=predicate)


@case(_SKIP, Join)
def _skip_join(node: Join) -> Node:
    return node if node.residual is None else replace(node, residual=_skipping(node.residual))


def _skipping(condition: Expr) -> Expr:
    """A condition that counts as false where it fails, conjunct by conjunct."""
    if not can_fail(condition):
        return condition
    made = conjunction([_or_skip(part) for part in conjuncts(condition)])
    assert made is not None
    return made


def _or_skip(part: Expr) -> Expr:
    """A conjunct that is NULL, which rejects the row like FALSE, where it fails.

    A comparison with constants keeps its form, so that an index can use it.
    """
    if not can_fail(part):
        return part
    if isinstance(part, Call) and part.fn in _STRICT and not fails_itself(part):
        value, *constants = part.args
        if not any(columns_of(c) or can_fail(c) for c in constants):
            return replace(part, args=(Call(value.type, OR_SKIP, (value,)), *constants))
    return Call(BOOLEAN, OR_SKIP, (part,))


@case(_SKIP, Project)
def _computed(node: Project) -> Node:
    """A projection of only those rows on which all of its expressions have a value."""
    risky = tuple(e for e in node.exprs if can_fail(e))
    if not risky:
        return node
    exprs = tuple(Call(e.type, QUIET, (e,)) if e in risky else e for e in node.exprs)
    fine = Filter(node.input, Call(BOOLEAN, COMPUTES, tuple(dict.fromkeys(risky))))
    return replace(node, input=fine, exprs=exprs)


@case(_SKIP, GroupBy)
def _shown(node: GroupBy) -> Node:
    """The groups with only fitting sums: each sum is not NULL, or has no values."""
    aggs = tuple(_settled(agg, "skip") for agg in node.aggs)
    risky = [i for i, agg in enumerate(aggs) if agg.on_error != "fail"]
    if not risky:
        return node
    counts = tuple(Agg("count", aggs[i].arg, False, aggs[i].filter, BIGINT) for i in risky)
    names = tuple(f"_count{i}" for i in risky)
    wide = GroupBy(node.input, node.keys, aggs + counts, node.names + names)
    first, conditions = len(node.keys), []
    for place, i in enumerate(risky):
        total, count = (Column(f.type, at, f.name) for at, f in (
            (first + i, wide.schema[first + i]),
            (first + len(aggs) + place, wide.schema[first + len(aggs) + place]),
        ))  # fmt: skip
        there = Call(BOOLEAN, "is_not_null", (total,))
        nothing = Call(BOOLEAN, "eq", (count, Constant(BIGINT, 0)))
        conditions.append(chained("or", [there, nothing]))
    columns = tuple(Column(f.type, at, f.name) for at, f in enumerate(node.schema))
    return Project(Filter(wide, chained("and", conditions)), columns, node.schema.names)


def _settled(agg: Agg, on_error: OnError) -> Agg:
    """The aggregate with the setting, if it can fail: sums of INT stay far below the limit."""
    exact = agg.arg is not None and agg.arg.type.kind in (Kind.BIGINT, Kind.DECIMAL)
    return replace(agg, on_error=on_error) if agg.fn == "sum" and exact else agg


def _unmatched_keys(join: Join) -> Join:
    """Where rows without a match stay, let a key that fails match nothing."""
    left, right = (_keys_or_null(side) for side in join.inputs)
    return replace(join, left=left, right=right)


def _keys_or_null(side: Node) -> Node:
    if not isinstance(side, Project):
        return side
    pairs = zip(side.exprs, side.names, strict=True)
    made = tuple(
        Call(e.type, OR_SKIP, (e,)) if name.startswith(KEY) and can_fail(e) else e
        for e, name in pairs
    )
    return side if made == side.exprs else replace(side, exprs=made)


complete(_NULL, subclasses(nodes, Node), "ON ERROR NULL")
complete(_SKIP, subclasses(nodes, Node), "ON ERROR SKIP ROW")
