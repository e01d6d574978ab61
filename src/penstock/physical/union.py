"""Union: the rows of both inputs in time order, left before right at equal times.

Each input's rows of one instant stay together, so (−2, +2) pairs stay adjacent. The output's
pattern follows rule 2 of Golab & Özsu §5.2: the more complex of the inputs'.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import Clock, Delta, Lineage, merge
from penstock.errors import PlanError
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.operator import Operator
from penstock.state.arena import Scope

_ORDER = (Pattern.MON, Pattern.WKS, Pattern.WK, Pattern.STR)


def union_edge(left: Edge, right: Edge) -> Edge:
    """What is known of the union of two edges."""
    if left.lineage is not right.lineage:
        raise PlanError(
            f"a union of rows at level {Lineage(left.lineage).name} and {right.lineage.name}"
        )
    pattern = max(left.pattern, right.pattern, key=_ORDER.index)
    span = left.span if left.span == right.span else None
    fifo = left.fifo and right.fifo and span is not None
    if pattern is Pattern.WKS and not fifo:
        # Rows of windows of different lengths do not leave in the order they came.
        pattern = Pattern.WK
    return Edge(
        schema=left.schema,
        pattern=pattern,
        lineage=left.lineage,
        expiring=left.expiring or right.expiring,
        negatives=left.negatives or right.negatives,
        fifo=fifo,
        span=span,
        keyed=left.keyed or right.keyed,
    )


class UnionOp(Operator):
    """UNION ALL of two inputs with equal column types."""

    name = "union"

    def __init__(self, left: Operator, right: Operator, scope: Scope) -> None:
        super().__init__([left, right], union_edge(left.edge, right.edge), scope)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Merge by time."""
        return self._merged(inputs)

    def _merged(self, parts: list[Delta]) -> Delta:
        """What is of one instant, as all is at commit, in order of expiry if that is promised."""
        delta = merge(parts, len(self.edge.schema))
        if self.edge.fifo and (delta.exp[1:] < delta.exp[:-1]).any():
            return delta.take(np.lexsort((delta.exp, delta.ts)))
        return delta

    def contents(self, clock: Clock) -> Delta:
        """The contents of both inputs."""
        return self._merged([op.contents(clock) for op in self.inputs])
