"""The partners of each event of a join of two windows over SteMs, and the resulting pairs.

A row that arrives or leaves (`kernels/window_timeline.py`) probes the other window. The SteM finds
rows of earlier steps; temporary chains find *fresh* rows, which arrived in this step. A departure
makes the same probe as an arrival, so no results are stored (docs/design/0005). Pairs are in the
order of the changelog, partners newest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.kernels.jit import kernel
from penstock.kernels.join import FLOAT_BAND, I32, Test, partner_range, take
from penstock.kernels.memory import prefetch
from penstock.kernels.stem import LOW, same_key
from penstock.kernels.window_timeline import Events, Order, Side

_BLOCK = 64  # events looked up together
_STEPS = 16  # events that advance in turn


class Hashed(NamedTuple):
    """The SteM of a side by its columns; only rows before the side's `start` count."""

    built: int
    head: I32
    gap: I32
    skip: I32


class JoinedPairs(NamedTuple):
    """The places of the left and right row, the time and the sign of each pair."""

    left: I32
    right: I32
    ts: I64
    sign: I8


class Matches(NamedTuple):
    """For each event of a block: some partners, their number, and the place of the next one."""

    some: I32
    number: I64
    rest: I64
    walking: I64


@kernel
def _look_up(
    events: Events, begin: int, end: int, own: Side, other: Side, stem: Hashed, found: Matches
) -> None:  # fmt: skip
    """Look up the first partners of the events at [begin, end) in the other SteM, newest first.

    The events advance in turn, so that their cache misses overlap.
    """
    row_of, firsts, _, _, hashes = events
    rows, key, theirs, their_key = own.rows, own.columns, other.rows, other.columns
    head, gap, skip, base, start = stem.head, stem.gap, stem.skip, other.base, other.start
    some, count, rest, walking = found
    ring, buckets, newest, n = gap.shape[0] - 1, head.shape[0] - 1, stem.built - 1, 0
    for e in range(begin, end):
        prefetch(head, 0, hashes[e] & buckets)
    for e in range(begin, end):
        place = newest - ((newest - int(head[hashes[e] & buckets])) & LOW) - base
        rest[e - begin] = place
        if place >= firsts[e]:
            prefetch(theirs, place, 1)
            prefetch(gap, 0, (place + base) & ring)
    for e in range(begin, end):
        place, row = rest[e - begin], row_of[e]
        while place >= firsts[e] and not same_key(rows, row, key, theirs, place, their_key):
            back = int(skip[(place + base) & ring])
            place = place - back if back else -1
        rest[e - begin], count[e - begin] = place, 0
        walking[n] = e
        n += place >= firsts[e]
    for _ in range(_STEPS):
        going = 0
        for w in range(n):
            e = walking[w]
            i = e - begin
            place = rest[i]
            some[i, count[i]] = place
            count[i] += place < start
            back = int(gap[(place + base) & ring])
            place = place - back if back else -1
            rest[i] = place
            prefetch(gap, 0, (place + base) & ring)
            walking[going] = e
            going += place >= firsts[e]
        n = going


@kernel
def _append(
    events: Events, begin: int, end: int, own: Side, other: Side, stem: Hashed, links: I32,
    found: Matches, counts: I64, out: I32, n: int,
) -> int:  # fmt: skip
    """Append all partners of the events at [begin, end) to `out`; the new n, −1 if it is full."""
    row_of, firsts, _, fresh, hashes = events
    rows, key, theirs, their_key = own.rows, own.columns, other.rows, other.columns
    gap, base, start, ring, room = (
        stem.gap, other.base, other.start, stem.gap.shape[0] - 1, out.shape[0]
    )  # fmt: skip
    some, count, rest, _ = found
    for e in range(begin, end):
        first, before, i = firsts[e], n, e - begin
        at, row, place = int(fresh[e]), row_of[e], rest[i]
        while at >= first and n < room:
            hashed, older = links[at - start, 0], links[at - start, 1]
            if hashed == hashes[e] and same_key(rows, row, key, theirs, at, their_key):
                out[n] = at
                n += 1
            at = int(older)
        if at >= first or n + count[i] > room:
            return -1
        for j in range(count[i]):
            out[n + j] = some[i, j]
        n += count[i]
        while place >= first and n < room:
            if place < start:
                out[n] = place
                n += 1
            back = int(gap[(place + base) & ring])
            place = place - back if back else -1
        if place >= first:
            return -1
        counts[e] = n - before
    return n


@kernel
def _ask_for_fresh(
    events: Events, begin: int, end: int, other: Side, links: I32
) -> None:  # fmt: skip
    """Prefetch the first fresh rows that the events at [begin, end) read."""
    _, firsts, _, fresh, hashes = events
    theirs, start = other.rows, other.start
    for e in range(begin, end):
        if fresh[e] >= firsts[e]:
            prefetch(links, fresh[e] - start, 0)
    for e in range(begin, end):
        at = fresh[e]
        if at >= firsts[e] and links[at - start, 0] == hashes[e]:
            prefetch(theirs, at, 1)


@kernel
def twice(array: I32) -> I32:
    """A copy with twice the capacity."""
    new = np.empty(2 * array.shape[0], np.int32)
    new[: array.shape[0]] = array
    return new


@kernel
def find_partners(
    events: Events, own: Side, other: Side, stem: Hashed, links: I32
) -> tuple[I64, I32]:
    """The number of partners of each event of a side, and all their places, newest first."""
    m = events.row.shape[0]
    found = Matches(np.empty((_BLOCK, _STEPS + 1), np.int32), np.empty(_BLOCK, np.int64),
                   np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64))  # fmt: skip
    counts, out, n = np.empty(m, np.int64), np.empty(4 * m + 64, np.int32), 0
    for begin in range(0, m, _BLOCK):
        end = min(begin + _BLOCK, m)
        _ask_for_fresh(events, begin, end, other, links)
        if events.first[begin] < other.start:
            _look_up(events, begin, end, own, other, stem, found)
        else:  # the window holds no rows of earlier steps any more
            found.number[:], found.rest[:] = 0, -1
        after = _append(events, begin, end, own, other, stem, links, found, counts, out, n)
        while after < 0:
            out = twice(out)
            after = _append(events, begin, end, own, other, stem, links, found, counts, out, n)
        n = after
    return counts, out[:n]


@kernel
def merge_pairs(
    order: Order, left: I32, right: I32, counts: tuple[I64, I64], partners: tuple[I32, I32]
) -> JoinedPairs:
    """The pairs of all events in order; `left` and `right` have the rows of the events."""
    (l_counts, r_counts), (l_partners, r_partners) = counts, partners
    of_right, all_ts, signs = order
    n = l_partners.shape[0] + r_partners.shape[0]
    places = np.empty((2, n), np.int32)
    lefts, rights = places[0], places[1]
    ts, sign = np.empty(n, np.int64), np.empty(n, np.int8)
    k, i, j, p, q = 0, 0, 0, 0, 0
    for e in range(all_ts.shape[0]):
        before = k
        if of_right[e]:
            row = right[j]
            for _ in range(r_counts[j]):
                lefts[k], rights[k] = r_partners[q], row
                k, q = k + 1, q + 1
            j += 1
        else:
            row = left[i]
            for _ in range(l_counts[i]):
                lefts[k], rights[k] = row, l_partners[p]
                k, p = k + 1, p + 1
            i += 1
        for at in range(before, k):
            ts[at], sign[at] = all_ts[e], signs[e]
    return JoinedPairs(lefts, rights, ts, sign)


@kernel
def in_band(pairs: JoinedPairs, left: I64, right: I64, test: Test) -> I64:
    """Marks the pairs with non-NULL values within the band."""
    kept, n = np.empty(pairs.ts.shape[0], np.int64), 0
    for k in range(kept.shape[0]):
        a, b = pairs.left[k], pairs.right[k]
        if ((left[a, 0] >> test.left_column) | (right[b, 0] >> test.right_column)) & 1:
            continue
        mine, theirs = left[a, 1 + test.left_column], right[b, 1 + test.right_column]
        if test.kind == FLOAT_BAND:
            gap = np.int64(theirs).view(np.float64) - np.int64(mine).view(np.float64)
            holds = test.low_float <= gap <= test.high_float
        else:
            low, high = partner_range(mine, test.low, test.high, True)
            holds = low <= theirs <= high
        if holds:
            kept[n] = k
            n += 1
    return kept[:n]


@kernel
def gather_sides(
    pairs: JoinedPairs, left: I64, right: I64, of_right: Bool, columns: I64, nulls: bool
) -> I64:
    """The chosen columns of all pairs, column-major; without `nulls` no row has a NULL.

    It gathers one column at a time: many output streams at once are slower than rereading the
    places.
    """
    a, b = pairs.left, pairs.right
    rows = np.empty((1 + columns.shape[0], a.shape[0]), np.int64)
    rows[0] = 0
    for j in range(columns.shape[0]):
        state, at = (right, b) if of_right[j] else (left, a)
        take(state, at, 1 + columns[j], rows[1 + j])
        if nulls:
            for k in range(at.shape[0]):
                rows[0, k] |= ((state[at[k], 0] >> columns[j]) & 1) << j
    return rows
