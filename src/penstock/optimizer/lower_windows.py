"""lower_windows: moves a time window over a stateless subplan to the subplan's streams.

RANGE and NOW use only a row's time, which filters, projections, unions and joins with
non-retroactive tables do not change. ROWS counts rows, so it stays where it is written.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import PlanError
from penstock.logical.nodes import (
    Filter,
    Join,
    Node,
    Project,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Window,
    Windowed,
)
from penstock.optimizer.rewrite import over


def lower_windows(node: Node) -> Node:
    """Remove time windows over subplans.

    before: (σ a > 7 (s)) [RANGE 10]
    after:  σ a > 7 (s [RANGE 10])
    """
    node = over(node, [lower_windows(child) for child in node.inputs])
    if isinstance(node, Windowed) and not isinstance(node.window, Rows):
        return _put(node.input, node.window)
    return node


def _put(node: Node, window: Window) -> Node:
    if isinstance(node, Scan) and isinstance(node.window, Unbounded):
        return replace(node, window=window)
    if isinstance(node, TableScan):
        return node
    stateless = isinstance(node, Filter | Project) or (
        isinstance(node, SetOp) and node.kind is SetKind.UNION and node.all
    )
    if stateless:
        return node.with_inputs(*(_put(child, window) for child in node.inputs))
    if isinstance(node, Join):
        return node.with_inputs(_put(node.left, window), node.right)
    raise PlanError(
        f"a window cannot be put over {type(node).__name__}: its rows already have a window",
        remedy="write the window on the stream inside the subquery or view",
    )
