"""Table store: the rows of a relation or NRR, and its changes until every reader has them."""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.schema import Schema
from penstock.state.arena import Scope

_ROWS, _CHANGES, _BASE = 0, 1, 2


class TableStore:
    """Rows of a table (a bag), row-major, and the log of its changes."""

    def __init__(self, scope: Scope, schema: Schema) -> None:
        self.scope = scope
        self.schema = schema
        scope.array("rows", (8, 1 + len(schema)))
        scope.array("log", (8, 1 + len(schema)))
        scope.array("log_sign", 8)
        scope.array("regs", 3)

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    def __len__(self) -> int:
        return int(self._arr("regs")[_ROWS])

    def contents(self) -> I64:
        """All rows, column-major."""
        return np.ascontiguousarray(self._arr("rows")[: len(self)].T)

    def replace(self, remove: I64, insert: I64) -> None:
        """Delete the rows at positions `remove`, then append `insert` (column-major)."""
        regs = self._arr("regs")
        old = self._arr("rows")[: len(self)]
        self._log(old[remove], -1)
        self._log(insert.T, 1)
        kept = np.delete(old, remove, axis=0)
        total = kept.shape[0] + insert.shape[1]
        self.scope.reserve("rows", total)
        rows = self._arr("rows")
        rows[: kept.shape[0]] = kept
        rows[kept.shape[0] : total] = insert.T
        regs[_ROWS] = total

    def _log(self, rows: I64, sign: int) -> None:
        regs = self._arr("regs")
        start = int(regs[_CHANGES])
        end = start + rows.shape[0]
        self.scope.reserve("log", end)
        self.scope.reserve("log_sign", end)
        self._arr("log")[start:end] = rows
        self._arr("log_sign")[start:end] = sign
        regs[_CHANGES] = end

    @property
    def end(self) -> int:
        """Absolute position after the last change."""
        regs = self._arr("regs")
        return int(regs[_BASE] + regs[_CHANGES])

    def changes(self, start: int) -> tuple[I64, I64]:
        """Changes from absolute position `start` on: (rows column-major, signs)."""
        regs = self._arr("regs")
        part = slice(start - int(regs[_BASE]), int(regs[_CHANGES]))
        return np.ascontiguousarray(self._arr("log")[part].T), self._arr("log_sign")[part]

    def trim(self) -> None:
        """Forget the changes; call it when every reader is at the end."""
        regs = self._arr("regs")
        regs[_BASE] += regs[_CHANGES]
        regs[_CHANGES] = 0
