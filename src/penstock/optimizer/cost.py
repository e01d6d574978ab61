"""The per-unit-time cost of a plan (Golab & Özsu 2005, §5.4.1).

The cost of an operator depends on its input rates λ1, λ2, input sizes N1, N2, output size and
distinct counts d. Selection, projection and union cost λ each. A join or intersection probes the
other side's state: N/d rows of equal key, or N without a key. Distinct looks its value up by key.
Group-by costs 2λ per aggregate. Negation costs 2λ1·log d1 + 2λ2·log d2 plus its premature ends.
Every operator except group-by costs twice as much if its input brings negative rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Received,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    ViewScan,
    Windowed,
)
from penstock.optimizer.estimate import Estimate, Estimator
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import nrr_stream_side, pattern_of

_OWN: dict[type[Node], Callable[..., float]] = {}


@dataclass(frozen=True, slots=True)
class Cost:
    """Work per second of the whole plan and of each of its nodes; a shared node counts once."""

    total: float
    per_node: Mapping[Node, float]


def cost(node: Node, stats: Stats) -> Cost:
    """The cost of `node` per second, according to the statistics."""
    estimator = Estimator(stats)
    per_node: dict[Node, float] = {}

    def visit(part: Node) -> None:
        if part not in per_node:
            per_node[part] = _OWN[type(part)](part, estimator) * _negative_factor(part)
            for child in part.inputs:
                visit(child)

    visit(node)
    return Cost(sum(per_node.values()), per_node)


def _negative_factor(node: Node) -> float:
    if isinstance(node, GroupBy):
        return 1.0
    inputs = [child for child in node.inputs if not isinstance(child, TableScan)]
    return 2.0 if any(pattern_of(child) is Pattern.STR for child in inputs) else 1.0


# ---- the work of an operator itself --------------------------------------------------
@case(_OWN, Scan, TableScan, ViewScan, Received)
def _leaf(node: Node, estimator: Estimator) -> float:
    return estimator.of(node).rate


@case(_OWN, Filter, Project, Windowed, Distinct)
def _per_row(node: Node, estimator: Estimator) -> float:
    return estimator.of(node.inputs[0]).rate


@case(_OWN, GroupBy)
def _group_by(node: GroupBy, estimator: Estimator) -> float:
    return 2 * estimator.of(node.input).rate * max(1, len(node.aggs))


@case(_OWN, Join)
def _join(node: Join, estimator: Estimator) -> float:
    left, right = estimator.of(node.left), estimator.of(node.right)
    if node.kind is JoinKind.ANTI:
        return _negation(node, left, right, estimator)
    left_keys, right_keys = zip(*node.equi, strict=True) if node.equi else ((), ())
    work = left.rate * right.per_key(right_keys)
    if nrr_stream_side(node) is not None:
        return work  # table updates do not probe
    return work + right.rate * left.per_key(left_keys)


@case(_OWN, SetOp)
def _set_op(node: SetOp, estimator: Estimator) -> float:
    left, right = estimator.of(node.left), estimator.of(node.right)
    match node.kind:
        case SetKind.EXCEPT:
            return _negation(node, left, right, estimator)
        case SetKind.INTERSECT:
            return left.rate * _fan(right) + right.rate * _fan(left)
        case SetKind.UNION:
            return left.rate + right.rate


def _negation(node: Node, left: Estimate, right: Estimate, estimator: Estimator) -> float:
    if isinstance(node, Join):
        left_keys, right_keys = zip(*node.equi, strict=True) if node.equi else ((), ())
    else:
        left_keys = right_keys = tuple(range(len(node.schema)))
    counts = 2 * left.rate * _log(left.values(left_keys))
    counts += 2 * right.rate * _log(right.values(right_keys))
    return counts + estimator.stats.premature_share(node) * left.rate


def _fan(side: Estimate) -> float:
    return side.per_key(tuple(range(len(side.distinct))))


def _log(values: float) -> float:
    return log2(max(2.0, values))


complete(_OWN, subclasses(nodes, Node), "cost")
