"""Lowering: replaces operators that the engine does not have. Always applied.

- LEFT, RIGHT and FULL joins: UNION ALL of the inner join and the NULL-padded rows of anti joins.
- SEMI and ANTI with a band or a residual: SEMI or ANTI of the whole left row, NULLs equal
  (`null_safe`), with the left columns of the inner join. Equal left rows have equal results.
- UNION: DISTINCT of UNION ALL.
- A join with a non-retroactive table: the bare table on the right, and the join below semi and
  anti joins (`push_down_table_join`), so that each row joins the table once, on arrival.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import PlanError
from penstock.logical.expr import Call, Column, Expr, Literal
from penstock.logical.nodes import (
    Band,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    SetKind,
    SetOp,
)
from penstock.optimizer.push_down_table_join import sink_table_join
from penstock.optimizer.rewrite import (
    bottom_up,
    columns,
    commute,
    equated_columns,
    residual_parts,
    select,
    shift,
    split_safe,
    substitute,
    swap_sides,
    where,
    width,
    with_residual,
)
from penstock.patterns.rules import is_nrr
from penstock.types import BOOLEAN


def lower(node: Node) -> Node:
    """Rewrite the plan into operators that the engine has; a second call changes nothing.

    before: s LEFT JOIN t ON k = k
    after:  (s ⋈ k = k t) UNION ALL π s.*, NULL, … (s ▷ k = k t)
    """
    return bottom_up(node, _lower)


def _lower(node: Node) -> Node:
    match node:
        case SetOp(kind=SetKind.UNION, all=False):
            return Distinct(replace(node, all=True))
        case Join(kind=JoinKind.LEFT | JoinKind.RIGHT | JoinKind.FULL) if not is_nrr(node.right):
            return _lower_outer(node)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return _lower_exists(node)
        case Join(kind=JoinKind.INNER) if is_nrr(node.right) or is_nrr(node.left):
            return _lower_nrr(node)
        case _:
            return node


# ---- outer joins ---------------------------------------------------------------------
def _lower_outer(join: Join) -> Node:
    plan: Node = replace(join, kind=JoinKind.INNER)
    names = join.schema.names
    if join.kind in (JoinKind.LEFT, JoinKind.FULL):
        lonely = _lower_exists(replace(join, kind=JoinKind.ANTI))
        exprs = columns(lonely, range(width(lonely))) + _nulls(join.right)
        plan = SetOp(plan, Project(lonely, exprs, names), SetKind.UNION, all=True)
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        lonely = _lower_exists(swap_sides(join, JoinKind.ANTI))
        exprs = _nulls(join.left) + columns(lonely, range(width(lonely)))
        plan = SetOp(plan, Project(lonely, exprs, names), SetKind.UNION, all=True)
    return plan


def _nulls(node: Node) -> tuple[Expr, ...]:
    return tuple(Literal(f.type, None) for f in node.schema)


# ---- semi and anti joins -------------------------------------------------------------
def _lower_exists(join: Join) -> Node:
    """Rewrite a SEMI or ANTI join so that its only condition is equality of columns."""
    join = _settle(join)
    if join.band is None and join.residual is None:
        return join
    every = range(width(join.left))
    matched = select(replace(join, kind=JoinKind.INNER), every)
    return Join(join.left, matched, join.kind, tuple((i, i) for i in every), null_safe=True)


def _settle(join: Join) -> Join:
    """Move one-sided conditions from the residual to the inputs, column equalities to `equi`."""
    if join.null_safe:
        return join
    split = width(join.left)
    pairs = {part: equated_columns(part, split) for part in residual_parts(join)}
    equi = join.equi + tuple(p for p in pairs.values() if p and p not in join.equi)
    left, right, rest = split_safe([part for part, pair in pairs.items() if not pair], split)
    if join.kind is JoinKind.ANTI:  # a left row that fails its own test stays
        rest, left = left + rest, []
    join = replace(join, left=where(join.left, left), right=where(join.right, right), equi=equi)
    return with_residual(join, rest)


# ---- joins with non-retroactive tables -----------------------------------------------
def _lower_nrr(join: Join) -> Node:
    """Put the table on the right, bare, and the join below semi and anti joins."""
    if is_nrr(join.right) and is_nrr(join.left):
        return join  # the plan check rejects it
    if is_nrr(join.left):
        return commute(join, _lower)
    match join.right:
        case Filter(input=table, predicate=predicate):
            split = width(join.left)
            return Filter(_lower_nrr(replace(join, right=table)), shift(predicate, split))
        case Project():
            return _lift_project(join, join.right)
        case _:
            return sink_table_join(join, through_union=True)


def _lift_project(join: Join, project: Project) -> Node:
    """Rewrite Join(l, Project(t)) as Project(Join(l, t)); a computed key becomes a residual."""
    split = width(join.left)
    left = columns(join.left, range(split))
    right = tuple(shift(e, split) for e in project.exprs)
    parts = [substitute(p, left + right) for p in residual_parts(join)]
    equi: list[tuple[int, int]] = []
    for i, j in join.equi:
        key = project.exprs[j]
        if isinstance(key, Column):
            equi.append((i, key.index))
        else:
            parts.append(Call(BOOLEAN, "eq", (left[i], right[j])))
    bare = replace(join, right=project.input, equi=tuple(equi), band=_lift_band(join, project))
    return Project(_lower_nrr(with_residual(bare, parts)), left + right, join.schema.names)


def _lift_band(join: Join, project: Project) -> Band | None:
    if join.band is None:
        return None
    key = project.exprs[join.band.right_column]
    if isinstance(key, Column):
        return replace(join.band, right_column=key.index)
    raise PlanError(
        "a band join cannot compare a computed column of a non-retroactive table",
        code="PS-PLAN-009",
        remedy="compare with a column of the table itself",
    )
