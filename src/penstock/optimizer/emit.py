"""Chooses how a keyed operator ends its results: silently at `exp`, or by −1 rows.

*expiring* suits a join above, because the join then sees few negative rows. *explicit* suits a view
and every keyed operator, because they need net changes (Golab & Özsu 2005, §5.3.2 and §5.4.3). A
negation below a join is expiring only while premature ends are rare.
"""

from __future__ import annotations

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
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Emit

FEW_PREMATURE = 0.25


def choose_emit(node: Node, parent: Node | None, stats: Stats) -> Emit:
    """How `node` should emit to `parent`, its nearest consumer except filters and projections."""
    if not isinstance(parent, Join) or parent.kind is not JoinKind.INNER:
        return "explicit"
    match node:
        case Distinct() | SetOp(kind=SetKind.INTERSECT):
            return "expiring"
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI) | SetOp(kind=SetKind.EXCEPT):
            return "expiring" if stats.premature_share(node) < FEW_PREMATURE else "explicit"
        case _:
            return "explicit"


def choose_emits(root: Node, stats: Stats) -> dict[Node, Emit]:
    """The choice for every keyed operator of a plan; explicit if two uses disagree.

    An expiring Distinct renews its rows: a row leaves and comes back at the same instant. So it is
    used only below a keyed operator that nets such pairs, and no user sees them.
    """
    chosen: dict[Node, Emit] = {}

    def visit(node: Node, parent: Node | None, netted: bool) -> None:
        if can_choose(node):
            mine = choose_emit(node, parent, stats)
            if isinstance(node, Distinct) and not netted:
                mine = "explicit"
            chosen[node] = mine if chosen.get(node, mine) == mine else "explicit"
        netted = netted or can_choose(node) or isinstance(node, GroupBy)
        for child in node.inputs:
            visit(child, consumer(node, parent), netted)

    visit(root, None, False)
    return chosen


def consumer(node: Node, parent: Node | None) -> Node | None:
    """The nearest consumer of the inputs of `node`, given that of `node` itself."""
    return parent if isinstance(node, Filter | Project) else node


def can_choose(node: Node) -> bool:
    """Whether the operator of `node` can emit either way."""
    match node:
        case Distinct() | Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return True
        case SetOp():
            return node.kind is not SetKind.UNION
        case _:
            return False
