"""δ*: duplicate elimination that stores distinct values only (Golab & Özsu 2005, §5.3.1).

For each value it stores the largest expiry seen and the scheduled end of the last emitted row. An
arrival first settles its own value up to its time, so no event queue is needed; `settle_due`
settles what is due by the end of the step. Emitted rows are [value, ts, exp, sign]. Rows emitted at
the time of an arrival are in time order, all others are not. Invariant between steps: every known
value is present, and both words are after the clock.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import AHEAD, prefetch

LARGEST, END, LIVE = 0, 1, 2
WORDS = 3


@inlined
def _put(out: I64, n: int, value: int, ts: int, exp: int, sign: int) -> int:
    out[n, 0] = value
    out[n, 1] = ts
    out[n, 2] = exp
    out[n, 3] = sign
    return n + 1


@kernel
def arrive_explicit(ts: I64, exp: I64, ids: I64, val: I64, at_commit: bool) -> tuple[I64, I64, I64]:
    """Apply arrivals; ends are −1 rows. Returns rows in order, other rows, values to schedule.

    With `at_commit`, a value that ended and returned within the step counts as unchanged.
    """
    rows = ts.shape[0]
    out = np.empty((rows, 4), np.int64)
    past = np.empty((rows, 4), np.int64)
    fresh = np.empty(rows, np.int64)
    n = m = p = 0
    for i in range(rows):
        prefetch(val, ids[min(i + AHEAD, rows - 1)], LARGEST)
        v, t, e = ids[i], ts[i], exp[i]
        if val[v, LIVE] == 0:
            val[v, LIVE] = 1
            val[v, LARGEST] = e
            val[v, END] = e
            fresh[m] = v
            m += 1
            n = _put(out, n, v, t, NEVER, 1)
        elif val[v, LARGEST] < t and not at_commit:
            p = _put(past, p, v, val[v, LARGEST], NEVER, -1)
            n = _put(out, n, v, t, NEVER, 1)
            val[v, LARGEST] = e
        elif val[v, LARGEST] < e:
            val[v, LARGEST] = e
    return out[:n], past[:p], fresh[:m]


@inlined
def _renew(out: I64, n: int, v: int, val: I64) -> int:
    """Emit a row that follows the one ending at END and ends at LARGEST."""
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
        prefetch(val, ids[min(i + AHEAD, rows - 1)], LARGEST)
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
    """Settle scheduled values up to `now`: emitted rows, values to reschedule, released values."""
    rows = due.shape[0]
    out = np.empty((rows, 4), np.int64)
    again = np.empty(rows, np.int64)
    gone = np.empty(rows, np.int64)
    n = m = d = 0
    for i in range(rows):
        prefetch(val, due[min(i + AHEAD, rows - 1)], LARGEST)
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
    """Merge two outputs by time; the result has one matrix row per word."""
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
