"""The join of two windows over SteMs: arrivals and departures in one pass (docs/design/0005).

The rows of a window are neighbours in the log of its stream: those that have arrived and not left.
So a window is two cursors, and the events of a join are the moves of four. A row that moves one
probes the other window: its rows of earlier steps by their SteM, *fresh* ones, which arrived in
this step, by chains that are linked on the way and forgotten. What leaves is told by the same probe
as what comes, so nobody stores results. Pairs come in the order of the changelog: at each instant
departures (left before right), then arrivals (left before right), partners newest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I64, NEVER, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.join import FLOAT_BAND, I32, Test, partner_range, take
from penstock.kernels.lifetime import arrival, departure
from penstock.kernels.memory import AHEAD, prefetch
from penstock.kernels.stem import LOW, hash_of_row, same_key

_BLOCK = 64  # moves that are looked up together
_STEPS = 16  # that they take in turn
_HASH = 0x7FFFFFFF


class Side(NamedTuple):
    """A log by place (position less `base`), a window over it and the columns it is joined by.

    The window begins at `first`; rows at [start, end) have not arrived. With a `slide` rows
    come and go at its multiples.
    """

    rows: I64
    ts: I64
    base: int
    first: int
    start: int
    end: int
    length: int
    slide: int
    columns: I64


class Hashed(NamedTuple):
    """The SteM of a side by its columns. Only what is before the side's `start` counts."""

    built: int
    head: I32
    gap: I32
    skip: I32


class Pairs(NamedTuple):
    """Place of the left and of the right row, time and sign of each pair."""

    left: I32
    right: I32
    ts: I64
    sign: I8


class Moves(NamedTuple):
    """Rows of one side that arrive or leave, in this order, and where their partners are.

    That is at [first, until): in the chain of fresh rows that begins at `fresh`, and in the
    SteM by `hashed`, the hash of the key.
    """

    row: I32
    first: I32
    until: I32
    fresh: I32
    hashed: I32


class Line(NamedTuple):
    """The moves of both sides in the order of the changelog: whose, when, and which way."""

    of_right: Bool
    ts: I64
    sign: I8


class Lined(NamedTuple):
    """Moves by side, their common line, and by side of each fresh row hash and next older one."""

    line: Line
    left: Moves
    right: Moves
    left_links: I32
    right_links: I32


@kernel
def _buckets(rows: int) -> I32:
    """Empty chains for so many rows."""
    n = 16
    while n < rows:
        n *= 2
    return np.full(n, -1, np.int32)


@kernel
def _hashes(rows: I64, key: I64, first: int, gone: int, start: int, end: int) -> I32:
    """31 bits of hash of the key of the rows at [first, first + gone), then those at [start, end).

    It is −1 when there is a NULL in the key. Whoever asks ahead finds a few more.
    """
    hashes = np.zeros(gone + end - start + AHEAD, np.int32)
    for i in range(gone + end - start):
        hashed = hash_of_row(rows, first + i if i < gone else start + i - gone, key)
        hashes[i] = hashed & _HASH if hashed >= 0 else -1
    return hashes


@inlined
def _move(
    moves: I32, n: int, row: int, first: int, until: int, fresh: int, hashed: int
) -> None:  # fmt: skip
    moves[0, n], moves[1, n], moves[2, n] = row, first, until
    moves[3, n], moves[4, n] = fresh, hashed


@inlined
def _link(head: I32, links: I32, at: int, row: int, hashed: int) -> None:
    """Put a fresh row, the one at `at` of these, before its chain."""
    bucket = hashed & (head.shape[0] - 1)
    links[at, 0], links[at, 1] = hashed, head[bucket]
    head[bucket] = row


@kernel
def line_up(
    left: Side, right: Side, at: int, now: int, tells: bool, room: tuple[int, int]
) -> Lined:  # fmt: skip
    """The moves up to `now`, at most `room` by side, of rows whose key is known.

    Rows arrive at their own time, or `at` when that is later: who has left by then was never
    there. Departures are listed only if it `tells`.
    """
    # Arrays are taken out of their tuples once: in the loop that would count references.
    l_ts, r_ts, l_base, r_base = left.ts, right.ts, left.first, right.first
    l_start, l_end, l_length, l_first = left.start, left.end, left.length, left.first
    r_start, r_end, r_length, r_first = right.start, right.end, right.length, right.first
    l_slide, r_slide = left.slide, right.slide
    l_gone = max(0, min(room[0] - (l_end - l_start), l_start - l_base))
    r_gone = max(0, min(room[1] - (r_end - r_start), r_start - r_base))
    l_hash = _hashes(left.rows, left.columns, l_base, l_gone, l_start, l_end)
    r_hash = _hashes(right.rows, right.columns, r_base, r_gone, r_start, r_end)
    l_head, l_links = _buckets(l_end - l_start), np.empty((l_end - l_start, 2), np.int32)
    r_head, r_links = _buckets(r_end - r_start), np.empty((r_end - r_start, 2), np.int32)
    l_mask, r_mask = l_head.shape[0] - 1, r_head.shape[0] - 1
    lefts, rights = np.empty((5, room[0]), np.int32), np.empty((5, room[1]), np.int32)
    of_right, ts = np.empty(sum(room), np.bool_), np.empty(sum(room), np.int64)
    sign = np.empty(sum(room), np.int8)
    l_next, r_next, nl, nr = l_start, r_start, 0, 0
    while True:
        l_in = max(arrival(l_ts[l_next], l_slide), at) if l_next < l_end else NEVER
        r_in = max(arrival(r_ts[r_next], r_slide), at) if r_next < r_end else NEVER
        l_out = departure(l_ts[l_first], l_length, l_slide) if l_first < l_end else NEVER
        r_out = departure(r_ts[r_first], r_length, r_slide) if r_first < r_end else NEVER
        come, gone, n = min(l_in, r_in), min(l_out, r_out), nl + nr
        leaves = gone <= min(come, now)
        if not leaves and come == NEVER:
            break
        is_left, hashed = l_out <= r_out if leaves else l_in <= r_in, -1
        if is_left:
            row = l_first if leaves else l_next
            if not leaves or (tells and row < l_next):
                i = row - l_base if row < l_start else row - l_start + l_gone
                hashed, later = int(l_hash[i]), l_hash[i + AHEAD]
                prefetch(r_head, 0, later & r_mask)
                prefetch(l_head, 0, later & l_mask)
            if hashed >= 0:
                _move(lefts, nl, row, r_first, r_next, r_head[hashed & r_mask], hashed)
                nl += 1
                if not leaves:
                    _link(l_head, l_links, row - l_start, row, hashed)
            l_first += leaves
            l_next = max(l_next + (not leaves), l_first)
        else:
            row = r_first if leaves else r_next
            if not leaves or (tells and row < r_next):
                i = row - r_base if row < r_start else row - r_start + r_gone
                hashed, later = int(r_hash[i]), r_hash[i + AHEAD]
                prefetch(l_head, 0, later & l_mask)
                prefetch(r_head, 0, later & r_mask)
            if hashed >= 0:
                _move(rights, nr, row, l_first, l_next, l_head[hashed & l_mask], hashed)
                nr += 1
                if not leaves:
                    _link(r_head, r_links, row - r_start, row, hashed)
            r_first += leaves
            r_next = max(r_next + (not leaves), r_first)
        if hashed >= 0:
            of_right[n], ts[n] = not is_left, gone if leaves else come
            sign[n] = -1 if leaves else 1
    line = Line(of_right[: nl + nr], ts[: nl + nr], sign[: nl + nr])
    l_moves = Moves(lefts[0, :nl], lefts[1, :nl], lefts[2, :nl], lefts[3, :nl], lefts[4, :nl])
    r_moves = Moves(rights[0, :nr], rights[1, :nr], rights[2, :nr], rights[3, :nr], rights[4, :nr])
    return Lined(line, l_moves, r_moves, l_links, r_links)


class _Found(NamedTuple):
    """Of each move of a block: some partners, how many these are, and the place of the next one."""

    some: I32
    number: I64
    rest: I64
    walking: I64


@kernel
def _look_up(
    moves: Moves, begin: int, end: int, own: Side, other: Side, stem: Hashed, found: _Found
) -> None:  # fmt: skip
    """The first partners of the moves at [begin, end) in the other's SteM, newest first.

    They take their steps in turn, so that their cache misses overlap.
    """
    moved, firsts, _, _, hashes = moves
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
        place, row = rest[e - begin], moved[e]
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
    moves: Moves, begin: int, end: int, own: Side, other: Side, stem: Hashed, links: I32,
    found: _Found, counts: I64, out: I32, n: int,
) -> int:  # fmt: skip
    """Write all partners of the moves at [begin, end) to `out`; the new n, −1 when it is full."""
    moved, firsts, _, fresh, hashes = moves
    rows, key, theirs, their_key = own.rows, own.columns, other.rows, other.columns
    gap, base, start, ring, room = (
        stem.gap, other.base, other.start, stem.gap.shape[0] - 1, out.shape[0]
    )  # fmt: skip
    some, count, rest, _ = found
    for e in range(begin, end):
        first, before, i = firsts[e], n, e - begin
        at, row, place = int(fresh[e]), moved[e], rest[i]
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
    moves: Moves, begin: int, end: int, other: Side, links: I32
) -> None:  # fmt: skip
    """Ask for the first fresh rows that the moves at [begin, end) look at."""
    _, firsts, _, fresh, hashes = moves
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
    """A copy with as much room again."""
    new = np.empty(2 * array.shape[0], np.int32)
    new[: array.shape[0]] = array
    return new


@kernel
def find_partners(
    moves: Moves, own: Side, other: Side, stem: Hashed, links: I32
) -> tuple[I64, I32]:
    """How many partners each move of a side has, and their places, newest first."""
    m = moves.row.shape[0]
    found = _Found(np.empty((_BLOCK, _STEPS + 1), np.int32), np.empty(_BLOCK, np.int64),
                   np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64))  # fmt: skip
    counts, out, n = np.empty(m, np.int64), np.empty(4 * m + 64, np.int32), 0
    for begin in range(0, m, _BLOCK):
        end = min(begin + _BLOCK, m)
        _ask_for_fresh(moves, begin, end, other, links)
        if moves.first[begin] < other.start:
            _look_up(moves, begin, end, own, other, stem, found)
        else:  # nobody of earlier steps is in the window any more
            found.number[:], found.rest[:] = 0, -1
        after = _append(moves, begin, end, own, other, stem, links, found, counts, out, n)
        while after < 0:
            out = twice(out)
            after = _append(moves, begin, end, own, other, stem, links, found, counts, out, n)
        n = after
    return counts, out[:n]


@kernel
def merge_pairs(
    line: Line, left: I32, right: I32, counts: tuple[I64, I64], partners: tuple[I32, I32]
) -> Pairs:
    """The pairs of all moves, in the order of the line; `left` and `right` are the moved rows."""
    (l_counts, r_counts), (l_partners, r_partners) = counts, partners
    of_right, all_ts, signs = line
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
    return Pairs(lefts, rights, ts, sign)


@kernel
def in_band(pairs: Pairs, left: I64, right: I64, test: Test) -> I64:
    """Which pairs have known values within the band."""
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
    pairs: Pairs, left: I64, right: I64, of_right: Bool, columns: I64, nulls: bool
) -> I64:
    """The chosen columns of all pairs, column-major; without `nulls` no row has a NULL.

    One column at a time: many output streams at once are slower than rereading the places.
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
