"""Receive: rows that level 1 sent, as the leaf of a plan in level 2 (docs/design/0004-spark.md).

The rows of a step come and go within it, so there is no state: what must be remembered is
remembered above (by operators with state, `KeepOp`, or the view).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.patterns.edge import Edge
from penstock.physical.operator import Operator
from penstock.state.arena import Scope


def received_edge(sent: Edge) -> Edge:
    """The edge of sent rows after rows of several shards were merged by time.

    Rows no longer expire in order of arrival, and two shards may send what nets to nothing.
    """
    return replace(sent, fifo=False, span=None, netted=False)


class ReceiveOp(Operator):
    """Hands on the rows of the step."""

    name = "receive"

    def __init__(self, channel: int, edge: Edge, scope: Scope) -> None:
        super().__init__((), edge, scope)
        self.channel = channel
        self._inbox = Delta.empty(len(edge.schema))

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

    def detail(self) -> str:
        """The channel."""
        return f"channel {self.channel}"
