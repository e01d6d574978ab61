"""Semi and anti join: left values chained by key, right rows counted by key.

A left value is in the answer while its key is matched (semi) or unmatched (anti). When the right
count of a key leaves or reaches 0, all its left values follow. Events come as the four streams of
`kernels.set_op`; left events carry value ids, right events key ids. The first words of a value are
those of `kernels.prefix`. Chain numbers and keys are stored plus 1, so that 0 means none.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.prefix import COUNT, MARK, SHOWN, apply_left, flush, resize, warm_rows
from penstock.kernels.set_op import (
    BLOCK,
    LEFT,
    LEFT_GONE,
    NATURAL,
    PREMATURE,
    SINK,
    grown,
    next_instant,
    put_copies,
    warm,
)

KEY, BEFORE, AFTER = 7, 8, 9  # words of a value after those of the list: key, its chain
VALUE_WORDS = 10
RIGHTS, FIRST, MATCHED, K_MARK = 0, 1, 2, 3  # words of a key
KEY_WORDS = 4


@kernel
def adopt(values: I64, keys: I64, val: I64, key: I64) -> None:
    """Link each of `values` that has no key yet to its key's chain."""
    for i in range(values.shape[0]):
        v, k = values[i], keys[i]
        if val[v, KEY] == 0:
            first = key[k, FIRST]
            val[v, KEY] = k + 1
            val[v, BEFORE] = 0
            val[v, AFTER] = first
            if first:
                val[first - 1, BEFORE] = v + 1
            key[k, FIRST] = v + 1


@kernel
def orphan(values: I64, val: I64, key: I64) -> I64:
    """Unlink empty `values` and reset their words; returns the keys that are then empty."""
    spare = np.empty(values.shape[0], np.int64)
    n = 0
    for i in range(values.shape[0]):
        v = values[i]
        k = val[v, KEY] - 1
        before, after = val[v, BEFORE], val[v, AFTER]
        if before:
            val[before - 1, AFTER] = after
        else:
            key[k, FIRST] = after
        if after:
            val[after - 1, BEFORE] = before
        val[v, :] = 0
        if key[k, FIRST] == 0 and key[k, RIGHTS] == 0:
            spare[n] = k
            n += 1
    return spare[:n]


@kernel
def _warm_keys(ids: I64, start: int, stop: int, val: I64, key: I64) -> int:
    """Read ahead the values of the next left events and their keys."""
    total = warm(ids, start, stop, val)
    for p in range(start, stop):
        total ^= key[val[ids[p], KEY] - 1, RIGHTS]
    return total


@kernel
def _touch_key(key: I64, k: int) -> bool:
    """Record, before the first event of an instant, whether key `k` is matched."""
    if key[k, K_MARK]:
        return False
    key[k, K_MARK] = 1
    key[k, MATCHED] = key[k, RIGHTS] > 0
    return True


@inlined
def _show(
    expiring: bool, target: int, v: int, ts: int, val: I64, slots: I64, regs: I64, out: I64, n: int
) -> tuple[I64, int]:
    """Put `target` rows of value `v` in the answer, and emit the changes."""
    if expiring:
        resize(val, slots, v, target)
        return flush(val, slots, regs, v, ts, out, n)
    change = target - val[v, SHOWN]
    regs[PREMATURE] += max(min(val[v, SHOWN], val[v, COUNT]) - target, 0)
    val[v, SHOWN] = target
    while n + abs(change) > out.shape[0]:
        out = grown(out)
    return out, put_copies(out, n, v, ts, change)


@kernel
def _warm(
    stream: int, expiring: bool, ids: I64, start: int, stop: int, val: I64, slots: I64, key: I64
) -> int:
    """Read ahead what the next events of a stream need."""
    if stream > LEFT:
        return warm(ids, start, stop, key)
    total = _warm_keys(ids, start, stop, val, key)
    return total ^ warm_rows(ids, start, stop, val, slots) if expiring else total


@kernel
def net_semi(
    anti: bool, expiring: bool, ts: I64, ids: I64, step: I64, exp: I64, offsets: I64,
    val: I64, slots: I64, key: I64, regs: I64,
) -> I64:  # fmt: skip
    """Apply all events and return the emitted rows.

    With `expiring`, rows keep their expiry (`kernels.prefix`) and only premature ends are −1 rows.
    Otherwise every end is a −1 row, and `slots` and `exp` are not read.
    """
    total = ts.shape[0]
    out = np.empty((total + 16, 4), np.int64)
    values, keys = np.empty(total, np.int64), np.empty(total, np.int64)
    pos, warmed = offsets[:-1].copy(), offsets[:-1].copy()
    n = 0
    while True:
        t = next_instant(ts, pos, offsets)
        if t == NEVER:
            break
        m = q = 0
        for s in range(4):
            p, stop = pos[s], offsets[s + 1]
            while p < stop and ts[p] == t:
                if p == warmed[s]:
                    warmed[s] = min(p + BLOCK, stop)
                    regs[SINK] = _warm(s, expiring, ids, p, warmed[s], val, slots, key)
                i = ids[p]
                if s > LEFT:
                    if _touch_key(key, i):
                        keys[q] = i
                        q += 1
                    key[i, RIGHTS] += step[p]
                else:
                    if val[i, MARK] == 0:
                        val[i, MARK] = 1
                        values[m] = i
                        m += 1
                    if expiring:
                        apply_left(s, p, step, exp, i, val, slots, regs)
                    else:
                        val[i, COUNT] += step[p]
                        regs[NATURAL] += s == LEFT_GONE and val[i, SHOWN] > 0
                p += 1
            pos[s] = p
        for j in range(m):
            v = values[j]
            val[v, MARK] = 0
            matched = key[val[v, KEY] - 1, RIGHTS] > 0
            target = val[v, COUNT] if matched != anti else 0
            out, n = _show(expiring, target, v, t, val, slots, regs, out, n)
        for j in range(q):
            k = keys[j]
            key[k, K_MARK] = 0
            matched = key[k, RIGHTS] > 0
            link = 0 if matched == (key[k, MATCHED] > 0) else key[k, FIRST]
            while link:
                v = link - 1
                target = val[v, COUNT] if matched != anti else 0
                out, n = _show(expiring, target, v, t, val, slots, regs, out, n)
                link = val[v, AFTER]
    return out[:n]
