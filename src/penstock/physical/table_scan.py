"""Table scan: the rows of a table, then its changes, each at the start of its batch."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta
from penstock.kernels.rows import select_columns
from penstock.physical.operator import Operator
from penstock.physical.specs import TableScanSpec
from penstock.state.arena import Scope
from penstock.state.table_store import TableStore


class TableScanOp(Operator):
    """Rows of a table; they belong to no epoch, so every query sees them."""

    def __init__(self, spec: TableScanSpec, scope: Scope, table: TableStore) -> None:
        super().__init__(spec, (), scope)
        self.node = spec.table
        self.table = table
        scope.array("position", 1, fill=-1)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """The whole table in the first step, then its changes since the last step."""
        position = self.scope["position"]
        start = int(position[0])
        position[0] = self.table.end
        if start < 0:
            return self._delta(self.table.contents(), None, clock.before)
        if start == self.table.end:
            return Delta.empty(len(self.edge.schema))
        rows, sign = self.table.changes(start)
        return self._delta(rows, sign, clock.before)

    def _delta(self, rows: I64, sign: I64 | None, ts: int) -> Delta:
        n = rows.shape[1]
        return Delta(
            select_columns(rows, self.node.columns),
            np.full(n, ts),
            np.full(n, NEVER),
            np.ones(n, np.int8) if sign is None else sign.astype(np.int8),
            np.full(n, NEVER),
        )

    def has_input(self, now: int) -> bool:
        """Whether the table changed since the last step."""
        return self.table.end != int(self.scope["position"][0])

    def contents(self, clock: Clock) -> Delta:
        """The current rows of the table."""
        return self._delta(self.table.contents(), None, clock.now)
