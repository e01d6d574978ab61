"""Moves DISTINCT below joins (Golab & Özsu 2005, §5.4.2), and removes it where rows are distinct.

The distinct rows of a join are the join of the distinct rows of the columns it reads of each side.
The outer DISTINCT can go if the output determines all of those columns; a key of one side
determines the equal key of the other. Joins with tables stay as they are.
"""

from __future__ import annotations

from penstock.logical.expr import Column, columns_of, remap
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
)
from penstock.optimizer.rewrite import (
    bottom_up,
    columns,
    condition_columns,
    rebase_join,
    select,
    width,
)
from penstock.optimizer.stats import Stats
from penstock.patterns.rules import is_table


def push_down_distinct(node: Node, stats: Stats) -> Node:
    """Move DISTINCT below inner joins and drop it over rows that are distinct already.

    before: δ (π k, s.a, t.b (s ⋈ k = k t))
    after:  π k, s.a, t.b (δ (π k, a (s)) ⋈ k = k δ (π k, b (t)))
    """
    return bottom_up(node, _push)


def is_duplicate_free(node: Node) -> bool:
    """Whether no two rows of `node` can be equal."""
    match node:
        case Distinct() | GroupBy():
            return True
        case SetOp():
            return not node.all and node.kind is not SetKind.UNION
        case Filter():
            return is_duplicate_free(node.input)
        case Project():
            kept = {e.index for e in node.exprs if isinstance(e, Column)}
            return _determined(node.input, kept) and is_duplicate_free(node.input)
        case Join(kind=JoinKind.INNER):
            return all(is_duplicate_free(side) for side in node.inputs)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return is_duplicate_free(node.left)
        case _:
            return False


def _determined(node: Node, kept: set[int]) -> bool:
    """Whether the columns `kept` determine every other column of `node`."""
    if isinstance(node, GroupBy):
        return kept.issuperset(range(len(node.keys)))
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        split = width(node.left)
        for left, right in node.equi:
            if left in kept or right + split in kept:
                kept = kept | {left, right + split}
    return kept.issuperset(range(width(node)))


def _push(node: Node) -> Node:
    if not isinstance(node, Distinct):
        return node
    if is_duplicate_free(node.input):
        return node.input
    top = node.input
    project = top if isinstance(top, Project) else None
    join = top.input if isinstance(top, Project) else top
    if not isinstance(join, Join) or join.kind is not JoinKind.INNER:
        return node
    if any(map(is_table, join.inputs)) or all(map(is_duplicate_free, join.inputs)):
        return node
    plan = _over_distinct(project, join)
    return plan if is_duplicate_free(plan) else Distinct(plan)


def _over_distinct(project: Project | None, join: Join) -> Node:
    """Compute the rows from the distinct rows of the columns read of each side.

    The result has the same distinct rows, perhaps with fewer copies.
    """
    exprs = project.exprs if project else columns(join, range(width(join)))
    needed = condition_columns(join).union(*map(columns_of, exprs))
    split = width(join.left)
    left = sorted(i for i in needed if i < split) or [0]
    right = sorted(i - split for i in needed if i >= split) or [0]
    slim = rebase_join(
        join,
        _push(Distinct(select(join.left, left))),
        _push(Distinct(select(join.right, right))),
        {old: new for new, old in enumerate(left)},
        {old: new for new, old in enumerate(right)},
    )
    if project is None:
        return slim
    place = {old: new for new, old in enumerate([*left, *(i + split for i in right)])}
    moved = tuple(remap(e, place.__getitem__) for e in exprs)
    return Project(slim, moved, project.names)
