"""Set operations on counts: multiplicities v1, v2 of a value decide its own, netted per instant.

Events come as four streams, each in time order, concatenated: left expirations, left
arrivals, right expirations, right arrivals. All events of an instant are applied before
any value is compared with what it was, so their order does not matter. Eq. 1 of Golab &
Özsu 2005 (§2.1) is `EXCEPT_ALL`. Emitted rows are [value, ts, exp, sign].

An event of either sign may raise or lower a multiplicity: with EXCEPT, a right row that comes ends
a result (case 2 of Ghanem et al. 2005, §5.1: an invalid tuple), and one that leaves brings it back
(case 3); left rows, and rows of INTERSECT and DISTINCT, give results of their own sign (1 and 4).
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.jit import inlined, kernel

EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT = 0, 1, 2, 3
LEFT_GONE, LEFT = 0, 1  # streams; then those of the right
C_LEFT, C_RIGHT, C_BEFORE, C_MARK = 0, 1, 2, 3
WORDS = 4
PREMATURE, NATURAL, SINK = 0, 1, 2
REGS = 3
BLOCK = 64  # events warmed at once


@kernel
def multiplicity(kind: int, v1: int, v2: int) -> int:
    """The multiplicity in the answer of a value with v1 rows left and v2 rows right."""
    if kind == EXCEPT_ALL:
        return max(v1 - v2, 0)
    if kind == EXCEPT:
        return 1 if v1 > 0 and v2 <= 0 else 0
    if kind == INTERSECT_ALL:
        return max(min(v1, v2), 0)
    return 1 if v1 > 0 and v2 > 0 else 0


@kernel
def next_instant(ts: I64, pos: I64, offsets: I64) -> int:
    """The earliest time at the heads of the streams, NEVER when all are consumed."""
    least = NEVER
    for s in range(pos.shape[0]):
        if pos[s] < offsets[s + 1] and ts[pos[s]] < least:
            least = ts[pos[s]]
    return least


@kernel
def warm(ids: I64, start: int, stop: int, words: I64) -> int:
    """Read the words of the next ids one after another.

    The loads do not depend on each other, so the misses overlap; the events that follow
    would meet them one by one. Returns something that depends on all of them.
    """
    total = 0
    for p in range(start, stop):
        total ^= words[ids[p], 0]
    return total


@kernel
def grown(out: I64) -> I64:
    """A larger copy of an output buffer."""
    new = np.empty((2 * out.shape[0] + 16, out.shape[1]), out.dtype)
    new[: out.shape[0]] = out
    return new


@inlined
def put_copies(out: I64, n: int, v: int, ts: int, change: int) -> int:
    """Emit |change| rows of value `v`, for which there is room; the new number of rows."""
    for _ in range(abs(change)):
        out[n, 0] = v
        out[n, 1] = ts
        out[n, 2] = NEVER
        out[n, 3] = 1 if change > 0 else -1
        n += 1
    return n


@kernel
def net_counts(
    kind: int, ts: I64, ids: I64, step: I64, offsets: I64, val: I64, regs: I64
) -> tuple[I64, I64]:
    """Apply all events; returns emitted rows (|change| per value and instant) and dead values."""
    total = ts.shape[0]
    out = np.empty((total, 4), np.int64)
    touched = np.empty(total, np.int64)
    dead = np.empty(total, np.int64)
    pos = offsets[:-1].copy()
    warmed = pos.copy()
    n = d = 0
    while True:
        t = next_instant(ts, pos, offsets)
        if t == NEVER:
            break
        m = 0
        for s in range(4):
            p, stop = pos[s], offsets[s + 1]
            while p < stop and ts[p] == t:
                if p == warmed[s]:
                    warmed[s] = min(p + BLOCK, stop)
                    regs[SINK] = warm(ids, p, warmed[s], val)
                v = ids[p]
                v1, v2 = val[v, C_LEFT], val[v, C_RIGHT]
                if val[v, C_MARK] == 0:
                    val[v, C_MARK] = 1
                    val[v, C_BEFORE] = multiplicity(kind, v1, v2)
                    touched[m] = v
                    m += 1
                if s == LEFT_GONE:
                    val[v, C_MARK] += 1  # ends up to this many are natural
                val[v, s >> 1] += step[p]
                p += 1
            pos[s] = p
        for k in range(m):
            v = touched[k]
            v1, v2 = val[v, C_LEFT], val[v, C_RIGHT]
            change = multiplicity(kind, v1, v2) - val[v, C_BEFORE]
            if change < 0:
                natural = min(-change, val[v, C_MARK] - 1)
                regs[NATURAL] += natural
                regs[PREMATURE] -= change + natural
            val[v, C_MARK] = 0
            n = put_copies(out, n, v, t, change)
            if v1 == 0 and v2 == 0:
                dead[d] = v
                d += 1
    return out[:n], unused(dead[:d], val, C_LEFT, C_RIGHT, C_MARK)


@kernel
def vacant(candidates: I64, words: I64, first: int, second: int, mark: int) -> I64:
    """The distinct `candidates` with both words `first` and `second` equal to 0.

    The word `mark` is 0 before and after.
    """
    n = 0
    out = np.empty(candidates.shape[0], np.int64)
    for k in range(candidates.shape[0]):
        v = candidates[k]
        if words[v, first] == 0 and words[v, second] == 0 and words[v, mark] == 0:
            words[v, mark] = 1
            out[n] = v
            n += 1
    for k in range(n):
        words[out[k], mark] = 0
    return out[:n]


@kernel
def unused(candidates: I64, words: I64, first: int, second: int, mark: int) -> I64:
    """The vacant ones, all their words cleaned."""
    out = vacant(candidates, words, first, second, mark)
    for k in range(out.shape[0]):
        words[out[k], :] = 0
    return out


@kernel
def repeat_counts(kind: int, ids: I64, val: I64) -> I64:
    """Each of `ids` as often as it is in the answer."""
    total = 0
    for k in range(ids.shape[0]):
        total += multiplicity(kind, val[ids[k], C_LEFT], val[ids[k], C_RIGHT])
    out = np.empty(total, np.int64)
    n = 0
    for k in range(ids.shape[0]):
        for _ in range(multiplicity(kind, val[ids[k], C_LEFT], val[ids[k], C_RIGHT])):
            out[n] = ids[k]
            n += 1
    return out
