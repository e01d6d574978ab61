"""Moves joins with tables below anti joins: (A ▷ B) ⋈ T = (A ⋈ T) ▷ B (Golab & Özsu 2005, §5.4.2).

A join with a table cannot process a negative row correctly, because the table may have changed
since the row arrived; below the negation it never sees one. For a non-retroactive table the result
depends on it, not only the cost: a row that reappears must show the table as of its arrival. So
lowering always applies this rule, also below semi joins and into both sides of a UNION ALL. Joins
of streams are not passed: moving a table join below one would change when a result is generated
(Definition 2).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Column
from penstock.logical.nodes import Filter, Join, JoinKind, Node, Project, SetKind, SetOp
from penstock.optimizer.rewrite import (
    bottom_up,
    columns,
    commute,
    residual_parts,
    shift,
    substitute,
    width,
    with_residual,
)
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import is_table, pattern_of


def push_down_table_join(node: Node, stats: Stats) -> Node:
    """Put joins with tables below strict semi and anti joins.

    before: (s ▷ k = k t) ⋈ k = k hosts
    after:  (s ⋈ k = k hosts) ▷ k = k t
    """
    return bottom_up(node, _push)


def _push(node: Node) -> Node:
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER:
        return node
    if is_table(node.right) and not is_table(node.left):
        return sink_table_join(node)
    if is_table(node.left) and not is_table(node.right) and _sinks(node.right, False):
        return commute(node, _push)
    return node


def sink_table_join(join: Join, *, through_union: bool = False) -> Node:
    """Move a join with a table on its right below the semi and anti joins of its left input."""
    stream = join.left
    if not _sinks(stream, through_union):
        return join
    match stream:
        case Join(left=left, right=hidden):
            below = sink_table_join(replace(join, left=left), through_union=through_union)
            return replace(stream, left=below, right=hidden)
        case Filter(input=source, predicate=predicate):
            below = sink_table_join(replace(join, left=source), through_union=through_union)
            return Filter(below, predicate)
        case SetOp():
            sides = [replace(join, left=side) for side in stream.inputs]
            return stream.with_inputs(*(sink_table_join(s, through_union=True) for s in sides))
        case Project():
            return _below_project(join, stream, through_union)
        case _:
            return join


def _sinks(node: Node, through_union: bool) -> bool:
    """Whether stateless operators lead down to a semi or anti join."""
    match node:
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return through_union or pattern_of(node) is Pattern.STR
        case Filter() | Project():
            return _sinks(node.input, through_union)
        case SetOp(kind=SetKind.UNION, all=True):
            return through_union and any(_sinks(side, True) for side in node.inputs)
        case _:
            return False


def _below_project(join: Join, project: Project, through_union: bool) -> Node:
    """Rewrite Join(Project(x), t) as Project(Join(x, t)) if the keys are plain columns of x."""
    keys = [project.exprs[i] for i, _ in join.equi]
    if join.band is not None or not all(isinstance(key, Column) for key in keys):
        return join
    source = project.input
    moved = tuple(shift(c, width(source)) for c in columns(join.right, range(width(join.right))))
    exprs = project.exprs + moved
    equi = tuple(
        (k.index, r) for k, (_, r) in zip(keys, join.equi, strict=True) if isinstance(k, Column)
    )
    parts = [substitute(part, exprs) for part in residual_parts(join)]
    bare = with_residual(replace(join, left=source, equi=equi), parts)
    below = sink_table_join(bare, through_union=through_union)
    return Project(below, exprs, join.schema.names)
