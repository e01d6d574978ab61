"""Union: the rows of both inputs in time order, left before right at equal times.

All rows of one input at one instant stay together, so (−2, +2) pairs stay adjacent.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import Clock, Delta, merge
from penstock.physical.operator import Operator


class UnionOp(Operator):
    """UNION ALL of two inputs with equal column types."""

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Merge the batches of both inputs by time."""
        return self._merged(inputs)

    def _merged(self, parts: list[Delta]) -> Delta:
        """Merge the parts of one instant, by expiry if the edge promises that order."""
        delta = merge(parts, len(self.edge.schema))
        if self.edge.fifo and (delta.exp[1:] < delta.exp[:-1]).any():
            return delta.take(np.lexsort((delta.exp, delta.ts)))
        return delta

    def contents(self, clock: Clock) -> Delta:
        """The contents of both inputs."""
        return self._merged([op.contents(clock) for op in self.inputs])
