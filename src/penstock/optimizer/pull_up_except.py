"""Update pattern simplification, strict half: moves negation up (Golab & Özsu 2005, §5.4.2).

(A ▷ B) ⋈ C = (A ⋈ C) ▷ B: an anti join compares columns of A, and the join keeps them. After the
rewrite the join sees no negative rows and keeps its WK state. The same holds for semi joins and
DISTINCT above a negation. A EXCEPT B below a join is the anti join of the distinct rows of A. If
the streams are measured, the negation passes a join only if the cost model agrees (a join that
multiplies rows should stay above, §6.6); otherwise it always does.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.nodes import Distinct, Join, JoinKind, Node, SetKind, SetOp
from penstock.optimizer.cost import cost
from penstock.optimizer.rewrite import bottom_up, width
from penstock.optimizer.stats import Stats
from penstock.patterns.rules import is_table


def pull_up_except(node: Node, stats: Stats) -> Node:
    """Move anti joins and EXCEPT above joins, semi joins and DISTINCT.

    before: (s ▷ k = k t) ⋈ k = k u
    after:  (s ⋈ k = k u) ▷ k = k t
    """
    return bottom_up(node, lambda part: _pull(part, stats))


def _pull(node: Node, stats: Stats) -> Node:
    """Move a negation directly below `node` above it; the inputs of `node` are done already."""
    match node:
        case Distinct(input=Join(kind=JoinKind.ANTI) as anti):
            return replace(anti, left=_pull(Distinct(anti.left), stats))
        case Join(kind=JoinKind.SEMI, left=Join(kind=JoinKind.ANTI) as anti):
            return replace(anti, left=_pull(replace(node, left=anti.left), stats))
        case Join(kind=JoinKind.INNER) if not (is_table(node.left) or is_table(node.right)):
            return _above_join(node, stats)
        case _:
            return node


def _above_join(join: Join, stats: Stats) -> Node:
    split = width(join.left)
    for at, side in enumerate(join.inputs):
        anti = _as_anti(side)
        if anti is None:
            continue
        below = replace(join, left=anti.left) if at == 0 else replace(join, right=anti.left)
        equi = tuple((left + at * split, right) for left, right in anti.equi)
        pulled = replace(anti, left=below, equi=equi)
        if not stats.knows(join) or cost(pulled, stats).total <= cost(join, stats).total:
            return replace(pulled, left=_pull(below, stats))
    return join


def _as_anti(node: Node) -> Join | None:
    """A negation as an anti join on columns of its left input."""
    match node:
        case Join(kind=JoinKind.ANTI):
            return node
        case SetOp(kind=SetKind.EXCEPT, all=False):
            every = tuple((i, i) for i in range(width(node)))
            left = Distinct(node.left)
            return Join(left, node.right, JoinKind.ANTI, every, null_safe=True)
        case _:
            return None
