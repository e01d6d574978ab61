"""Calendar kernels: a circular array of partitions by expiry (Golab & Özsu 2005, §5.3.2, Fig. 7).

Partition of an entry: (exp div width) mod partitions; entries of later laps share partitions
and are told apart by their `exp`. Each partition is a chain in insertion order. The last
element of `heads`/`tails` is the chain of entries that never expire.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I64
from penstock.kernels.jit import kernel

COUNT, USED, FREE, WIDTH, DAY, TUNED = 0, 1, 2, 3, 4, 5
FREED = np.iinfo(np.int64).min  # `exp` of a slot that is not in use
_NEVER = np.iinfo(np.int64).max


@kernel
def _partition(exp: int, width: int, heads: I64) -> int:
    if exp == _NEVER:
        return heads.shape[0] - 1
    return (exp // width) & (heads.shape[0] - 2)


@kernel
def insert_calendar(
    new_exp: I64, new_words: I64, exp: I64, words: I64, nxt: I64, free: I64,
    heads: I64, tails: I64, regs: I64,
) -> None:  # fmt: skip
    """Append entries to their partitions; there is room for them."""
    width = regs[WIDTH]
    for i in range(new_exp.shape[0]):
        if regs[FREE] > 0:
            regs[FREE] -= 1
            slot = free[regs[FREE]]
        else:
            slot = regs[USED]
            regs[USED] += 1
        exp[slot] = new_exp[i]
        for c in range(words.shape[1]):
            words[slot, c] = new_words[i, c]
        nxt[slot] = -1
        p = _partition(new_exp[i], width, heads)
        if heads[p] < 0:
            heads[p] = slot
        else:
            nxt[tails[p]] = slot
        tails[p] = slot
    regs[COUNT] += new_exp.shape[0]


@kernel
def insert_calendar_rows(
    new_exp: I64, lin: I64, rows: I64, exp: I64, words: I64, nxt: I64, free: I64,
    heads: I64, tails: I64, regs: I64,
) -> None:  # fmt: skip
    """As insert_calendar, for entries [lin, row…] given as a column-major matrix."""
    width = regs[WIDTH]
    for i in range(new_exp.shape[0]):
        if regs[FREE] > 0:
            regs[FREE] -= 1
            slot = free[regs[FREE]]
        else:
            slot = regs[USED]
            regs[USED] += 1
        exp[slot] = new_exp[i]
        words[slot, 0] = lin[i]
        for c in range(rows.shape[0]):
            words[slot, 1 + c] = rows[c, i]
        nxt[slot] = -1
        p = _partition(new_exp[i], width, heads)
        if heads[p] < 0:
            heads[p] = slot
        else:
            nxt[tails[p]] = slot
        tails[p] = slot
    regs[COUNT] += new_exp.shape[0]


@kernel
def _take_from(
    p: int, until: int, exp: I64, nxt: I64, heads: I64, tails: I64, out: I64, n: int
) -> int:
    """Unlink the entries of partition p with exp ≤ until into out[n:], return the new n."""
    slot, prev = heads[p], -1
    while slot >= 0:
        after = nxt[slot]
        if exp[slot] <= until:
            if prev < 0:
                heads[p] = after
            else:
                nxt[prev] = after
            if after < 0:
                tails[p] = prev
            out[n] = slot
            n += 1
        else:
            prev = slot
        slot = after
    return n


@kernel
def _sort_by_exp(slots: I64, start: int, end: int, exp: I64) -> None:
    """Stable sort of slots[start:end] by exp."""
    if end - start > 48:
        part = slots[start:end].copy()
        keys = np.empty(end - start, np.int64)
        for i in range(end - start):
            keys[i] = exp[part[i]]
        order = np.argsort(keys, kind="mergesort")
        for i in range(end - start):
            slots[start + i] = part[order[i]]
        return
    for i in range(start + 1, end):
        slot = slots[i]
        key = exp[slot]
        j = i - 1
        while j >= start and exp[slots[j]] > key:
            slots[j + 1] = slots[j]
            j -= 1
        slots[j + 1] = slot


@kernel
def take_expired(
    until: int, exp: I64, words: I64, nxt: I64, free: I64, heads: I64, tails: I64, regs: I64
) -> tuple[I64, I64]:
    """Remove all entries with exp ≤ until; return (exp, slots) in order of (exp, insertion).

    The words of the slots stay readable until entries are added.
    """
    slots = np.empty(regs[COUNT], np.int64)
    partitions = heads.shape[0] - 1
    width = regs[WIDTH]
    n = 0
    last = until // width
    if regs[DAY] == FREED or last - regs[DAY] >= partitions or last - regs[DAY] < 0:
        for p in range(partitions):
            n = _take_from(p, until, exp, nxt, heads, tails, slots, n)
        _sort_by_exp(slots, 0, n, exp)
    else:
        for day in range(regs[DAY], last + 1):
            start = n
            n = _take_from(day & (partitions - 1), until, exp, nxt, heads, tails, slots, n)
            _sort_by_exp(slots, start, n, exp)
    regs[DAY] = last
    out_exp = np.empty(n, np.int64)
    for i in range(n):
        slot = slots[i]
        out_exp[i] = exp[slot]
        exp[slot] = FREED
        free[regs[FREE] + n - 1 - i] = slot  # the next entries reuse them in this order
    regs[FREE] += n
    regs[COUNT] -= n
    return out_exp, slots[:n]


@kernel
def cancel_calendar(
    gone_exp: I64, gone_words: I64, exp: I64, words: I64, nxt: I64, free: I64,
    heads: I64, tails: I64, regs: I64,
) -> I64:  # fmt: skip
    """Remove one stored entry equal to each given one, scanning the partition its exp names."""
    found = np.zeros(gone_exp.shape[0], np.int64)
    for i in range(gone_exp.shape[0]):
        p = _partition(gone_exp[i], regs[WIDTH], heads)
        slot, prev = heads[p], -1
        while slot >= 0:
            same = exp[slot] == gone_exp[i]
            c = 0
            while same and c < words.shape[1]:
                same = words[slot, c] == gone_words[i, c]
                c += 1
            if same:
                after = nxt[slot]
                if prev < 0:
                    heads[p] = after
                else:
                    nxt[prev] = after
                if after < 0:
                    tails[p] = prev
                exp[slot] = FREED
                free[regs[FREE]] = slot
                regs[FREE] += 1
                regs[COUNT] -= 1
                found[i] = 1
                break
            prev = slot
            slot = nxt[slot]
    return found


@kernel
def rank_chains(heads: I64, nxt: I64, used: int) -> I64:
    """Position of each slot when all partitions are walked one after another."""
    rank = np.zeros(used, np.int64)
    n = 0
    for p in range(heads.shape[0]):
        slot = heads[p]
        while slot >= 0:
            rank[slot] = n
            n += 1
            slot = nxt[slot]
    return rank
