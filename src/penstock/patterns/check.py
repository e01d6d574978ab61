"""Rejects plans that cannot run: unrequested unbounded state, and misplaced NRRs.

A stream without a window may pass through stateless operators (filter, projection, UNION ALL, join
with a non-retroactive table). A plan with an operator that would keep its rows forever is an error
unless [UNBOUNDED] is written (DESIGN §3). The check accepts plans before and after lowering.
"""

from __future__ import annotations

from penstock.errors import PlanError
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetKind,
    SetOp,
    Unbounded,
    Windowed,
    walk,
)
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import is_nrr, nrr_stream_side, pattern_of

_JOIN_NAMES = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "EXISTS / IN (semi join)",
    JoinKind.ANTI: "NOT EXISTS / NOT IN (anti join)",
}


def check_bounded(node: Node) -> None:
    """Raise PlanError if `node` would keep unbounded state or uses a table where it may not."""
    _check_tables(node)
    for part in walk(node):
        name = stateful_name(part)
        for child in part.inputs if name else ():
            _refuse_open(name, child)
        if isinstance(part, Windowed):
            _check_window(part)
    if pattern_of(node) is not Pattern.MON:
        _refuse_open("a view", node)


def stateful_name(node: Node) -> str:
    """The operator's name in SQL if it keeps state, else ''."""
    match node:
        case Join():
            return "" if nrr_stream_side(node) is not None else _JOIN_NAMES[node.kind]
        case Distinct():
            return "DISTINCT"
        case GroupBy():
            return "GROUP BY" if node.keys else "an aggregate"
        case SetOp():
            if node.kind is SetKind.UNION and node.all:
                return ""
            return node.kind.value.upper() + (" ALL" if node.all else "")
        case _:
            return ""


def open_streams(node: Node) -> list[str]:
    """The streams that reach the output of `node` without a window."""
    if isinstance(node, Scan | Windowed) and node.window != Unbounded(explicit=False):
        return []
    if isinstance(node, Scan):
        return [node.stream]
    return [name for child in node.inputs for name in open_streams(child)]


def _refuse_open(operator: str, child: Node) -> None:
    for stream in open_streams(child):
        raise PlanError(
            f"{operator} over stream {stream} without a window would keep every row forever",
            code="PS-PLAN-001",
            remedy=f"give {stream} a window, such as {stream} [RANGE 10 MINUTES], "
            f"or write {stream} [UNBOUNDED] to keep all of it",
        )


def _check_window(node: Windowed) -> None:
    if pattern_of(node.input) is not Pattern.MON:
        raise PlanError(
            "a window can only be put over a subquery or view that never deletes a result",
            code="PS-PLAN-004",
            remedy="put the window on the streams inside the subquery",
        )


def _check_tables(node: Node) -> None:
    """Raise PlanError unless every NRR is below an inner join, on one side only."""
    if is_nrr(node):
        raise _misplaced(node)
    if not isinstance(node, Join):
        for child in node.inputs:
            _check_tables(child)
        return
    _check_join_tables(node)


def _check_join_tables(join: Join) -> None:
    sides = [side for side in join.inputs if is_nrr(side)]
    if join.kind is JoinKind.INNER and len(sides) == 1:
        stream = nrr_stream_side(join)
        if stream is not None:
            _check_tables(stream)
        return
    if sides and join.kind in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL):
        raise PlanError(
            f"{_JOIN_NAMES[join.kind]} cannot read non-retroactive table {_table_name(sides[0])}",
            code="PS-PLAN-003",
            remedy="use an inner join, or create the table without NONRETROACTIVE",
        )
    for side in join.inputs:
        _check_tables(side)


def _misplaced(node: Node) -> PlanError:
    return PlanError(
        f"the non-retroactive table {_table_name(node)} can only be joined to a stream",
        code="PS-PLAN-003",
        remedy="make it the right input of an inner join with a stream, "
        "or create the table without NONRETROACTIVE",
    )


def _table_name(node: Node) -> str:
    while isinstance(node, Filter | Project):
        node = node.input
    return str(getattr(node, "table", ""))
