"""Questions that the planner asks about logical nodes before it builds operators for them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.logical.expr import Agg, Column, params_of
from penstock.logical.nodes import Filter, Node, Project, SetKind, SetOp, TableScan


def reaching(node: Node) -> Iterator[Node]:
    """Nodes that pass rows to `node` through operators that do not read lineage."""
    yield node
    match node:
        case Filter() if not params_of(node.predicate):
            yield from reaching(node.input)
        case Project() if not any(params_of(e) for e in node.exprs):
            yield from reaching(node.input)
        case SetOp(kind=SetKind.UNION):
            yield from (below for side in node.inputs for below in reaching(side))


def is_nonretroactive(node: Node) -> bool:
    """Whether a table subplan reads a non-retroactive relation."""
    if isinstance(node, TableScan):
        return node.nonretroactive
    return any(is_nonretroactive(child) for child in node.inputs)


def counts_rows(aggs: tuple[Agg, ...]) -> bool:
    """Whether every aggregate is count(*)."""
    return all(a.fn == "count" and a.arg is None and a.filter is None for a in aggs)


def plain_columns(node: Project) -> tuple[int, ...] | None:
    """The columns a projection takes, None when it computes something."""
    places = tuple(e.index for e in node.exprs if isinstance(e, Column))
    return places if len(places) == len(node.exprs) else None


def is_identity(node: Project) -> bool:
    """Whether a projection yields the columns of its input as they are."""
    return plain_columns(node) == tuple(range(len(node.input.schema)))
