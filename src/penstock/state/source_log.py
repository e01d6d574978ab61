"""Source log: the admitted rows of one stream in applied order, until every reader has passed them.

Rows are in order of (ts, arrival). Rows at or before the watermark never move, because later rows
are not older than the watermark; so a reader is a position. Positions are absolute and survive
trimming. RETAIN keeps rows that all readers have passed.

Most rows are read only in the step in which they arrive. So rows that arrive at an empty log stay
in their columns, and only rows still needed at the end of the step are copied to the arena.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.schema import Schema
from penstock.state.arena import Scope

_HEAD, _TAIL, _BASE, _WATERMARK = 0, 1, 2, 3
_ARRAYS = ("ts", "epoch", "rows")


@dataclass(frozen=True, slots=True)
class _Fresh:
    """Rows of this step (column-major) in order of time that are not in the arena."""

    rows: I64
    ts: I64
    epoch: int | I64

    def epochs(self, part: slice) -> I64:
        """The epochs of some rows."""
        if isinstance(self.epoch, int):
            return np.full(self.ts[part].shape[0], self.epoch)
        return self.epoch[part]


class SourceLog:
    """The reordered rows of a stream and its watermark."""

    def __init__(self, scope: Scope, schema: Schema, retain: int) -> None:
        self.scope = scope
        self.schema = schema
        self.retain = retain
        self._fresh: _Fresh | None = None
        scope.array("ts", 16)
        scope.array("epoch", 16)
        scope.array("rows", (16, 1 + len(schema)))
        if "regs" not in scope:
            regs = scope.array("regs", 4)
            regs[_WATERMARK] = BEGINNING

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    @property
    def _regs(self) -> I64:
        return cast(I64, self.scope["regs"])

    @property
    def watermark(self) -> int:
        """No row older than this will be accepted."""
        return int(self._regs[_WATERMARK])

    def advance(self, ts: int) -> None:
        """Raise the watermark; it never goes back."""
        regs = self._regs
        regs[_WATERMARK] = max(int(regs[_WATERMARK]), ts)

    @property
    def discarded(self) -> int:
        """The number of discarded rows: the absolute position of the first kept one."""
        return int(self._regs[_BASE])

    def pass_by(self, rows: int) -> None:
        """Advance the position by rows that this log does not store."""
        self._regs[_BASE] += rows

    def __len__(self) -> int:
        return int(self._times().shape[0])

    def _times(self) -> I64:
        """The times of all rows."""
        if self._fresh is not None:
            return self._fresh.ts
        regs = self._regs
        return self._arr("ts")[int(regs[_HEAD]) : int(regs[_TAIL])]

    def add(self, rows: I64, ts: I64, epoch: int | I64) -> None:
        """Insert a batch (column-major rows), keeping (ts, arrival) order."""
        n = ts.shape[0]
        if n == 0:
            return
        if n > 1 and bool(np.any(ts[1:] < ts[:-1])):
            order = np.argsort(ts, kind="stable")
            ts, rows = ts[order], rows[:, order]
            epoch = epoch if isinstance(epoch, int) else epoch[order]
        self._settle()
        if len(self) or self.retain:
            self._insert(rows, ts, epoch)
        else:
            self._fresh = _Fresh(np.ascontiguousarray(rows), ts, epoch)

    def _settle(self, gone: int = 0) -> None:
        """Move the rows held for the step into the arena, except the first ones."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None and gone < fresh.ts.shape[0]:
            rest = slice(gone, None)
            self._insert(fresh.rows[:, rest], fresh.ts[rest], fresh.epochs(rest))

    def _insert(self, rows: I64, ts: I64, epoch: int | I64) -> None:
        n = ts.shape[0]
        self._room(n)
        regs = self._regs
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        times = self._arr("ts")
        times[tail : tail + n] = ts
        self._arr("epoch")[tail : tail + n] = epoch
        self._arr("rows")[tail : tail + n] = rows.T
        regs[_TAIL] = tail + n
        if tail > head and ts[0] < times[tail - 1]:
            start = head + int(np.searchsorted(times[head:tail], ts[0], side="right"))
            order = start + np.argsort(times[start : tail + n], kind="stable")
            for name in _ARRAYS:
                array = self._arr(name)
                array[start : tail + n] = array[order]

    def _room(self, n: int) -> None:
        """Make room for more rows: move rows down if that frees enough, else grow."""
        regs = self._regs
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        live, capacity = tail - head, self._arr("ts").shape[0]
        need = live + max(live, n, 16)
        if tail + n <= capacity:
            return
        for name in _ARRAYS:
            if need <= capacity:
                array = self._arr(name)
                array[:live] = array[head:tail]
            else:
                self.scope.renew(name, slice(head, tail), need + need // 8)
        regs[_HEAD], regs[_TAIL] = 0, live

    def shrink(self) -> None:
        """Free the unused room, as before the state is saved."""
        self._settle()
        regs = self._regs
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        for name in _ARRAYS:
            self.scope.renew(name, slice(head, tail), tail - head)
        regs[_HEAD], regs[_TAIL] = 0, tail - head

    def position(self, ts: int, *, after: bool) -> int:
        """Absolute position of the first row with time > ts (`after`) or ≥ ts."""
        found = int(self._times().searchsorted(ts, "right" if after else "left"))
        return self.discarded + found

    def read(self, start: int, end: int) -> tuple[I64, I64, I64]:
        """Rows at absolute positions [start, end): (rows row-major, ts, epoch), as views."""
        self._settle()
        return self._stored(self._part(start, end))

    def read_all(self) -> tuple[I64, I64, I64]:
        """All rows in the same form."""
        self._settle()
        regs = self._regs
        return self._stored(slice(int(regs[_HEAD]), int(regs[_TAIL])))

    def _stored(self, part: slice) -> tuple[I64, I64, I64]:
        return self._arr("rows")[part], self._arr("ts")[part], self._arr("epoch")[part]

    def passing(self) -> tuple[I64, I64, I64]:
        """All rows in the form of `read`, in memory of this step, for a single pass."""
        if self._fresh is None:
            return self.read_all()
        fresh = self._fresh
        return fresh.rows.T, fresh.ts, fresh.epochs(slice(None))

    def columns(self, start: int, end: int, chosen: I64 | None) -> tuple[I64, I64, I64]:
        """Rows at absolute positions [start, end): (chosen words column-major, ts, epoch).

        They may be views, and two readers may get the same memory.
        """
        part = self._part(start, end)
        if self._fresh is None:
            rows = self._arr("rows")[part]
            words = rows.T if chosen is None else rows[:, chosen].T
            return np.ascontiguousarray(words), self._arr("ts")[part], self._arr("epoch")[part]
        fresh = self._fresh
        words = fresh.rows[:, part] if chosen is None else fresh.rows[chosen, part]
        return np.ascontiguousarray(words), fresh.ts[part], fresh.epochs(part)

    def _part(self, start: int, end: int) -> slice:
        """Where rows at absolute positions lie."""
        regs = self._regs
        base, head = int(regs[_BASE]), 0 if self._fresh is not None else int(regs[_HEAD])
        return slice(max(start - base, 0) + head, max(end - base, 0) + head)

    def trim(self, reader: int) -> None:
        """Discard rows before position `reader` that RETAIN does not keep."""
        regs = self._regs
        gone = max(0, self._kept_from(reader) - int(regs[_BASE]))
        regs[_BASE] += gone
        if self._fresh is not None:
            self._settle(gone)
        else:
            regs[_HEAD] += gone
            if regs[_HEAD] == regs[_TAIL]:
                regs[_HEAD] = regs[_TAIL] = 0

    def _kept_from(self, reader: int) -> int:
        """The position of the first row that a reader or RETAIN still needs."""
        if self.watermark == BEGINNING:
            return self.discarded
        keep = min(reader, self.position(self.watermark, after=True))
        if self.retain:
            keep = min(keep, self.position(self.watermark - self.retain, after=False))
        return keep
