"""Looks rows up in a part of the grouped filter's index (CACQ §3.2.6).

A row's equality values identify its bucket. A small bucket is tested slot by slot. In a big bucket,
groups of blocks with least bounds above the row's values are skipped, and the others are tested.
Functions called per row are inlined, because a call would pass a dozen arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I32, I64
from penstock.kernels.grouped_filter_build import BLOCK, Part, has_key, hashed
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import AHEAD, prefetch

_LINE = 8  # numbers per cache line


class Probe(NamedTuple):
    """Rows to look up: their values for equalities, bounds and ≠, one column per row."""

    keys: I64
    reach: I64  # a bound ≤ this value is met
    differs: I64
    lin: I64
    since: I64  # by qid: the first epoch that the query sees
    newest: int  # the largest of `since`


@kernel
def _find_buckets(part: Part, keys: I64) -> I32:
    """The bucket of each row; −1 if no query has such constants."""
    found = np.empty(keys.shape[1], np.int32)
    mask = part.table.shape[0] - 1
    table, stored = part.table, part.keys
    for i in range(keys.shape[1]):
        at = hashed(keys, i, mask)
        while table[at] >= 0 and not has_key(stored, table[at], keys, i):
            at = (at + 1) & mask
        found[i] = table[at]
    return found


@inlined
def _out_of_reach(least: I64, node: int, reach: I64, i: int) -> bool:
    out = False
    for d in range(least.shape[1]):
        out |= least[node, d] > reach[d, i]
    return out


@inlined
def _list_blocks(
    least: I64, least8: I64, least64: I64, least512: I64, first: int, end: int, reach: I64, i: int,
    found: I64,
) -> int:  # fmt: skip
    """Write the blocks of [first, end) that may match row `i` to `found`; return their number."""
    count = 0
    block = first
    while block < end:
        if block & 511 == 0 and _out_of_reach(least512, block >> 9, reach, i):
            block += 512
        elif block & 63 == 0 and _out_of_reach(least64, block >> 6, reach, i):
            block += 64
        elif block & 7 == 0 and _out_of_reach(least8, block >> 3, reach, i):
            block += 8
        else:
            found[count] = block
            count += not _out_of_reach(least, block, reach, i)
            block += 1
    return count


@inlined
def _take_slots(
    members: I32, bounds: I64, differs: I64, start: int, end: int, reach: I64, other: I64, i: int,
    good: NDArray[np.uint8], qids: I64, k: int,
) -> int:  # fmt: skip
    """Append the queries of some slots that take row `i`; the loops have no branches."""
    for j in range(end - start):
        good[j] = members[start + j] >= 0
    for d in range(bounds.shape[0]):
        limit = reach[d, i]
        for j in range(end - start):
            good[j] &= bounds[d, start + j] <= limit
    for d in range(differs.shape[0]):
        value = other[d, i]
        for j in range(end - start):
            good[j] &= differs[d, start + j] != value
    for j in range(end - start):
        qids[k] = members[start + j]
        k += good[j]
    return k


@inlined
def _drop_unseen(lin: int, since: I64, newest: int, qids: I64, start: int, end: int) -> int:
    """Keep the found queries that see the row's epoch; return their end."""
    if lin >= newest:
        return end
    k = start
    for j in range(start, end):
        qids[k] = qids[j]
        k += since[qids[j]] <= lin
    return k


@inlined
def _fetch(starts: I32, members: I32, bounds: I64, buckets: I32, i: int) -> None:
    """Prefetch the slots of row `i`, and the bucket of a later row."""
    if i + AHEAD < buckets.shape[0]:
        prefetch(starts, 0, np.int64(buckets[i + AHEAD]))
    if i < buckets.shape[0] and buckets[i] >= 0:
        slot = np.int64(starts[buckets[i]])
        prefetch(members, 0, slot)
        for d in range(bounds.shape[0]):
            prefetch(bounds, d, slot)
            prefetch(bounds, d, slot + _LINE)


@inlined
def _room(qids: I64, used: int, more: int, share: float) -> I64:
    """The array, grown if it cannot hold `more`; `share` is the share of rows done so far."""
    if used + more <= qids.shape[0]:
        return qids
    grown = np.empty(max(2 * qids.shape[0], used + more, int(1.1 * used / share)), np.int64)
    grown[:used] = qids[:used]
    return grown


@kernel
def probe_part(part: Part, probe: Probe, counts: I64) -> I64:
    """The queries that take each row, unsorted; adds their number to `counts`."""
    n = probe.lin.shape[0]
    buckets = _find_buckets(part, probe.keys)
    starts, blocks, members, bounds, differs = (
        part.starts, part.blocks, part.qids, part.bounds, part.differs,
    )  # fmt: skip
    least, least8, least64, least512 = part.least, part.least8, part.least64, part.least512
    reach, other, lin, since, newest = (
        probe.reach, probe.differs, probe.lin, probe.since, probe.newest,
    )  # fmt: skip
    listed = np.empty(least.shape[0], np.int64)
    good = np.empty(BLOCK, np.uint8)
    qids = np.empty(4 * n + BLOCK, np.int64)
    used = 0
    for i in range(n):
        _fetch(starts, members, bounds, buckets, i + AHEAD)
        bucket = buckets[i]
        if bucket < 0:
            continue
        begin = used
        start, end, first = starts[bucket], starts[bucket + 1], blocks[bucket]
        count = 1
        if first >= 0:
            last = first + (end - start + BLOCK - 1) // BLOCK
            count = _list_blocks(least, least8, least64, least512, first, last, reach, i, listed)
        for b in range(count):
            low, high = start, end
            if first >= 0:
                low = start + (listed[b] - first) * BLOCK
                high = min(low + BLOCK, end)
            qids = _room(qids, used, BLOCK, (i + 1) / n)
            used = _take_slots(
                members, bounds, differs, low, high, reach, other, i, good, qids, used
            )
        used = _drop_unseen(lin[i], since, newest, qids, begin, used)
        counts[i] += used - begin
    return qids[:used]


@kernel
def survey_part(part: Part, probe: Probe) -> int:
    """The number of slots that the rows of `probe` would be compared with."""
    buckets = _find_buckets(part, probe.keys)
    least, least8, least64, least512 = part.least, part.least8, part.least64, part.least512
    listed = np.empty(least.shape[0], np.int64)
    total = 0
    for i in range(probe.lin.shape[0]):
        bucket = buckets[i]
        if bucket < 0:
            continue
        size = part.starts[bucket + 1] - part.starts[bucket]
        first = part.blocks[bucket]
        if first >= 0:
            last = first + (size + BLOCK - 1) // BLOCK
            size = BLOCK * _list_blocks(
                least, least8, least64, least512, first, last, probe.reach, i, listed
            )
        total += size
    return total
