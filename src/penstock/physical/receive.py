"""Receive: the leaf of a level-2 plan, for rows that level 1 sent (docs/design/0004-spark.md).

It has no state: rows arrive and leave within one step. Operators above that have state, `KeepOp` or
the view remember what must be remembered.
"""

from __future__ import annotations

from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.physical.operator import Operator
from penstock.physical.specs import ReceiveSpec
from penstock.state.arena import Scope


class ReceiveOp(Operator):
    """Passes on the rows that were put for this step."""

    def __init__(self, spec: ReceiveSpec, scope: Scope) -> None:
        super().__init__(spec, (), scope)
        self.channel = spec.channel
        self._inbox = Delta.empty(len(self.edge.schema))

    def put(self, delta: Delta) -> None:
        """Add rows for the next step."""
        if len(self._inbox):
            raise PlanError(f"two deliveries on channel {self.channel} in one step")
        self._inbox = delta

    def has_input(self) -> bool:
        """Whether rows wait."""
        return len(self._inbox) > 0

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Return the rows that were put for this step."""
        delta, self._inbox = self._inbox, Delta.empty(len(self.edge.schema))
        return delta
