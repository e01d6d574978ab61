"""Plans of re-evaluation: windows as always, and what is above them as a plan of its own.

The leaves of the inner plan are windows: a stream's, also where a selection in a flow fills it, the
last rows of a stream, a table, a view, rows of another level, and a join with a non-retroactive
table, which must remember what its rows joined. What never retracts a row (MON) has nothing to
evaluate again.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.logical.nodes import Join, Node, Received, Scan, TableScan, ViewScan, Windowed
from penstock.optimizer.flow_block import find_block
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import is_table
from penstock.physical.draft import Draft
from penstock.physical.reevaluate_specs import HeldSpec, HoldSpec, ReevaluateSpec
from penstock.physical.shapes import is_nonretroactive
from penstock.physical.specs import Spec

Make = Callable[[Draft, Node], Spec]


def with_windows_apart(plain: Make, above: Make) -> Make:
    """The function that makes specs under re-evaluation.

    `plain` makes those of windows, `above` those of all other nodes.
    """

    def make(draft: Draft, node: Node) -> Spec:
        is_window = _is_leaf(draft, node, plain)
        return plain(draft, node) if is_window else _reevaluated(draft, node, plain, above)

    return make


def _reevaluated(outer: Draft, node: Node, plain: Make, above: Make) -> Spec:
    """The spec that evaluates `node` over its windows."""
    windows: list[Spec] = []

    def make(draft: Draft, part: Node) -> Spec:
        if not _is_leaf(outer, part, plain):
            return above(draft, part)
        window = outer.add(HoldSpec.of(outer.one_query(outer.build(part))))
        windows.append(window)
        return draft.add(HeldSpec.of(window), part)

    inner = Draft(outer.setting, [node], None, make)
    top = inner.one_query(inner.build(node))
    return outer.add(ReevaluateSpec.of(tuple(inner.specs), top, tuple(windows)), node)


def _is_leaf(draft: Draft, node: Node, plain: Make) -> bool:
    if isinstance(node, Scan | TableScan | ViewScan | Received | Windowed):
        return True
    if isinstance(node, Join) and is_table(node.right) and is_nonretroactive(node.right):
        return True
    block = find_block(node, draft.setting.streams)
    if block is not None and len(block.scans) == 1:
        return True
    return Draft(draft.setting, [node], None, plain).build(node).edge.pattern is Pattern.MON
