"""ROWS window: a row lives until `count` newer rows of its partition arrived (DESIGN §3).

The end of a row cannot be predicted, so the edge is strict (Golab & Özsu 2005, §7): a displaced row
leaves as a −1 row. A row displaced in the step and at the instant in which it came is not shown at
all.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.delta import Clock, Delta
from penstock.kernels.rows import gather_rows, key_rows, scatter_rows
from penstock.kernels.rows_window import displace_rows
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.specs import RowsWindowSpec
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_USED, _FREE = 0, 1
_DEAD = BEGINNING


class RowsWindowOp(Operator):
    """Keeps the last rows of a stream, or of each of its partitions."""

    def __init__(self, spec: RowsWindowSpec, source: Operator, scope: Scope) -> None:
        super().__init__(spec, (source,), scope)
        self.window = window = spec.window
        self._keys = KeyTable(scope.scope("keys"), 2 + len(window.partition))
        for name in ("heads", "tails", "counts"):
            scope.array(name, 8)
        scope.array("rows", (8, 1 + len(spec.edge.schema)))
        scope.array("next", 8)
        scope.array("ts", 8, fill=_DEAD)
        scope.array("lin", 8)
        scope.array("free", 8)
        scope.array("regs", 2)

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Emit new rows and displaced rows, in time order."""
        delta = inputs[0]
        n = len(delta)
        if n == 0:
            return delta
        slots = self._store(delta)
        ids = self._partitions(delta)
        queues = (self._arr(a) for a in ("heads", "tails", "counts", "next"))
        out = displace_rows(ids, slots, self.window.count, *queues)
        return self._emit(delta, slots, out)

    def _partitions(self, delta: Delta) -> I64:
        columns = np.array(self.window.partition, np.int64)
        ids = self._keys.assign(key_rows(delta.rows, np.zeros(len(delta), np.int64), columns))
        for name in ("heads", "tails", "counts"):
            self.scope.reserve(name, self._keys.capacity)
        return ids

    def _store(self, delta: Delta) -> I64:
        regs = self._arr("regs")
        n = len(delta)
        reused = min(n, int(regs[_FREE]))
        free = self._arr("free")[regs[_FREE] - reused : regs[_FREE]][::-1]
        slots = np.concatenate([free, np.arange(regs[_USED], regs[_USED] + n - reused)])
        regs[_FREE] -= reused
        regs[_USED] += n - reused
        for name, fill in (("rows", 0), ("next", 0), ("ts", _DEAD), ("lin", 0), ("free", 0)):
            self.scope.reserve(name, int(regs[_USED]), fill)
        scatter_rows(self._arr("rows"), slots, delta.rows)
        self._arr("ts")[slots] = delta.ts
        self._arr("lin")[slots] = delta.lin
        return slots

    def _emit(self, delta: Delta, slots: I64, displaced: I64) -> Delta:
        n = len(delta)
        cause = np.flatnonzero(displaced >= 0)
        gone = displaced[cause]
        arrived = np.full(self._arr("ts").shape[0], -1, np.int64)
        arrived[slots] = np.arange(n)  # position in this batch, −1 for older rows
        came = arrived[gone]
        unseen = (came >= 0) & (self._arr("ts")[gone] == delta.ts[cause])
        shown = np.ones(n, np.bool_)
        shown[came[unseen]] = False
        cause, leaving = cause[~unseen], gone[~unseen]
        minus = Delta(
            gather_rows(self._arr("rows"), leaving),
            delta.ts[cause],
            np.full(leaving.shape[0], NEVER),
            np.full(leaving.shape[0], -1, np.int8),
            self._arr("lin")[leaving],
        )
        plus = delta.take(np.flatnonzero(shown)).with_(exp=np.full(int(shown.sum()), NEVER))
        self._release(gone)
        place = np.concatenate([2 * cause, 2 * np.flatnonzero(shown) + 1])
        order = np.argsort(place, kind="stable")
        return Delta(
            np.concatenate([minus.rows, plus.rows], axis=1)[:, order],
            np.concatenate([minus.ts, plus.ts])[order],
            np.full(order.shape[0], NEVER),
            np.concatenate([minus.sign, plus.sign])[order],
            np.concatenate([minus.lin, plus.lin])[order],
        )

    def _release(self, slots: I64) -> None:
        regs = self._arr("regs")
        start = int(regs[_FREE])
        self.scope.reserve("free", start + slots.shape[0])
        self._arr("free")[start : start + slots.shape[0]] = slots
        self._arr("ts")[slots] = _DEAD
        regs[_FREE] += slots.shape[0]

    def _live(self) -> I64:
        used = int(self._arr("regs")[_USED])
        return np.flatnonzero(self._arr("ts")[:used] != _DEAD)

    def contents(self, clock: Clock) -> Delta:
        """The rows in the window, oldest first."""
        live = self._live()
        live = live[np.argsort(self._arr("ts")[live], kind="stable")]
        n = live.shape[0]
        return Delta(
            gather_rows(self._arr("rows"), live),
            np.full(n, clock.now),
            np.full(n, NEVER),
            np.ones(n, np.int8),
            self._arr("lin")[live],
        )

    def rows(self) -> int:
        """Rows in the window."""
        regs = self._arr("regs")
        return int(regs[_USED] - regs[_FREE])

    def strings(self) -> list[StringColumns]:
        """Stored rows and partition keys."""
        columns = self.edge.schema.string_columns
        part = tuple(2 + j for j, c in enumerate(self.window.partition) if c in columns)
        found = [StringColumns(f"{self.scope.prefix}/rows", tuple(1 + c for c in columns))]
        if part:
            found.append(StringColumns(f"{self.scope.prefix}/keys/keys", part))
        return found if columns else []
