"""δ*: duplicate elimination that stores distinct values only (Golab & Özsu 2005, §5.3.1).

Per value: the largest expiry seen and the scheduled end of what was last emitted. An arrival
first settles its own value up to its time, so arrivals need no event queue; what is due by
the end of the step is settled by `settle_due`. Emitted rows are [value, ts, exp, sign]; those
made at the time of an arrival are in time order, all others are not. Invariant between
steps: every known value is present and both words lie after the clock.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I64, NEVER
from penstock.kernels.jit import kernel

LARGEST, END, LIVE = 0, 1, 2
WORDS = 4


@kernel
def _put(out: I64, n: int, value: int, ts: int, exp: int, sign: int) -> int:
    out[n, 0] = value
    out[n, 1] = ts
    out[n, 2] = exp
    out[n, 3] = sign
    return n + 1


@kernel
def arrive_explicit(ts: I64, exp: I64, ids: I64, val: I64) -> tuple[I64, I64, I64]:
    """Apply arrivals; ends are −1 rows. Returns rows in order, other rows, values to schedule."""
    rows = ts.shape[0]
    out = np.empty((rows, 4), np.int64)
    past = np.empty((rows, 4), np.int64)
    fresh = np.empty(rows, np.int64)
    n = m = p = 0
    for i in range(rows):
        v, t, e = ids[i], ts[i], exp[i]
        if val[v, LIVE] == 0:
            val[v, LIVE] = 1
            val[v, LARGEST] = e
            val[v, END] = e
            fresh[m] = v
            m += 1
            n = _put(out, n, v, t, NEVER, 1)
        elif val[v, LARGEST] < t:
            p = _put(past, p, v, val[v, LARGEST], NEVER, -1)
            n = _put(out, n, v, t, NEVER, 1)
            val[v, LARGEST] = e
        elif val[v, LARGEST] < e:
            val[v, LARGEST] = e
    return out[:n], past[:p], fresh[:m]


@kernel
def _renew(out: I64, n: int, v: int, val: I64) -> int:
    """Follow the row that ends at END by one that ends at LARGEST."""
    n = _put(out, n, v, val[v, END], val[v, LARGEST], 1)
    val[v, END] = val[v, LARGEST]
    return n


@kernel
def arrive_expiring(ts: I64, exp: I64, ids: I64, val: I64) -> tuple[I64, I64, I64]:
    """Apply arrivals; rows end silently. Returns as `arrive_explicit`."""
    rows = ts.shape[0]
    out = np.empty((rows, 4), np.int64)
    past = np.empty((rows, 4), np.int64)
    fresh = np.empty(rows, np.int64)
    n = m = p = 0
    for i in range(rows):
        v, t, e = ids[i], ts[i], exp[i]
        if val[v, LIVE] == 0:
            val[v, LIVE] = 1
            fresh[m] = v
            m += 1
        else:
            if val[v, END] < t and val[v, LARGEST] > val[v, END]:
                p = _renew(past, p, v, val)
            if val[v, END] > t:
                val[v, LARGEST] = max(val[v, LARGEST], e)
                continue
            if val[v, END] == t:
                val[v, LARGEST] = max(val[v, LARGEST], e)
                n = _renew(out, n, v, val)
                continue
        val[v, LARGEST] = e
        val[v, END] = e
        n = _put(out, n, v, t, e, 1)
    return out[:n], past[:p], fresh[:m]


@kernel
def settle_due(due: I64, now: int, explicit: bool, val: I64) -> tuple[I64, I64, I64]:
    """Settle scheduled values up to `now`: emitted rows, values to schedule again, values gone."""
    rows = due.shape[0]
    out = np.empty((rows, 4), np.int64)
    again = np.empty(rows, np.int64)
    gone = np.empty(rows, np.int64)
    n = m = d = 0
    for i in range(rows):
        v = due[i]
        if explicit:
            if val[v, LARGEST] <= now:
                n = _put(out, n, v, val[v, LARGEST], NEVER, -1)
            val[v, END] = val[v, LARGEST]
        elif val[v, END] <= now and val[v, LARGEST] > val[v, END]:
            n = _renew(out, n, v, val)
        if val[v, END] <= now:
            val[v, LIVE] = 0
            gone[d] = v
            d += 1
        else:
            again[m] = v
            m += 1
    return out[:n], again[:m], gone[:d]


@kernel
def merge_by_time(first: I64, second: I64) -> I64:
    """Two outputs in time order as one, one matrix row per word."""
    a, b = first.shape[0], second.shape[0]
    out = np.empty((4, a + b), np.int64)
    i = j = 0
    for n in range(a + b):
        if j == b or (i < a and first[i, 1] <= second[j, 1]):
            for c in range(4):
                out[c, n] = first[i, c]
            i += 1
        else:
            for c in range(4):
                out[c, n] = second[j, c]
            j += 1
    return out


# ---- expirations in order: values in a list by largest expiry ---------------------------
BEFORE, AFTER = 1, 3  # chain words, plus 1; END is not needed when only the last end counts
FIRST, LAST, FINGER, SINK = 0, 1, 2, 3  # registers, values plus 1
REGS = 4
_BLOCK = 64


@kernel
def _unchain(v: int, val: I64, regs: I64) -> None:
    before, after = val[v, BEFORE], val[v, AFTER]
    if before:
        val[before - 1, AFTER] = after
    else:
        regs[FIRST] = after
    if after:
        val[after - 1, BEFORE] = before
    else:
        regs[LAST] = before
    if regs[FINGER] == v + 1:
        regs[FINGER] = before if before else after


@kernel
def _chain(v: int, val: I64, regs: I64) -> None:
    """Insert by largest expiry, next to the last insertion: at the end when rows are in order."""
    e = val[v, LARGEST]
    before = regs[FINGER]
    while before and val[before - 1, LARGEST] > e:
        before = val[before - 1, BEFORE]
    after = val[before - 1, AFTER] if before else regs[FIRST]
    while after and val[after - 1, LARGEST] <= e:
        before, after = after, val[after - 1, AFTER]
    val[v, BEFORE] = before
    val[v, AFTER] = after
    if before:
        val[before - 1, AFTER] = v + 1
    else:
        regs[FIRST] = v + 1
    if after:
        val[after - 1, BEFORE] = v + 1
    else:
        regs[LAST] = v + 1
    regs[FINGER] = v + 1


@kernel
def _warm(ids: I64, start: int, stop: int, val: I64) -> int:
    """Read values and their neighbours ahead, so that the misses overlap."""
    total = 0
    for i in range(start, stop):
        total ^= val[ids[i], LIVE]
    for i in range(start, stop):
        v = ids[i]
        total ^= val[max(val[v, BEFORE] - 1, 0), LIVE] ^ val[max(val[v, AFTER] - 1, 0), LIVE]
    return total


@kernel
def renew_in_order(ts: I64, exp: I64, ids: I64, now: int, val: I64, regs: I64) -> tuple[I64, I64]:
    """Apply arrivals and ends up to `now` in time order: emitted rows and the values gone."""
    rows = ts.shape[0]
    out = np.empty((2 * rows + 16, 4), np.int64)
    gone = np.empty(rows + 16, np.int64)
    n = d = 0
    for i in range(rows + 1):
        if i % _BLOCK == 0:
            regs[SINK] = _warm(ids, i, min(i + _BLOCK, rows), val)
        # at instant t what ends at t may still be renewed; after the last row nothing may
        limit = ts[i] - 1 if i < rows else now
        while regs[FIRST] and val[regs[FIRST] - 1, LARGEST] <= limit:
            v = regs[FIRST] - 1
            if d == gone.shape[0]:
                gone = np.concatenate((gone, np.empty_like(gone)))
            if n == out.shape[0]:
                out = np.concatenate((out, np.empty_like(out)))
            n = _put(out, n, v, val[v, LARGEST], NEVER, -1)
            gone[d] = v
            d += 1
            val[v, LIVE] = 0
            _unchain(v, val, regs)
        if i == rows:
            break
        v = ids[i]
        if val[v, LIVE] == 0:
            val[v, LIVE] = 1
            if n == out.shape[0]:
                out = np.concatenate((out, np.empty_like(out)))
            n = _put(out, n, v, ts[i], NEVER, 1)
        elif val[v, LARGEST] < exp[i]:
            _unchain(v, val, regs)
        else:
            continue
        val[v, LARGEST] = exp[i]
        _chain(v, val, regs)
    return out[:n], _still_gone(gone[:d], val)


@kernel
def _still_gone(candidates: I64, val: I64) -> I64:
    out = np.empty(candidates.shape[0], np.int64)
    n = 0
    for k in range(candidates.shape[0]):
        if val[candidates[k], LIVE] == 0:
            val[candidates[k], LIVE] = 1
            out[n] = candidates[k]
            n += 1
    for k in range(n):
        val[out[k], :] = 0
    return out[:n]


@kernel
def unchain_all(ids: I64, val: I64, regs: I64) -> None:
    """Take values out of the list and clean their words."""
    for k in range(ids.shape[0]):
        _unchain(ids[k], val, regs)
        val[ids[k], :] = 0
