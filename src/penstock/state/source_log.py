"""Source log: the admitted rows of one stream in applied order, until every reader is past them.

Rows lie in order of (ts, arrival). Rows at or before the watermark never move, because later
rows are not older than the watermark; so a reader is a position. Positions are absolute and
survive trimming. RETAIN keeps rows that readers are done with.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.delta import BEGINNING, I64
from penstock.schema import Schema
from penstock.state.arena import Scope

_HEAD, _TAIL, _BASE, _WATERMARK = 0, 1, 2, 3


class SourceLog:
    """The reordered rows of a stream and its watermark."""

    def __init__(self, scope: Scope, schema: Schema, retain: int) -> None:
        self.scope = scope
        self.schema = schema
        self.retain = retain
        scope.array("ts", 16)
        scope.array("epoch", 16)
        scope.array("rows", (16, 1 + len(schema)))
        if "regs" not in scope:
            regs = scope.array("regs", 4)
            regs[_WATERMARK] = BEGINNING

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    @property
    def watermark(self) -> int:
        """No row older than this will be accepted."""
        return int(self._arr("regs")[_WATERMARK])

    def advance(self, ts: int) -> None:
        """Raise the watermark; it never goes back."""
        regs = self._arr("regs")
        regs[_WATERMARK] = max(int(regs[_WATERMARK]), ts)

    @property
    def discarded(self) -> int:
        """How many rows are gone for good: the absolute position of the first one kept."""
        return int(self._arr("regs")[_BASE])

    def pass_by(self, rows: int) -> None:
        """Count rows that went elsewhere: they are not here, and never will be."""
        self._arr("regs")[_BASE] += rows

    def __len__(self) -> int:
        regs = self._arr("regs")
        return int(regs[_TAIL] - regs[_HEAD])

    def add(self, rows: I64, ts: I64, epoch: int | I64) -> None:
        """Insert a batch (column-major rows), keeping (ts, arrival) order."""
        n = ts.shape[0]
        if n == 0:
            return
        if n > 1 and bool(np.any(ts[1:] < ts[:-1])):
            order = np.argsort(ts, kind="stable")
            ts, rows = ts[order], rows[:, order]
            epoch = epoch if isinstance(epoch, int) else epoch[order]
        self._room(n)
        regs = self._arr("regs")
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        times = self._arr("ts")
        times[tail : tail + n] = ts
        self._arr("epoch")[tail : tail + n] = epoch
        self._arr("rows")[tail : tail + n] = rows.T
        regs[_TAIL] = tail + n
        if tail > head and ts[0] < times[tail - 1]:
            start = head + int(np.searchsorted(times[head:tail], ts[0], side="right"))
            order = start + np.argsort(times[start : tail + n], kind="stable")
            for name in ("ts", "epoch", "rows"):
                array = self._arr(name)
                array[start : tail + n] = array[order]

    def _room(self, n: int) -> None:
        regs = self._arr("regs")
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        need = tail + n
        if head and need > self._arr("ts").shape[0]:
            live = tail - head
            need = 2 * (live + n)  # moving down pays for as many again
            for name in ("ts", "epoch", "rows"):
                array = self._arr(name)
                array[:live] = array[head:tail].copy()
            regs[_HEAD], regs[_TAIL] = 0, live
        for name in ("ts", "epoch", "rows"):
            self.scope.reserve(name, need)

    def position(self, ts: int, *, after: bool) -> int:
        """Absolute position of the first row with time > ts (`after`) or ≥ ts."""
        regs = self._arr("regs")
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        side = "right" if after else "left"
        found = int(np.searchsorted(self._arr("ts")[head:tail], ts, side=side))  # type: ignore[call-overload]
        return int(regs[_BASE]) + found

    def read(self, start: int, end: int) -> tuple[I64, I64, I64]:
        """Rows at absolute positions [start, end): (rows row-major, ts, epoch), as views."""
        regs = self._arr("regs")
        shift = int(regs[_HEAD] - regs[_BASE])
        part = slice(max(start, self.discarded) + shift, max(end, self.discarded) + shift)
        return self._arr("rows")[part], self._arr("ts")[part], self._arr("epoch")[part]

    def trim(self, reader: int) -> None:
        """Discard rows before position `reader` that RETAIN does not ask for."""
        if self.watermark == BEGINNING:
            return
        keep = min(reader, self.position(self.watermark, after=True))
        if self.retain:
            keep = min(keep, self.position(self.watermark - self.retain, after=False))
        regs = self._arr("regs")
        gone = max(0, keep - int(regs[_BASE]))
        regs[_HEAD] += gone
        regs[_BASE] += gone
