"""SteM kernels: find rows of a log by key or by range of one column (CACQ §3.3.1).

A log is row-major, NULL word first; the row at position p is `rows[p - base]`. Rows with one key
form a chain from newer to older: `gap`, a ring by position, has the distance to the next row, 0 for
none. The newest rows of all keys of a bucket form a list, the latest first: `head` has the position
of the first (its low 32 bits), `skip` the distance to the next. So a probe compares keys until it
finds its own, and then follows the chain without comparing. If a head is so old that its 32 bits
name a younger row, the probe enters a list of other keys and finds no equal one.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import prefetch

_AHEAD = 64  # rows prefetched in advance, so that the misses overlap
LOW = 0xFFFFFFFF
"""The bits of a position that `head` stores."""


@inlined
def _mix(h: np.uint64, word: int) -> np.uint64:
    h = (h ^ np.uint64(word)) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(32))


@inlined
def hash_of_row(rows: I64, i: int, columns: I64) -> int:
    """The hash of the key of a logged row, −1 if the key has a NULL."""
    h, nulls = np.uint64(0x9E3779B97F4A7C15), 0
    for c in range(columns.shape[0]):
        nulls |= rows[i, 0] >> columns[c]
        h = _mix(h, rows[i, 1 + columns[c]])
    return int(np.int64(h >> np.uint64(1))) if nulls & 1 == 0 else -1


@kernel
def _bucket_of_row(rows: I64, i: int, columns: I64, mask: int) -> int:
    """The bucket of a logged row; −1 if its key has a NULL."""
    h = hash_of_row(rows, i, columns)
    return h & mask if h >= 0 else -1


@inlined
def hash_of_key(keys: I64, i: int) -> int:
    """The hash of a key of a matrix with a row per key column: that of a row with this key."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(keys.shape[0]):
        h = _mix(h, keys[c, i])
    return int(np.int64(h >> np.uint64(1)))


@kernel
def _bucket_of_key(keys: I64, i: int, mask: int) -> int:
    return hash_of_key(keys, i) & mask


@inlined
def same_key(rows: I64, row: int, key: I64, others: I64, place: int, other_key: I64) -> bool:
    """Whether two rows have the same key; neither key may have a NULL."""
    same = True
    for c in range(key.shape[0]):
        same = same and others[place, 1 + other_key[c]] == rows[row, 1 + key[c]]
    return same


@inlined
def _older(position: int, back: int, first: int) -> int:
    """The position at distance `back`; −1 if there is none or it is not alive."""
    return position - back if back and position - back >= first else -1


@kernel
def link_rows(
    rows: I64, base: int, start: int, until: int, first: int, columns: I64, head: I32, gap: I32,
    skip: I32,
) -> None:  # fmt: skip
    """Link the rows at [start, until) into their chains; rows before `first` are dead."""
    buckets, ring = head.shape[0] - 1, gap.shape[0] - 1
    places = np.empty(_AHEAD, np.int64)
    for p in range(start, until):
        if (p - start) % _AHEAD == 0:
            top = min(p + _AHEAD, until)
            for j in range(p, top):
                places[j - p] = _bucket_of_row(rows, j - base, columns, buckets)
                prefetch(head, 0, max(places[j - p], 0))
            for j in range(p, top):
                newest = p - ((p - int(head[max(places[j - p], 0)])) & LOW)
                prefetch(rows, max(newest - base, 0), 1 + columns[0])
        bucket = places[(p - start) % _AHEAD]
        if bucket < 0:
            continue
        newest = _older(p, (p - int(head[bucket])) & LOW, first)
        at, before = newest, -1
        while at >= 0 and not same_key(rows, p - base, columns, rows, at - base, columns):
            before, at = at, _older(at, int(skip[at & ring]), first)
        gap[p & ring] = p - at if at >= 0 else 0
        skip[p & ring] = p - newest if newest >= 0 else 0
        if at >= 0:  # another row is the newest of its key now
            after = _older(at, int(skip[at & ring]), first)
            if before < 0:
                skip[p & ring] = p - after if after >= 0 else 0
            else:
                skip[before & ring] = before - after if after >= 0 else 0
        head[bucket] = np.int32(p)


@kernel
def _grown(array: I64) -> I64:
    new = np.empty((2 * array.shape[0], *array.shape[1:]), np.int64)
    new[: array.shape[0]] = array
    return new


@kernel
def _spread(hits: I64, hit: int, start: int, counts: I64, out: I64, found: int) -> I64:
    """Append hits (probe from `start` on, position) to `out`, by probe, in reverse order."""
    while found + hit > out.shape[0]:
        out = _grown(out)
    ends = found + np.cumsum(counts)
    for h in range(hit):
        ends[hits[h, 0] - start] -= 1
        out[ends[hits[h, 0] - start]] = hits[h, 1]
    return out


@inlined
def _ask(rows: I64, at: int, column: int, gap: I32, place: int) -> None:
    """Prefetch what the visit of a row reads."""
    prefetch(gap, 0, place)
    prefetch(rows, at, 1 + column)


@kernel
def walk_chains(
    keys: I64, null: Bool, floor: int, limit: I64,
    rows: I64, base: int, built: int, columns: I64, head: I32, gap: I32, skip: I32,
) -> tuple[I64, I64]:  # fmt: skip
    """The positions of the rows with the key of each probe, ascending, and their numbers.

    Probe i sees positions in [floor, limit[i]). `null` is empty or marks probes that find nothing.
    Probes of a block advance in turn, so that their cache misses overlap.
    """
    n, buckets, ring = limit.shape[0], head.shape[0] - 1, gap.shape[0] - 1
    newest, width = built - 1, keys.shape[0]
    counts, found = np.zeros(n, np.int64), 0
    out, hits = np.empty(n + 16, np.int64), np.empty((_AHEAD, 2), np.int64)
    probe, position = np.empty(_AHEAD, np.int64), np.empty(_AHEAD, np.int64)
    in_chain = np.empty(_AHEAD, np.bool_)
    for start in range(0, n, _AHEAD):
        top = min(start + _AHEAD, n)
        for i in range(start, top):
            position[i - start] = _bucket_of_key(keys, i, buckets)
            prefetch(head, 0, position[i - start])
        walking, hit = 0, 0
        for i in range(start, top):
            at = newest - ((newest - int(head[position[i - start]])) & LOW)
            if at >= floor and not (null.shape[0] and null[i]):
                _ask(rows, at - base, columns[0], gap, at & ring)
                probe[walking], position[walking], in_chain[walking] = i, at, False
                walking += 1
        while walking:
            going = 0
            for w in range(walking):
                i, at, same = probe[w], position[w], in_chain[w]
                if not same:
                    same = True
                    for c in range(width):
                        same = same and rows[at - base, 1 + columns[c]] == keys[c, i]
                if same and at < limit[i]:
                    if hit == hits.shape[0]:
                        hits = _grown(hits)
                    hits[hit, 0], hits[hit, 1] = i, at
                    counts[i] += 1
                    hit += 1
                back = int(gap[at & ring]) if same else int(skip[at & ring])
                at -= back
                if back and at >= floor:
                    prefetch(gap, 0, at & ring)
                    if not same:
                        prefetch(rows, at - base, 1 + columns[0])
                    probe[going], position[going], in_chain[going] = i, at, same
                    going += 1
            walking = going
        out = _spread(hits, hit, start, counts[start:top], out, found)
        found += hit
    return counts, out[:found]


# ---- ranges --------------------------------------------------------------------------
@inlined
def lower_bound(values: I64, begin: int, end: int, value: int) -> int:
    """The first index in [begin, end) with a value that is not less; the values are sorted."""
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
    """The positions of values in [low[i], high[i]] for each probe, ascending, and their numbers.

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
            for k in range(lower_bound(values, offsets[r], end, low[i]), end):
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
