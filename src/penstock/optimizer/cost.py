"""The per-unit-time cost of a plan (Golab & Özsu 2005, §5.4.1).

Per operator: input rates λ1, λ2, input sizes N1, N2, output size and distinct counts d.
Selection, projection and union cost λ each; join and intersection probe what the other side
holds, N/d rows of equal key (N without a key); distinct finds its value by key; group-by
costs 2λ per aggregate; negation 2λ1·log d1 + 2λ2·log d2 and its premature ends. Every operator
but group-by costs twice as much when its input brings negative rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from penstock.logical.nodes import (
    Distinct,
    GroupBy,
    Join,
    JoinKind,
    Node,
    OneRow,
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


@dataclass(frozen=True, slots=True)
class Cost:
    """Work per second: of the whole plan and of each of its nodes (shared ones counted once)."""

    total: float
    per_node: Mapping[Node, float]


def cost(node: Node, stats: Stats) -> Cost:
    """What `node` costs per second by the statistics."""
    estimator = Estimator(stats)
    per_node: dict[Node, float] = {}

    def visit(part: Node) -> None:
        if part not in per_node:
            per_node[part] = _own(part, estimator) * _negative_factor(part)
            for child in part.inputs:
                visit(child)

    visit(node)
    return Cost(sum(per_node.values()), per_node)


def _negative_factor(node: Node) -> float:
    if isinstance(node, GroupBy):
        return 1.0
    inputs = [child for child in node.inputs if not isinstance(child, TableScan)]
    return 2.0 if any(pattern_of(child) is Pattern.STR for child in inputs) else 1.0


def _own(node: Node, estimator: Estimator) -> float:
    inputs = [estimator.of(child) for child in node.inputs]
    match node:
        case Scan() | TableScan() | ViewScan() | OneRow() | Windowed():
            return estimator.of(node).rate
        case GroupBy():
            return 2 * inputs[0].rate * max(1, len(node.aggs))
        case Join(kind=JoinKind.ANTI) | SetOp(kind=SetKind.EXCEPT):
            return _negation(node, inputs[0], inputs[1], estimator)
        case Join():
            return _join(node, inputs[0], inputs[1])
        case SetOp(kind=SetKind.INTERSECT):
            return inputs[0].rate * _fan(inputs[1]) + inputs[1].rate * _fan(inputs[0])
        case Distinct():
            return inputs[0].rate
        case _:
            return sum(i.rate for i in inputs)


def _join(node: Join, left: Estimate, right: Estimate) -> float:
    left_keys, right_keys = zip(*node.equi, strict=True) if node.equi else ((), ())
    work = left.rate * right.per_key(right_keys)
    if nrr_stream_side(node) is not None:
        return work  # updates of the table probe nothing
    return work + right.rate * left.per_key(left_keys)


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
