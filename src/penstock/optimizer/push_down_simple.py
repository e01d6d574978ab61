"""Update pattern simplification, simple half: moves projections below strict operators.

A projection is weakest non-monotonic; below a semi or anti join it never sees a negative row (Golab
& Özsu 2005, §5.4.2). It may move if it passes the columns that the join compares unchanged and
cannot fail on rows that the join leaves out. It also moves into the sides of a UNION ALL, closer to
the scans. Filters have their own rule.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Column
from penstock.logical.failing import can_fail
from penstock.logical.nodes import Join, JoinKind, Node, Project, SetKind, SetOp
from penstock.optimizer.rewrite import over
from penstock.optimizer.stats import Stats


def push_down_simple(node: Node, stats: Stats) -> Node:
    """Move projections below semi joins, anti joins and UNION ALL.

    before: π k, a (s ▷ k = k t)
    after:  π k, a (s) ▷ k = k t
    """
    if isinstance(node, Project):
        node = _push(node)
    return over(node, [push_down_simple(child, stats) for child in node.inputs])


def _push(node: Project) -> Node:
    source = node.input
    match source:
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return node if any(map(can_fail, node.exprs)) else _below_exists(node, source)
        case SetOp(kind=SetKind.UNION, all=True):
            return source.with_inputs(*(replace(node, input=side) for side in source.inputs))
        case _:
            return node


def _below_exists(node: Project, join: Join) -> Node:
    found = {e.index: i for i, e in reversed(list(enumerate(node.exprs))) if isinstance(e, Column)}
    if not all(left in found for left, _ in join.equi):
        return node
    equi = tuple((found[left], right) for left, right in join.equi)
    return replace(join, left=replace(node, input=join.left), equi=equi)
