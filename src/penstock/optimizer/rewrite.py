"""Tools that the rewrite rules share: traversals, column bookkeeping, swapped joins.

Everything is pure: a changed plan is a new plan, an unchanged plan is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.logical.expr import (
    Call,
    Column,
    Expr,
    columns_of,
    conjunction,
    conjuncts,
    remap,
    transform,
)
from penstock.logical.failing import can_fail
from penstock.logical.nodes import Band, Filter, Join, JoinKind, Node, Project

Change = Callable[[Node], Node]


def bottom_up(node: Node, change: Change) -> Node:
    """Rebuild the plan from its leaves, passing every node through `change` once."""
    done: dict[int, Node] = {}  # by id: `node` keeps all its parts alive

    def visit(part: Node) -> Node:
        known = done.get(id(part))
        if known is None:
            known = done[id(part)] = change(over(part, [visit(child) for child in part.inputs]))
        return known

    return visit(node)


def over(node: Node, inputs: Sequence[Node]) -> Node:
    """`node` with other `inputs`; the same object if the inputs are the same."""
    for old, new in zip(node.inputs, inputs, strict=True):
        if old is not new:
            return node.with_inputs(*inputs)
    return node


def width(node: Node) -> int:
    """Number of output columns."""
    return len(node.schema)


def columns(node: Node, indices: Iterable[int]) -> tuple[Column, ...]:
    """Column references to the chosen output columns of `node`."""
    schema = node.schema
    return tuple(Column(schema[i].type, i, schema[i].name) for i in indices)


def select(node: Node, indices: Sequence[int]) -> Node:
    """The chosen columns of `node` in that order.

    `node` itself if these are all of them in order.
    """
    if list(indices) == list(range(width(node))):
        return node
    exprs = columns(node, indices)
    return Project(node, exprs, tuple(e.name for e in exprs))


def where(node: Node, parts: list[Expr]) -> Node:
    """Rows of `node` that satisfy all of `parts`."""
    predicate = conjunction(parts)
    return node if predicate is None else Filter(node, predicate)


def substitute(expr: Expr, exprs: Sequence[Expr]) -> Expr:
    """`expr` with every column replaced by the expression at its index."""
    return transform(expr, lambda e: exprs[e.index] if isinstance(e, Column) else e)


def shift(expr: Expr, by: int) -> Expr:
    """`expr` with all columns moved by `by`."""
    return remap(expr, lambda i: i + by)


def has_udf(expr: Expr) -> bool:
    """Whether a UDF is called: work that should be done only once."""
    if not isinstance(expr, Call):
        return False
    return expr.fn.startswith("udf:") or any(has_udf(a) for a in expr.args)


def equated_columns(part: Expr, split: int) -> tuple[int, int] | None:
    """(left, right) if `part` equates a left and a right column of the same type."""
    match part:
        case Call(fn="eq", args=(Column() as a, Column() as b)) if a.type == b.type:
            low, high = sorted((a.index, b.index))
            return (low, high - split) if low < split <= high else None
        case _:
            return None


def split_sides(parts: list[Expr], split: int) -> tuple[list[Expr], list[Expr], list[Expr]]:
    """Split conjuncts by what they read: the left side, the right side (renumbered), or both."""
    left: list[Expr] = []
    right: list[Expr] = []
    rest: list[Expr] = []
    for part in parts:
        read = columns_of(part)
        if read and max(read) < split:
            left.append(part)
        elif read and min(read) >= split:
            right.append(shift(part, -split))
        else:
            rest.append(part)
    return left, right, rest


def split_safe(parts: list[Expr], split: int) -> tuple[list[Expr], list[Expr], list[Expr]]:
    """The same, but a conjunct that can fail stays with the join: it needs rows with partners."""
    left, right, rest = split_sides([p for p in parts if not can_fail(p)], split)
    return left, right, [*rest, *(p for p in parts if can_fail(p))]


def swap_sides(join: Join, kind: JoinKind) -> Join:
    """The join with left and right exchanged, of `kind`."""
    nl, nr = width(join.left), width(join.right)
    residual = join.residual
    if residual is not None:
        residual = remap(residual, lambda i: i + nr if i < nl else i - nl)
    return Join(
        join.right,
        join.left,
        kind,
        tuple((r, left) for left, r in join.equi),
        None if join.band is None else _swap_band(join.band),
        residual,
        join.null_safe,
    )


def _swap_band(band: Band) -> Band:
    low = None if band.high is None else -band.high
    high = None if band.low is None else -band.low
    return Band(band.right_column, band.left_column, low, high)


def commute(join: Join, change: Change) -> Node:
    """Exchange the sides of an inner join, apply `change`, and restore the column order."""
    nl, nr = width(join.left), width(join.right)
    order = [*range(nr, nr + nl), *range(nr)]
    return select(change(swap_sides(join, JoinKind.INNER)), order)


def with_residual(join: Join, parts: list[Expr]) -> Join:
    """`join` with the conjunction of `parts` as its residual."""
    return replace(join, residual=conjunction(parts))


def residual_parts(join: Join) -> list[Expr]:
    """The conjuncts of the residual."""
    return conjuncts(join.residual)


def condition_columns(join: Join) -> frozenset[int]:
    """The columns that the join condition reads, as indices of left + right columns."""
    split = width(join.left)
    read = {i for left, right in join.equi for i in (left, right + split)}
    if join.band is not None:
        read |= {join.band.left_column, join.band.right_column + split}
    if join.residual is not None:
        read |= columns_of(join.residual)
    return frozenset(read)


def rebase_join(
    join: Join, left: Node, right: Node, left_at: dict[int, int], right_at: dict[int, int]
) -> Join:
    """`join` over other inputs; old column i is now at left_at[i] or right_at[i]."""
    split = width(join.left)
    band, residual = join.band, join.residual
    if band is not None:
        band = replace(
            band,
            left_column=left_at[band.left_column],
            right_column=right_at[band.right_column],
        )
    if residual is not None:
        moved = width(left)
        residual = remap(
            residual, lambda i: left_at[i] if i < split else right_at[i - split] + moved
        )
    equi = tuple((left_at[a], right_at[b]) for a, b in join.equi)
    return Join(left, right, join.kind, equi, band, residual, join.null_safe)
