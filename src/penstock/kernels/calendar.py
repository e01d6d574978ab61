"""Calendar kernels: a circular array of partitions by expiry (Golab & Özsu 2005, §5.3.2, Fig. 7).

Partition of an entry: (exp >> shift) mod partitions; entries of later laps share partitions and
are told apart by their `exp`. A partition is a list of blocks of slots in insertion order, so
adding writes at few places and expiring reads in sequence. The last partition holds the
entries that never expire.

`parts` has one row per partition: first block, last block, slots used in the last, entries.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I64
from penstock.kernels.jit import kernel

COUNT, BLOCKS, FREE, SHIFT, DAY, TUNED = 0, 1, 2, 3, 4, 5
FIRST, LAST, FILL, SIZE = 0, 1, 2, 3
NO_DAY = np.iinfo(np.int64).min  # nothing expired yet
HOLE = np.iinfo(np.int64).min  # `exp` of a slot whose entry is gone
_NEVER = np.iinfo(np.int64).max
_SHORT = 24  # entries sorted by insertion


@kernel
def _partition(exp: int, shift: int, parts: I64) -> int:
    if exp == _NEVER:
        return parts.shape[0] - 1
    return (exp >> shift) & (parts.shape[0] - 2)


@kernel
def _next_slot(p: int, block: int, nxt: I64, free: I64, parts: I64, regs: I64) -> int:
    """A slot at the end of partition p; blocks are there."""
    if parts[p, FIRST] < 0 or parts[p, FILL] == block:
        if regs[FREE] > 0:
            regs[FREE] -= 1
            new = free[regs[FREE]]
        else:
            new = regs[BLOCKS]
            regs[BLOCKS] += 1
        nxt[new] = -1
        if parts[p, FIRST] < 0:
            parts[p, FIRST] = new
        else:
            nxt[parts[p, LAST]] = new
        parts[p, LAST] = new
        parts[p, FILL] = 0
    slot = parts[p, LAST] * block + parts[p, FILL]
    parts[p, FILL] += 1
    parts[p, SIZE] += 1
    return slot


@kernel
def insert_calendar(
    new_exp: I64, new_words: I64, block: int, exp: I64, words: I64, nxt: I64, free: I64,
    parts: I64, regs: I64,
) -> None:  # fmt: skip
    """Append entries (words row-major) to their partitions."""
    shift = regs[SHIFT]
    for i in range(new_exp.shape[0]):
        p = _partition(new_exp[i], shift, parts)
        slot = _next_slot(p, block, nxt, free, parts, regs)
        exp[slot] = new_exp[i]
        for c in range(words.shape[1]):
            words[slot, c] = new_words[i, c]
    regs[COUNT] += new_exp.shape[0]


@kernel
def insert_calendar_rows(
    new_exp: I64, lin: I64, rows: I64, block: int, exp: I64, words: I64, nxt: I64, free: I64,
    parts: I64, regs: I64,
) -> None:  # fmt: skip
    """As insert_calendar, for entries [lin, row…] given as a column-major matrix."""
    shift = regs[SHIFT]
    for i in range(new_exp.shape[0]):
        p = _partition(new_exp[i], shift, parts)
        slot = _next_slot(p, block, nxt, free, parts, regs)
        exp[slot] = new_exp[i]
        words[slot, 0] = lin[i]
        for c in range(rows.shape[0]):
            words[slot, 1 + c] = rows[c, i]
    regs[COUNT] += new_exp.shape[0]


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
    """Stable sort of slots[start:end] by exp: spread over as many bins, then short sorts."""
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


@kernel
def _take_due(
    p: int, until: int, block: int, exp: I64, nxt: I64, parts: I64, due: I64, n: int
) -> int:
    """Append the slots of partition p that are due to due[n:]; return the new n."""
    b = parts[p, FIRST]
    while b >= 0:
        last = parts[p, FILL] if b == parts[p, LAST] else block
        for s in range(b * block, b * block + last):
            if exp[s] <= until and exp[s] != HOLE:
                due[n] = s
                n += 1
        b = nxt[b]
    return n


@kernel
def _free_partition(p: int, nxt: I64, spare: I64, n: int, parts: I64) -> int:
    b = parts[p, FIRST]
    while b >= 0:
        spare[n] = b
        n += 1
        b = nxt[b]
    parts[p, FIRST] = -1
    return n


@kernel
def take_expired(
    until: int, block: int, exp: I64, words: I64, nxt: I64, free: I64, parts: I64, regs: I64
) -> tuple[I64, I64]:
    """Take out entries with exp ≤ until: their (exp, slots) in order of (exp, insertion).

    A taken slot becomes a hole; a partition of holes gives its blocks back. What the slots hold
    stays readable until entries are added.
    """
    due = np.empty(regs[COUNT], np.int64)
    spare = np.empty(regs[BLOCKS], np.int64)
    partitions = parts.shape[0] - 1
    last = until >> regs[SHIFT]
    every = regs[DAY] == NO_DAY or last - regs[DAY] >= partitions or last - regs[DAY] < 0
    first = np.int64(0) if every else regs[DAY]
    end = np.int64(partitions) if every else last + 1
    n, freed = 0, 0
    for day in range(first, end):
        p = day & (partitions - 1)
        start = n
        n = _take_due(p, until, block, exp, nxt, parts, due, n)
        parts[p, SIZE] -= n - start
        if n > start and parts[p, SIZE] == 0:
            freed = _free_partition(p, nxt, spare, freed, parts)
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
def list_slots(block: int, exp: I64, nxt: I64, parts: I64, count: int) -> I64:
    """Slots of all entries, partition by partition, in insertion order inside each."""
    out = np.empty(count, np.int64)
    n = 0
    for p in range(parts.shape[0]):
        b = parts[p, FIRST]
        while b >= 0:
            last = parts[p, FILL] if b == parts[p, LAST] else block
            for s in range(b * block, b * block + last):
                if exp[s] != HOLE:
                    out[n] = s
                    n += 1
            b = nxt[b]
    return out


@kernel
def _find(p: int, e: int, row: I64, block: int, exp: I64, words: I64, nxt: I64, parts: I64) -> int:
    """The first slot of partition p that holds this entry, −1 when none does."""
    b = parts[p, FIRST]
    while b >= 0:
        last = parts[p, FILL] if b == parts[p, LAST] else block
        for s in range(b * block, b * block + last):
            same = exp[s] == e
            c = 0
            while same and c < words.shape[1]:
                same = words[s, c] == row[c]
                c += 1
            if same:
                return s
        b = nxt[b]
    return -1


@kernel
def _close_gap(
    p: int, gap: int, block: int, exp: I64, words: I64, nxt: I64, free: I64, parts: I64, regs: I64
) -> None:
    """Move the entries behind slot `gap` up by one and drop the last place of partition p."""
    before = -1
    b = parts[p, FIRST]
    while b != parts[p, LAST] and nxt[b] != parts[p, LAST]:
        b = nxt[b]
    if b != parts[p, LAST]:
        before = b
    b, s = gap // block, gap
    while True:
        at_end = s == b * block + block - 1
        if b == parts[p, LAST] and (at_end or s == b * block + parts[p, FILL] - 1):
            break
        follow = nxt[b] * block if at_end else s + 1
        exp[s] = exp[follow]
        for c in range(words.shape[1]):
            words[s, c] = words[follow, c]
        b, s = follow // block, follow
    parts[p, FILL] -= 1
    parts[p, SIZE] -= 1
    if parts[p, FILL] == 0:
        free[regs[FREE]] = parts[p, LAST]
        regs[FREE] += 1
        if before < 0:
            parts[p, FIRST] = -1
        else:
            nxt[before] = -1
            parts[p, LAST] = before
            parts[p, FILL] = block


@kernel
def cancel_calendar(
    gone_exp: I64, gone_words: I64, block: int, exp: I64, words: I64, nxt: I64, free: I64,
    parts: I64, regs: I64,
) -> I64:  # fmt: skip
    """Remove one stored entry equal to each given one, scanning the partition its exp names."""
    found = np.zeros(gone_exp.shape[0], np.int64)
    for i in range(gone_exp.shape[0]):
        p = _partition(gone_exp[i], regs[SHIFT], parts)
        slot = _find(p, gone_exp[i], gone_words[i], block, exp, words, nxt, parts)
        if slot >= 0:
            _close_gap(p, slot, block, exp, words, nxt, free, parts, regs)
            regs[COUNT] -= 1
            found[i] = 1
    return found
