"""SteM kernels: find rows of a log by key or by range of one column (CACQ §3.3.1).

A log is row-major, NULL word first; the row at position p is `rows[p - base]`. Chains run from
newer to older rows: `head` holds the newest position of each bucket (its low 32 bits), `gap` in
a ring by position says how far back the next one is, 0 for none. A head that is so old that its
bits name a younger row leads into a chain of other keys, and keys are compared, so nothing is
found there either.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I32, I64, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import prefetch

_AHEAD = 64  # rows whose places are asked for before they are read: the misses overlap
_LOW = 0xFFFFFFFF


@inlined
def _mix(h: np.uint64, word: int) -> np.uint64:
    h = (h ^ np.uint64(word)) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(32))


@kernel
def _bucket_of_row(rows: I64, i: int, columns: I64, mask: int) -> int:
    """The bucket of a logged row, −1 when its key has a NULL."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(columns.shape[0]):
        if (rows[i, 0] >> columns[c]) & 1:
            return -1
        h = _mix(h, rows[i, 1 + columns[c]])
    return int(np.int64(h >> np.uint64(1)) & mask)


@kernel
def _bucket_of_key(keys: I64, i: int, mask: int) -> int:
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(keys.shape[0]):
        h = _mix(h, keys[c, i])
    return int(np.int64(h >> np.uint64(1)) & mask)


@kernel
def link_rows(rows: I64, start: int, first: int, columns: I64, head: I32, gap: I32) -> None:
    """Put the rows from position `start` on into their chains; none before `first` is alive."""
    n, buckets, ring = rows.shape[0], head.shape[0] - 1, gap.shape[0] - 1
    places = np.empty(_AHEAD, np.int64)
    for i in range(n):
        if i % _AHEAD == 0:
            for j in range(i, min(i + _AHEAD, n)):
                places[j - i] = _bucket_of_row(rows, j, columns, buckets)
                prefetch(head, 0, max(places[j - i], 0))
        bucket = places[i % _AHEAD]
        if bucket < 0:
            continue
        position = start + i
        back = (position - int(head[bucket])) & _LOW
        gap[position & ring] = back if position - back >= first else 0
        head[bucket] = np.int32(position)


@kernel
def _grown(array: I64) -> I64:
    new = np.empty((2 * array.shape[0], *array.shape[1:]), np.int64)
    new[: array.shape[0]] = array
    return new


@kernel
def _spread(hits: I64, hit: int, start: int, counts: I64, out: I64, found: int) -> I64:
    """Append the hits (probe from `start` on, position) to `out`, by probe and back to front."""
    while found + hit > out.shape[0]:
        out = _grown(out)
    ends = found + np.cumsum(counts)
    for h in range(hit):
        ends[hits[h, 0] - start] -= 1
        out[ends[hits[h, 0] - start]] = hits[h, 1]
    return out


@inlined
def _ask(rows: I64, at: int, column: int, gap: I32, place: int) -> None:
    """Ask for what the visit of a row reads."""
    prefetch(gap, 0, place)
    prefetch(rows, at, 1 + column)


@kernel
def walk_chains(
    keys: I64, null: Bool, floor: int, limit: I64,
    rows: I64, base: int, built: int, columns: I64, head: I32, gap: I32,
) -> tuple[I64, I64]:  # fmt: skip
    """Positions of the rows with the key of each probe, ascending, and how many each has.

    Probe i sees positions in [floor, limit[i]); `null` is empty or says which probe nothing.
    Probes of a block take their steps in turn, so that their cache misses overlap.
    """
    n, buckets, ring = limit.shape[0], head.shape[0] - 1, gap.shape[0] - 1
    newest, width = built - 1, keys.shape[0]
    counts, found = np.zeros(n, np.int64), 0
    out, hits = np.empty(n + 16, np.int64), np.empty((_AHEAD, 2), np.int64)
    probe, position = np.empty(_AHEAD, np.int64), np.empty(_AHEAD, np.int64)
    for start in range(0, n, _AHEAD):
        top = min(start + _AHEAD, n)
        for i in range(start, top):
            position[i - start] = _bucket_of_key(keys, i, buckets)
            prefetch(head, 0, position[i - start])
        walking, hit = 0, 0
        for i in range(start, top):
            at = newest - ((newest - int(head[position[i - start]])) & _LOW)
            if at >= floor and not (null.shape[0] and null[i]):
                _ask(rows, at - base, columns[0], gap, at & ring)
                probe[walking], position[walking] = i, at
                walking += 1
        while walking:
            going = 0
            for w in range(walking):
                i, at = probe[w], position[w]
                same = at < limit[i]
                for c in range(width):
                    same = same and rows[at - base, 1 + columns[c]] == keys[c, i]
                if same:
                    if hit == hits.shape[0]:
                        hits = _grown(hits)
                    hits[hit, 0], hits[hit, 1] = i, at
                    counts[i] += 1
                    hit += 1
                back = int(gap[at & ring])
                at -= back
                if back and at >= floor:
                    _ask(rows, at - base, columns[0], gap, at & ring)
                    probe[going], position[going] = i, at
                    going += 1
            walking = going
        out = _spread(hits, hit, start, counts[start:top], out, found)
        found += hit
    return counts, out[:found]


# ---- ranges --------------------------------------------------------------------------
@kernel
def merge_runs(values: I64, positions: I64, begin: int, middle: int, end: int, first: int) -> int:
    """Merge two adjacent runs in order of value, dropping positions before `first`; the new end."""
    a, a_at = values[begin:middle].copy(), positions[begin:middle].copy()
    i, j, out = 0, middle, begin
    while i < a.shape[0] or j < end:
        if j == end or (i < a.shape[0] and a[i] <= values[j]):
            value, position = a[i], a_at[i]
            i += 1
        else:
            value, position = values[j], positions[j]
            j += 1
        if position >= first:
            values[out] = value
            positions[out] = position
            out += 1
    return out


@kernel
def _lower_bound(values: I64, begin: int, end: int, value: int) -> int:
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def search_runs(
    low: I64, high: I64, null: Bool, floor: int, limit: I64,
    values: I64, positions: I64, offsets: I64, born: I64,
) -> tuple[I64, I64]:  # fmt: skip
    """Positions of the values in [low[i], high[i]] of each probe, ascending, and their number.

    Run r is `values[offsets[r]:offsets[r + 1]]` and holds positions in [born[r], born[r + 1]).
    """
    n, runs = limit.shape[0], offsets.shape[0] - 1
    counts, found = np.zeros(n, np.int64), 0
    out = np.empty(n + 16, np.int64)
    for i in range(n):
        if null.shape[0] and null[i]:
            continue
        begin = found
        for r in range(runs):
            if born[r + 1] <= floor or born[r] >= limit[i]:
                continue
            end = offsets[r + 1]
            for k in range(_lower_bound(values, offsets[r], end, low[i]), end):
                if values[k] > high[i]:
                    break
                if floor <= positions[k] < limit[i]:
                    if found == out.shape[0]:
                        out = _grown(out)
                    out[found] = positions[k]
                    found += 1
        counts[i] = found - begin
        if counts[i] > 1:
            out[begin:found].sort()
    return counts, out[:found]
