"""Receive: rows that level 1 sent, as the leaf of a plan in level 2 (docs/design/0004-spark.md).

The rows of a step come and go within it, so there is no state: what must be remembered is
remembered above (by operators with state, `KeepOp`, or the view).
"""

from __future__ import annotations

from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.physical.operator import Operator
from penstock.physical.specs import ReceiveSpec
from penstock.state.arena import Scope


class ReceiveOp(Operator):
    """Hands on the rows of the step."""

    def __init__(self, spec: ReceiveSpec, scope: Scope) -> None:
        super().__init__(spec, (), scope)
        self.channel = spec.channel
        self._inbox = Delta.empty(len(self.edge.schema))

    def put(self, delta: Delta) -> None:
        """Rows for the step to come."""
        if len(self._inbox):
            raise PlanError(f"two deliveries on channel {self.channel} in one step")
        self._inbox = delta

    def has_input(self) -> bool:
        """Whether rows wait."""
        return len(self._inbox) > 0

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """The rows that came for this step."""
        delta, self._inbox = self._inbox, Delta.empty(len(self.edge.schema))
        return delta
