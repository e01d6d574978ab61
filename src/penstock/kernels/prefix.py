"""Per value, its rows in order of expiry; a prefix of them is in the answer.

Keeping the earliest to expire in the answer makes expirations silent: only a shrinking
prefix retracts rows (Golab & Özsu 2005, §5.3.2). Rows that may have entered or left the
prefix at an instant are chained as *pending* to their value; `flush` compares before and after and
emits [value, ts, exp, sign]. Slot and chain numbers start at 1; 0 is none, so that a row of
zeros is a clean value.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.jit import kernel
from penstock.kernels.set_op import (
    BLOCK,
    LEFT,
    LEFT_GONE,
    NATURAL,
    PREMATURE,
    SINK,
    grown,
    next_instant,
    unused,
    warm,
)

# words of a value: rows, rows in the answer, list, last row in the answer, pending, mark
COUNT, SHOWN, HEAD, TAIL, LAST, PEND, MARK, RIGHT_COUNT = 0, 1, 2, 3, 4, 5, 6, 7
VALUE_WORDS = 8
# words of a slot
EXP, NEXT, PREV, FLAGS, LINK = 0, 1, 2, 3, 4
SLOT_WORDS = 5
IN, WAS, PENDING, GONE = 1, 2, 4, 8  # flags: in the answer now, before the instant, …
USED, FREE, FREED = 3, 4, 5  # registers behind those of set_op
REGS = 6


@kernel
def _free(slots: I64, regs: I64, s: int) -> None:
    slots[s, FLAGS] = 0
    slots[s, NEXT] = regs[FREE]
    regs[FREE] = s
    regs[FREED] += 1


@kernel
def _new(slots: I64, regs: I64, exp: int) -> int:
    if regs[FREE]:
        s = regs[FREE]
        regs[FREE] = slots[s, NEXT]
        regs[FREED] -= 1
    else:
        regs[USED] += 1
        s = regs[USED]
    slots[s, EXP] = exp
    slots[s, FLAGS] = 0
    slots[s, LINK] = 0
    return s


@kernel
def _pend(val: I64, slots: I64, v: int, s: int) -> None:
    if not slots[s, FLAGS] & PENDING:
        slots[s, FLAGS] |= PENDING
        slots[s, LINK] = val[v, PEND]
        val[v, PEND] = s


@kernel
def insert(val: I64, slots: I64, regs: I64, v: int, exp: int) -> None:
    """Add a row behind those that expire no later; inside the prefix it is in the answer."""
    s = _new(slots, regs, exp)
    before, after = val[v, TAIL], 0
    while before and slots[before, EXP] > exp:
        after = before
        before = slots[before, PREV]
    slots[s, PREV] = before
    slots[s, NEXT] = after
    if before:
        slots[before, NEXT] = s
    else:
        val[v, HEAD] = s
    if after:
        slots[after, PREV] = s
    else:
        val[v, TAIL] = s
    val[v, COUNT] += 1
    if after and slots[after, FLAGS] & IN:
        slots[s, FLAGS] |= IN
        val[v, SHOWN] += 1
        _pend(val, slots, v, s)


@kernel
def _unlink(val: I64, slots: I64, v: int, s: int) -> None:
    before, after = slots[s, PREV], slots[s, NEXT]
    if before:
        slots[before, NEXT] = after
    else:
        val[v, HEAD] = after
    if after:
        slots[after, PREV] = before
    else:
        val[v, TAIL] = before
    if slots[s, FLAGS] & IN:
        val[v, SHOWN] -= 1
        slots[s, FLAGS] &= ~IN
        if val[v, LAST] == s:
            val[v, LAST] = before
    val[v, COUNT] -= 1


@kernel
def expire_head(val: I64, slots: I64, regs: I64, v: int) -> None:
    """Expire the first row, silently."""
    s = val[v, HEAD]
    _unlink(val, slots, v, s)
    if slots[s, FLAGS] & WAS:
        regs[NATURAL] += 1
        slots[s, FLAGS] &= ~WAS
    if slots[s, FLAGS] & PENDING:
        slots[s, FLAGS] |= GONE
    else:
        _free(slots, regs, s)


@kernel
def remove(val: I64, slots: I64, regs: I64, v: int, exp: int) -> None:
    """Remove a row with this expiry prematurely: the last one, which may be of this instant."""
    s = val[v, TAIL]
    while slots[s, EXP] > exp:
        s = slots[s, PREV]
    _unlink(val, slots, v, s)
    if slots[s, FLAGS] & (WAS | PENDING):
        slots[s, FLAGS] |= GONE
        _pend(val, slots, v, s)
    else:
        _free(slots, regs, s)


@kernel
def resize(val: I64, slots: I64, v: int, target: int) -> None:
    """Make the prefix that is in the answer `target` rows long."""
    last = val[v, LAST]
    shown = val[v, SHOWN]
    while shown < target:
        last = slots[last, NEXT] if last else val[v, HEAD]
        slots[last, FLAGS] |= IN
        _pend(val, slots, v, last)
        shown += 1
    while shown > target:
        slots[last, FLAGS] &= ~IN
        _pend(val, slots, v, last)
        last = slots[last, PREV]
        shown -= 1
    val[v, LAST] = last
    val[v, SHOWN] = shown


@kernel
def flush(val: I64, slots: I64, regs: I64, v: int, ts: int, out: I64, n: int) -> tuple[I64, int]:
    """Emit what changed for value `v` at instant `ts`; returns the buffer and its length."""
    s = val[v, PEND]
    val[v, PEND] = 0
    while s:
        link, flags = slots[s, LINK], slots[s, FLAGS]
        is_in, was = flags & IN, flags & WAS
        if (is_in != 0) != (was != 0):
            if n == out.shape[0]:
                out = grown(out)
            out[n, 0] = v
            out[n, 1] = ts
            out[n, 2] = slots[s, EXP]
            out[n, 3] = 1 if is_in else -1
            n += 1
            if was:
                regs[PREMATURE] += 1
        if flags & GONE:
            _free(slots, regs, s)
        else:
            slots[s, FLAGS] = IN | WAS if is_in else 0
        s = link
    return out, n


@kernel
def warm_rows(ids: I64, start: int, stop: int, val: I64, slots: I64) -> int:
    """Read the values of the next events and the rows at the marks of their lists."""
    total = warm(ids, start, stop, val)
    for p in range(start, stop):
        v = ids[p]
        total ^= slots[val[v, HEAD], EXP] ^ slots[val[v, TAIL], EXP] ^ slots[val[v, LAST], EXP]
    return total


@kernel
def apply_left(
    stream: int, p: int, step: I64, exp: I64, v: int, val: I64, slots: I64, regs: I64
) -> None:
    """One left event at position `p`."""
    if stream == LEFT_GONE:
        expire_head(val, slots, regs, v)
    elif step[p] > 0:
        insert(val, slots, regs, v, exp[p])
    elif step[p] < 0:
        remove(val, slots, regs, v, exp[p])


@kernel
def net_except_all(
    ts: I64, ids: I64, step: I64, exp: I64, offsets: I64, val: I64, slots: I64, regs: I64
) -> tuple[I64, I64]:
    """EXCEPT ALL on rows with their own expiry: emitted rows and dead values."""
    total = ts.shape[0]
    out = np.empty((total + 16, 4), np.int64)
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
                    regs[SINK] = warm_rows(ids, p, warmed[s], val, slots)
                v = ids[p]
                if val[v, MARK] == 0:
                    val[v, MARK] = 1
                    touched[m] = v
                    m += 1
                if s <= LEFT:
                    apply_left(s, p, step, exp, v, val, slots, regs)
                else:
                    val[v, RIGHT_COUNT] += step[p]
                p += 1
            pos[s] = p
        for k in range(m):
            v = touched[k]
            val[v, MARK] = 0
            resize(val, slots, v, max(val[v, COUNT] - val[v, RIGHT_COUNT], 0))
            out, n = flush(val, slots, regs, v, t, out, n)
            if val[v, COUNT] == 0 and val[v, RIGHT_COUNT] == 0:
                dead[d] = v
                d += 1
    return out[:n], unused(dead[:d], val, COUNT, RIGHT_COUNT, MARK)


@kernel
def shown_rows(ids: I64, val: I64, slots: I64) -> tuple[I64, I64]:
    """Value and expiry of every row in the answer."""
    total = 0
    for k in range(ids.shape[0]):
        total += val[ids[k], SHOWN]
    owner = np.empty(total, np.int64)
    exp = np.empty(total, np.int64)
    n = 0
    for k in range(ids.shape[0]):
        s = val[ids[k], HEAD]
        for _ in range(val[ids[k], SHOWN]):
            owner[n] = ids[k]
            exp[n] = slots[s, EXP]
            s = slots[s, NEXT]
            n += 1
    return owner, exp


@kernel
def drop_lists(ids: I64, val: I64, slots: I64, regs: I64) -> None:
    """Free the rows of these values (between instants)."""
    for k in range(ids.shape[0]):
        s = val[ids[k], HEAD]
        while s:
            after = slots[s, NEXT]
            _free(slots, regs, s)
            s = after
        val[ids[k], :] = 0
