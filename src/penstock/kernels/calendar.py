"""Calendar kernels: a circular array of partitions by expiry (Golab & Özsu 2005, §5.3.2, Fig. 7).

An entry is in partition (exp >> shift) mod partitions; entries of later laps share the partitions
and differ in `exp`. A partition is a list of blocks of slots in insertion order, so adding writes
to few places and expiring reads sequentially. The last partition holds the entries that never
expire.

`heads` has the first block of each partition (−1: none), `tails` its next free slot. If that is a
multiple of the block size, the next entry needs a new block.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel

COUNT, BLOCKS, FREE, SHIFT, DAY, TUNED = 0, 1, 2, 3, 4, 5
NO_DAY = np.iinfo(np.int64).min  # no entry has expired yet
HOLE = np.iinfo(np.int64).min  # `exp` of an empty slot
_NEVER = np.iinfo(np.int64).max
_SHORT = 24  # up to this many entries, insertion sort is used


@inlined
def _partition(exp: int, shift: int, heads: I64) -> int:
    return heads.shape[0] - 1 if exp == _NEVER else (exp >> shift) & (heads.shape[0] - 2)


@kernel
def _new_block(p: int, block: int, nxt: I64, free: I64, heads: I64, tails: I64, regs: I64) -> int:
    """Append a block to partition p and return its first slot; a free block must exist."""
    if regs[FREE] > 0:
        regs[FREE] -= 1
        new = free[regs[FREE]]
    else:
        new = regs[BLOCKS]
        regs[BLOCKS] += 1
    nxt[new] = -1
    if heads[p] < 0:
        heads[p] = new
    else:
        nxt[(tails[p] - 1) // block] = new
    return new * block


@kernel
def place_entries(
    new_exp: I64, block: int, exp: I64, words: I64, nxt: I64, free: I64, heads: I64, tails: I64,
    regs: I64,
) -> I64:  # fmt: skip
    """Reserve slots for new entries at the ends of their partitions and write their `exp`."""
    slots = np.empty(new_exp.shape[0], np.int64)
    shift = regs[SHIFT]
    for i in range(new_exp.shape[0]):
        p = _partition(new_exp[i], shift, heads)
        slot = tails[p]
        if slot & (block - 1) == 0:
            slot = _new_block(p, block, nxt, free, heads, tails, regs)
        tails[p] = slot + 1
        slots[i] = slot
        exp[slot] = new_exp[i]
    regs[COUNT] += new_exp.shape[0]
    return slots


@kernel
def write_entries(slots: I64, new_words: I64, words: I64) -> None:
    """Write the words of new entries, given row-major."""
    for i in range(slots.shape[0]):
        for c in range(words.shape[1]):
            words[slots[i], c] = new_words[i, c]


@kernel
def write_rows(slots: I64, lin: I64, rows: I64, words: I64) -> None:
    """Write new entries [lin, row…], the rows given column-major."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        words[slot, 0] = lin[i]
        for c in range(rows.shape[0]):
            words[slot, 1 + c] = rows[c, i]


@kernel
def _sort_short(slots: I64, start: int, end: int, exp: I64) -> None:
    """Stable insertion sort of slots[start:end] by exp."""
    for i in range(start + 1, end):
        slot = slots[i]
        key = exp[slot]
        j = i - 1
        while j >= start and exp[slots[j]] > key:
            slots[j + 1] = slots[j]
            j -= 1
        slots[j + 1] = slot


@kernel
def _sort_by_exp(slots: I64, start: int, end: int, exp: I64) -> None:
    """Stable sort of slots[start:end] by exp: distribute over as many bins, then sort each."""
    n = end - start
    if n <= _SHORT:
        _sort_short(slots, start, end, exp)
        return
    low, high = exp[slots[start]], exp[slots[start]]
    in_order = True
    for i in range(start + 1, end):
        key = exp[slots[i]]
        if key < exp[slots[i - 1]]:
            in_order = False
        low, high = min(low, key), max(high, key)
    if in_order:
        return
    scale = n / (float(high) - float(low) + 1.0)
    begins = np.zeros(n + 1, np.int64)
    bins = np.empty(n, np.int64)
    for i in range(n):
        b = min(int((float(exp[slots[start + i]]) - float(low)) * scale), n - 1)
        bins[i] = b
        begins[b + 1] += 1
    for b in range(n):
        begins[b + 1] += begins[b]
    part = slots[start:end].copy()
    at = begins.copy()
    for i in range(n):
        b = bins[i]
        slots[start + at[b]] = part[i]
        at[b] += 1
    for b in range(n):
        first, last = start + begins[b], start + begins[b + 1]
        if last - first > _SHORT:
            _merge_sort(slots, first, last, exp)
        elif last - first > 1:
            _sort_short(slots, first, last, exp)


@kernel
def _merge_sort(slots: I64, start: int, end: int, exp: I64) -> None:
    part = slots[start:end].copy()
    keys = np.empty(end - start, np.int64)
    for i in range(end - start):
        keys[i] = exp[part[i]]
    order = np.argsort(keys, kind="mergesort")
    for i in range(end - start):
        slots[start + i] = part[order[i]]


@inlined
def _end_of(b: int, p: int, block: int, nxt: I64, tails: I64) -> int:
    """The end of the used slots of block b in partition p."""
    return (b + 1) * block if nxt[b] >= 0 else tails[p]


@kernel
def _take_due(
    p: int, until: int, block: int, exp: I64, nxt: I64, heads: I64, tails: I64, due: I64, n: int
) -> tuple[int, int]:
    """Append the due slots of partition p to due[n:].

    Return the new n and the entries that stay.
    """
    stay = 0
    b = heads[p]
    while b >= 0:
        for s in range(b * block, _end_of(b, p, block, nxt, tails)):
            if exp[s] > until:
                stay += 1
            elif exp[s] != HOLE:
                due[n] = s
                n += 1
        b = nxt[b]
    return n, stay


@kernel
def _free_partition(p: int, nxt: I64, heads: I64, tails: I64, spare: I64, n: int) -> int:
    b = heads[p]
    while b >= 0:
        spare[n] = b
        n += 1
        b = nxt[b]
    heads[p] = -1
    tails[p] = 0
    return n


@kernel
def take_expired(
    until: int, block: int, exp: I64, words: I64, nxt: I64, free: I64, heads: I64, tails: I64,
    regs: I64,
) -> tuple[I64, I64]:  # fmt: skip
    """Remove entries with exp ≤ until; return (exp, slots) in order of (exp, insertion).

    A removed slot becomes a hole; a partition that has only holes frees its blocks. The words in
    the slots stay readable until entries are added.
    """
    due = np.empty(regs[COUNT], np.int64)
    spare = np.empty(regs[BLOCKS], np.int64)
    partitions = heads.shape[0] - 1
    last = until >> regs[SHIFT]
    every = regs[DAY] == NO_DAY or last - regs[DAY] >= partitions or last - regs[DAY] < 0
    first = np.int64(0) if every else regs[DAY]
    end = np.int64(partitions) if every else last + 1
    n, freed = 0, 0
    for day in range(first, end):
        p = day & (partitions - 1)
        if heads[p] < 0:
            continue
        start = n
        n, stay = _take_due(p, until, block, exp, nxt, heads, tails, due, n)
        if stay == 0:
            freed = _free_partition(p, nxt, heads, tails, spare, freed)
        if not every:
            _sort_by_exp(due, start, n, exp)
    if every:
        _sort_by_exp(due, 0, n, exp)
    for i in range(freed):
        free[regs[FREE] + i] = spare[freed - 1 - i]
    regs[FREE] += freed
    regs[DAY] = last
    regs[COUNT] -= n
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = exp[due[i]]
        exp[due[i]] = HOLE
    return out, due[:n]


@kernel
def list_slots(block: int, exp: I64, nxt: I64, heads: I64, tails: I64, count: int) -> I64:
    """Slots of all entries, partition by partition, each in insertion order."""
    out = np.empty(count, np.int64)
    n = 0
    for p in range(heads.shape[0]):
        b = heads[p]
        while b >= 0:
            for s in range(b * block, _end_of(b, p, block, nxt, tails)):
                if exp[s] != HOLE:
                    out[n] = s
                    n += 1
            b = nxt[b]
    return out


@kernel
def cancel_calendar(
    gone_exp: I64, gone_words: I64, block: int, exp: I64, words: I64, nxt: I64, free: I64,
    heads: I64, tails: I64, regs: I64,
) -> I64:  # fmt: skip
    """For each given entry, remove one equal stored entry from the partition of its exp."""
    found = np.zeros(gone_exp.shape[0], np.int64)
    for i in range(gone_exp.shape[0]):
        p = _partition(gone_exp[i], regs[SHIFT], heads)
        b = heads[p]
        while b >= 0 and not found[i]:
            for s in range(b * block, _end_of(b, p, block, nxt, tails)):
                same = exp[s] == gone_exp[i]
                c = 0
                while same and c < words.shape[1]:
                    same = words[s, c] == gone_words[i, c]
                    c += 1
                if same:
                    exp[s] = HOLE
                    regs[COUNT] -= 1
                    found[i] = 1
                    break
            b = nxt[b]
    return found
