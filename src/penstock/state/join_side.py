"""Stored rows of one side of a join: an append log with hash chains over it.

Dead rows (expired or retracted) stay in the log until they outnumber the live ones; then the log is
compacted in order and its chains are rebuilt (Golab & Özsu §2.1: join state may expire lazily if
expired rows are skipped). While rows come in order of `exp`, the dead rows are a prefix. Otherwise
scans count them; insertions and steps limit how much may be scanned.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I8, I64, NEVER, Bool
from penstock.delta import Delta
from penstock.kernels.jit import kernel
from penstock.kernels.join import (
    COLUMNS,
    CREDIT,
    DISORDERED,
    FIRST,
    I32,
    LAST_EXP,
    LEAST_LIN,
    LIN,
    NULLS,
    REMOVALS,
    REMOVED,
    SOME_NULL,
    USED,
    Chains,
)
from penstock.kernels.rows import gather_rows
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_LOG = ("next", "exp", "rows", "chain")
_SMALL = 64  # with fewer dead rows, compaction does not pay
_STEP_CREDIT = 1024  # most rows that a step without insertions may scan


@kernel
def append_rows(
    following: I32, log_exp: I64, state: I64, chain: I64, count: I64, regs: I64,
    rows: I64, exp: I64, lin: I64, sign: I8, ids: I64,
) -> I64:  # fmt: skip
    """Append the + rows that have a chain, not linked yet; returns the slot of each row, or −1."""
    n, width = rows.shape[1], rows.shape[0]
    slots = np.empty(n, np.int64)
    used, last = regs[USED], regs[LAST_EXP]
    before, nulls, least = used, 0, regs[LEAST_LIN]
    for i in range(n):
        if sign[i] < 0 or ids[i] < 0:
            slots[i] = -1
            continue
        following[used] = -1
        log_exp[used] = exp[i]
        state[used, LIN] = lin[i]
        for c in range(width):
            state[used, NULLS + c] = rows[c, i]
        nulls |= rows[0, i]
        least = min(least, lin[i])
        chain[used] = ids[i]
        count[ids[i]] += 1
        if exp[i] < last:
            regs[DISORDERED] = 1
        last = max(last, exp[i])
        slots[i] = used
        used += 1
    regs[USED] = used
    regs[LAST_EXP] = last
    regs[CREDIT] += 4 * (used - before)
    regs[LEAST_LIN] = least
    if nulls != 0:
        regs[SOME_NULL] = 1
    return slots


@kernel
def count_dead(following: I32, exp: I64, regs: I64, now: int) -> int:
    """The number of dead rows at `now`: exact if in order, else counted if a scan may run."""
    used = regs[USED]
    if regs[DISORDERED] == 0:
        first = regs[FIRST]
        while first < used and (exp[first] <= now or following[first] == REMOVED):
            if following[first] == REMOVED:
                regs[REMOVALS] -= 1
            first += 1
        regs[FIRST] = first
        return int(first + regs[REMOVALS])
    if regs[CREDIT] < used:
        return 0
    regs[CREDIT] = 0
    dead = 0
    for row in range(used):
        if exp[row] <= now or following[row] == REMOVED:
            dead += 1
    return dead


@kernel
def compact_rows(
    following: I32, exp: I64, state: I64, chain: I64, head: I32, count: I64, regs: I64, now: int
) -> I64:
    """Drop dead rows in order and rebuild chains; returns the chains of the dropped rows."""
    used = regs[USED]
    dropped = np.empty(used, np.int64)
    for row in range(used):
        head[chain[row]] = -1
    gone, kept, last, disordered, least = 0, 0, BEGINNING, 0, NEVER
    for row in range(used):
        if exp[row] <= now or following[row] == REMOVED:
            dropped[gone] = chain[row]
            count[chain[row]] -= 1
            gone += 1
            continue
        for c in range(state.shape[1]):
            state[kept, c] = state[row, c]
        least = min(least, state[kept, LIN])
        own = chain[row]
        chain[kept] = own
        exp[kept] = exp[row]
        following[kept] = head[own]
        head[own] = kept
        if exp[kept] < last:
            disordered = 1
        last = max(last, exp[kept])
        kept += 1
    state[kept:used] = 0  # no stale string codes
    regs[USED], regs[FIRST], regs[REMOVALS] = kept, 0, 0
    regs[DISORDERED], regs[LAST_EXP], regs[LEAST_LIN] = disordered, last, least
    return dropped[:gone]


@kernel
def empty_chains(candidates: I64, count: I64, other: I64) -> I64:
    """The candidates without logged rows on either side, without repetition."""
    out = np.empty(candidates.shape[0], np.int64)
    n = 0
    for k in range(candidates.shape[0]):
        own = candidates[k]
        if count[own] == 0 and other[own] == 0:
            count[own] = -1  # seen
            out[n] = own
            n += 1
    for k in range(n):
        count[out[k]] = 0
    return out[:n]


class JoinSide:
    """One side's rows of `columns` columns, in the arena.

    If `scanned`, no use is made of rows that come in order of `exp`.
    """

    def __init__(self, scope: Scope, columns: int, scanned: bool = False) -> None:
        self.scope, self._scanned = scope, scanned
        scope.array("next", 64, np.int32)
        scope.array("exp", 64)
        scope.array("rows", (64, COLUMNS + columns))
        scope.array("chain", 64)
        scope.array("head", 32, np.int32, fill=-1)
        scope.array("count", 32)
        if "regs" not in scope:
            regs = scope.array("regs", 8)
            regs[LAST_EXP], regs[LEAST_LIN] = BEGINNING, NEVER
            regs[DISORDERED] = scanned

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    @property
    def next(self) -> I32:
        """The next older row in the chain of each logged row."""
        return cast(I32, self.scope["next"])

    @property
    def exp(self) -> I64:
        """The expiry of each logged row."""
        return self._arr("exp")

    @property
    def state(self) -> I64:
        """The row-major log; `kernels/join.py` tells its columns."""
        return self._arr("rows")

    @property
    def chain(self) -> I64:
        """The chain of each logged row."""
        return self._arr("chain")

    @property
    def head(self) -> I32:
        """The newest row of each chain."""
        return cast(I32, self.scope["head"])

    @property
    def disordered(self) -> bool:
        """Whether rows came out of order of `exp`."""
        return bool(self._arr("regs")[DISORDERED])

    def __len__(self) -> int:
        return int(self._arr("regs")[USED] - self._arr("regs")[REMOVALS])

    @property
    def count(self) -> I64:
        """Logged rows, dead or alive, of each chain."""
        return self._arr("count")

    def reserve(self, ids: int) -> None:
        """Make room for chains below `ids`."""
        self.scope.reserve("head", ids, fill=-1)
        self.scope.reserve("count", ids)

    def append(self, delta: Delta, ids: I64) -> I64:
        """Log the + rows that have a chain; returns the slot of each row of `delta`, or −1."""
        need = int(self._arr("regs")[USED]) + len(delta)
        for name in _LOG:
            self.scope.reserve(name, need)
        log = (self.next, self.exp, self.state, self.chain, self.count, self._arr("regs"))
        return append_rows(*log, delta.rows, delta.exp, delta.lin, delta.sign, ids)

    @property
    def some_null(self) -> bool:
        """Whether a row with a NULL was ever logged."""
        return bool(self._arr("regs")[SOME_NULL])

    @property
    def least_lin(self) -> int:
        """A lower bound of the lineage of all logged rows."""
        return int(self._arr("regs")[LEAST_LIN])

    def chains(self, before: int = BEGINNING, *, link: bool = True, probe: bool = True) -> Chains:
        """The side as kernels read it; `link` rows of its events, `probe` the other side.

        No row that expired by `before` is alive.
        """
        regs = self._arr("regs")
        arrays = (self.next, self.exp, self.state, self.head, regs)
        span = (int(regs[USED]), self._alive_from(before))
        return Chains(*arrays, *span, not self.disordered, link, probe)

    def _alive_from(self, now: int) -> int:
        """The first slot that may be alive at `now`; exact while rows are in order."""
        first, used = int(self._arr("regs")[FIRST]), int(self._arr("regs")[USED])
        if self.disordered or first == used:
            return first
        return first + int(np.searchsorted(self.exp[first:used], now, side="right"))

    def due(self, after: int, until: int) -> I64:
        """Slots of the rows that expire in (after, until], in order of expiry."""
        if not self.disordered:
            return np.arange(self._alive_from(after), self._alive_from(until))
        exp = self.exp[: self._arr("regs")[USED]]
        slots = np.flatnonzero((exp > after) & (exp <= until))
        return slots[np.argsort(exp[slots], kind="stable")]

    def live(self, now: int) -> I64:
        """Slots of the rows alive at `now`, in order of arrival."""
        used = self._arr("regs")[USED]
        return np.flatnonzero((self.exp[:used] > now) & (self.next[:used] != REMOVED))

    def delta(self, slots: I64, now: int) -> Delta:
        """The rows at `slots` as + rows of the instant `now`."""
        matrix = gather_rows(self.state, slots)
        n = slots.shape[0]
        plus = np.ones(n, np.int8)
        return Delta(matrix[NULLS:], np.full(n, now), self.exp[slots], plus, matrix[LIN])

    def tidy(self, now: int) -> I64:
        """Compact if the dead rows outnumber the live ones; returns the chains that lost rows."""
        regs = self._arr("regs")
        regs[CREDIT] += _STEP_CREDIT
        dead = count_dead(self.next, self.exp, regs, now)
        if dead < _SMALL or 2 * dead <= regs[USED]:
            return np.empty(0, np.int64)
        return self._compact(now)

    def sort(self, now: int) -> I64:
        """Sort a log that is out of order; returns the chains that lost rows."""
        if not self.disordered:
            return np.empty(0, np.int64)
        order = np.argsort(self.exp[: self._arr("regs")[USED]], kind="stable")
        for name in _LOG:
            array = self.scope[name]
            array[: order.shape[0]] = array[order]
        return self._compact(now)

    def remove(self, lins: I64) -> I64:
        """Drop all rows of these lineage ids; returns the chains that lost rows."""
        log = self.state[: self._arr("regs")[USED]]
        gone: Bool = np.isin(log[:, LIN], lins)
        if not gone.any():
            return np.empty(0, np.int64)
        self.next[np.flatnonzero(gone)] = REMOVED
        return self._compact(BEGINNING)

    def renumber(self, old: I64, new_of: I64) -> None:
        """Change the numbers of chains from `old` to `new_of[old]`; other chains have no rows."""
        for name, fill in (("head", -1), ("count", 0)):
            before = self.scope[name]
            array = np.full(max(32, old.shape[0]), fill, before.dtype)
            array[new_of[old]] = before[old]
            self.scope[name] = array
        used = self._arr("regs")[USED]
        self.chain[:used] = new_of[self.chain[:used]]

    def _compact(self, now: int) -> I64:
        regs = self._arr("regs")
        dropped = compact_rows(
            self.next, self.exp, self.state, self.chain, self.head, self.count, regs, now
        )
        regs[DISORDERED] |= self._scanned
        room = max(64, 2 * int(regs[USED]))
        if 2 * room < self.state.shape[0]:
            for name in _LOG:
                self.scope[name] = self.scope[name][:room].copy()
        return dropped


def release_chains(keys: KeyTable, scope: Scope, sides: list[JoinSide], dropped: I64) -> KeyTable:
    """Recycle chains in `dropped` without rows on any side; returns the table.

    The table is rebuilt if it is far too large.
    """
    if not dropped.shape[0]:
        return keys
    for side in sides:
        side.reserve(keys.capacity)
    keys.release(empty_chains(dropped, sides[0].count, sides[-1].count))
    if keys.capacity < 4096 or 8 * len(keys) > keys.capacity:
        return keys
    old = keys.live()
    words = keys.keys[old].copy()
    new_of = np.full(keys.capacity, -1, np.int64)
    scope.free()
    keys = KeyTable(scope, words.shape[1])
    new_of[old] = keys.assign(words)
    for side in sides:
        side.renumber(old, new_of)
    return keys
