"""View scan: the answer of a standing query when this plan starts, then its changes.

The engine delivers both (`begin`, `put`). They wait here until the clock of this plan reaches them;
this plan may follow more streams than the view does.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64, NEVER, Bool
from penstock.changes import Changes
from penstock.delta import Clock, Delta
from penstock.kernels.changes import INSERT, POSTIMAGE
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.specs import ViewScanSpec
from penstock.state.arena import Scope

_COUNT, _BEGUN = 0, 1
_TS, _SIGN, _ROW = 0, 1, 2


class ViewScanOp(Operator):
    """Rows of a view; they belong to no epoch, so every query sees them."""

    def __init__(self, spec: ViewScanSpec, scope: Scope) -> None:
        super().__init__(spec, (), scope)
        self.node = spec.view
        scope.array("regs", 2)
        scope.array("waiting", (8, _ROW + 1 + len(self.edge.schema)))

    @property
    def _regs(self) -> I64:
        return cast(I64, self.scope["regs"])

    @property
    def begun(self) -> bool:
        """Whether `begin` was called; changes count only from then on."""
        return bool(self._regs[_BEGUN])

    def begin(self, answer: I64 | None, ts: int) -> None:
        """Take the view's answer (column-major) as rows at `ts`; None if another shard has it."""
        self._regs[_BEGUN] = 1
        if answer is not None:
            n = answer.shape[1]
            self._wait(answer, np.full(n, ts), np.ones(n, np.int64))

    def put(self, changes: Changes, row: int) -> None:
        """Take the changes of one row of the view's Q."""
        if self.begun and len(changes):
            mine = changes.take(np.flatnonzero(_concerns(changes, row)))
            added = (mine.kind == INSERT) | (mine.kind == POSTIMAGE)
            self._wait(mine.rows, mine.time, np.where(added, 1, -1))

    def _wait(self, rows: I64, ts: I64, sign: I64) -> None:
        start = int(self._regs[_COUNT])
        end = start + ts.shape[0]
        self.scope.reserve("waiting", end)
        words = self.scope["waiting"][start:end]
        words[:, _TS], words[:, _SIGN] = ts, sign
        words[:, _ROW:] = rows.T
        self._regs[_COUNT] = end

    def _times(self) -> I64:
        return cast(I64, self.scope["waiting"][: int(self._regs[_COUNT]), _TS])

    def has_input(self, now: int) -> bool:
        """Whether a change waits for a step at `now`."""
        times = self._times()
        return times.shape[0] > 0 and bool(times[0] <= now)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """The changes up to the clock."""
        n = int(np.searchsorted(self._times(), clock.now, "right"))
        left = int(self._regs[_COUNT]) - n
        words = self.scope["waiting"]
        taken = cast(I64, words[:n].copy())
        words[:left] = words[n : n + left].copy()
        self._regs[_COUNT] = left
        ts = np.full(n, clock.now) if clock.at_commit else np.maximum(taken[:, _TS], clock.before)
        never = np.full(n, NEVER)
        rows = np.ascontiguousarray(taken[:, _ROW:].T)
        return Delta(rows, ts, never, taken[:, _SIGN].astype(np.int8), never)

    def rows(self) -> int:
        """Number of changes that wait."""
        return int(self._regs[_COUNT])

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of waiting rows."""
        columns = tuple(_ROW + 1 + c for c in self.edge.schema.string_columns)
        return [StringColumns(f"{self.scope.prefix}/waiting", columns)] if columns else []


def _concerns(changes: Changes, row: int) -> Bool:
    """Marks the changes that belong to one row of Q."""
    if changes.sets is None:
        return np.asarray(changes.qid == row)
    return changes.sets.holding(row)[changes.qid]
