"""The timeline of a join of two windows: arrivals and departures in the order of the changelog.

The rows of a window are adjacent in the log of its stream: those that have arrived and not left. So
a window is two cursors, and the events of a join are the moves of four cursors. `order_events`
moves the cursors and finds the rows of the other window that each event meets. `chain_events` drops
events without a key and links *fresh* rows, which arrive in this step, into chains by hash. At each
instant, departures (left before right) come before arrivals (left before right).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I32, I64, NEVER, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.lifetime import arrival, departure
from penstock.kernels.memory import AHEAD, prefetch
from penstock.kernels.stem import hash_of_row

_HASH = 0x7FFFFFFF


class Side(NamedTuple):
    """A log by place (position minus `base`), a window over it, and the columns of the join.

    The window begins at `first`; rows at [start, end) have not arrived. Length and slide are those
    of the window's lifetime.
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


class Order(NamedTuple):
    """The events of both sides in the order of the changelog: side, time, and direction."""

    of_right: Bool
    ts: I64
    sign: I8


class Meeting(NamedTuple):
    """For each event in order: its row, and the places [first, until) of the other window."""

    row: I32
    first: I32
    until: I32


class Events(NamedTuple):
    """Rows of one side that arrive or leave, in order, and where to find their partners.

    The partners are at places [first, until): in the chain of fresh rows that begins at `fresh`,
    and in the SteM under `hashed`, the hash of the key.
    """

    row: I32
    first: I32
    until: I32
    fresh: I32
    hashed: I32


class Timeline(NamedTuple):
    """Events by side, their order, and for fresh rows of each side the hash and next older row."""

    order: Order
    left: Events
    right: Events
    left_links: I32
    right_links: I32


@kernel
def make_timeline(
    left: Side, right: Side, at: int, now: int, tells: bool, leaving: tuple[int, int]
) -> Timeline:
    """The events up to `now` of rows with a key; at most `leaving` rows leave on each side.

    Rows arrive at their own time, or at `at` if that is later; a row that has left by then is
    skipped. Departures are events only if the join `tells` them.
    """
    order, meeting = order_events(left, right, at, now, tells, leaving)
    return chain_events(left, right, leaving, order, meeting)


# ---- when ----------------------------------------------------------------------------
@inlined
def _next_arrival(ts: I64, row: int, end: int, slide: int, at: int) -> int:
    """The time of the next arrival; NEVER if all rows have arrived."""
    return max(arrival(ts[row], slide), at) if row < end else NEVER


@inlined
def _next_departure(ts: I64, row: int, end: int, length: int, slide: int) -> int:
    """The time of the next departure; NEVER if the window is empty or its oldest row stays."""
    return departure(ts[row], length, slide) if row < end else NEVER


@kernel
def order_events(
    left: Side, right: Side, at: int, now: int, tells: bool, leaving: tuple[int, int]
) -> tuple[Order, Meeting]:
    """All events, also of rows without a key, and what each event meets."""
    # Arrays are taken out of their tuples once: in the loop that would count references.
    l_ts, l_end, l_length, l_slide = left.ts, left.end, left.length, left.slide
    r_ts, r_end, r_length, r_slide = right.ts, right.end, right.length, right.slide
    l_first, l_next, r_first, r_next = left.first, left.start, right.first, right.start
    room = l_end - l_next + leaving[0] + r_end - r_next + leaving[1]
    of_right, ts = np.empty(room, np.bool_), np.empty(room, np.int64)
    sign, spans, n = np.empty(room, np.int8), np.empty((3, room), np.int32), 0
    while True:
        l_in = _next_arrival(l_ts, l_next, l_end, l_slide, at)
        r_in = _next_arrival(r_ts, r_next, r_end, r_slide, at)
        l_out = _next_departure(l_ts, l_first, l_end, l_length, l_slide)
        r_out = _next_departure(r_ts, r_first, r_end, r_length, r_slide)
        come, gone = min(l_in, r_in), min(l_out, r_out)
        leaves = gone <= min(come, now)
        if not leaves and come == NEVER:
            break
        is_left = l_out <= r_out if leaves else l_in <= r_in
        if is_left:
            row, arrived, first, until = l_first if leaves else l_next, l_next, r_first, r_next
            l_first += leaves
            l_next = max(l_next + (not leaves), l_first)
        else:
            row, arrived, first, until = r_first if leaves else r_next, r_next, l_first, l_next
            r_first += leaves
            r_next = max(r_next + (not leaves), r_first)
        if not leaves or (tells and row < arrived):
            of_right[n], ts[n], sign[n] = not is_left, gone if leaves else come, 1 - 2 * leaves
            spans[0, n], spans[1, n], spans[2, n] = row, first, until
            n += 1
    meeting = Meeting(spans[0, :n], spans[1, :n], spans[2, :n])
    return Order(of_right[:n], ts[:n], sign[:n]), meeting


# ---- by key --------------------------------------------------------------------------
@kernel
def _put_hashes(side: Side, leaving: int, hashes: I32, at: int) -> None:
    """Hash the keys of the rows that may leave from `first` on, then of fresh rows, in 31 bits.

    They are put at `at` and after. A key with a NULL has −1.
    """
    rows, key, first, start, end = side.rows, side.columns, side.first, side.start, side.end
    for i in range(leaving + end - start):
        hashed = hash_of_row(rows, first + i if i < leaving else start + i - leaving, key)
        hashes[at + i] = hashed & _HASH if hashed >= 0 else -1


@inlined
def _buckets(rows: int) -> int:
    """The number of chains for this many rows: a power of 2."""
    n = 16
    while n < rows:
        n *= 2
    return n


@inlined
def _select(which: int, left: int, right: int) -> int:
    """`right` if `which` is 1, `left` if it is 0, without a branch that is hard to predict."""
    return left ^ ((left ^ right) & -which)


@kernel
def chain_events(
    left: Side, right: Side, leaving: tuple[int, int], order: Order, meeting: Meeting
) -> Timeline:
    """The events by side of rows with a key, each with the chain of fresh rows that it meets.

    An arriving row is put at the front of its own chain. `order` is shortened in place. Both sides
    share arrays, the right side after the left. So the loop needs no branch on the side or the
    direction of an event, which alternate at random.
    """
    l_start, l_come = left.start, left.end - left.start
    r_start, r_come = right.start, right.end - right.start
    l_gone = max(0, min(leaving[0], l_start - left.first))
    r_gone = max(0, min(leaving[1], r_start - right.first))
    l_first, r_first, r_hashes = left.first, right.first, l_gone + l_come
    hashes = np.zeros(r_hashes + r_gone + r_come + AHEAD, np.int32)
    _put_hashes(left, l_gone, hashes, 0)
    _put_hashes(right, r_gone, hashes, r_hashes)
    l_size, r_size, spare = _buckets(l_come), _buckets(r_come), l_come + r_come
    head, links = np.full(l_size + r_size + 1, -1, np.int32), np.empty((spare + 1, 2), np.int32)
    room = l_come + leaving[0]
    found = np.empty((5, room + r_come + leaving[1]), np.int32)
    (of_right, ts, sign), (rows, firsts, untils), nl, nr = order, meeting, 0, 0
    for e in range(ts.shape[0]):
        row, side, comes = int(rows[e]), int(of_right[e]), int(sign[e] > 0)
        before = row - _select(side, l_first, r_first)  # rows of the window that are older
        fresh = row - _select(side, l_start, r_start)
        at = _select(int(fresh >= 0), before, fresh + _select(side, l_gone, r_gone))
        at += r_hashes & -side
        hashed, later = int(hashes[at]), int(hashes[at + AHEAD])
        prefetch(head, 0, later & (l_size - 1))
        prefetch(head, 0, l_size + (later & (r_size - 1)))
        if hashed < 0:
            continue
        in_left, in_right = hashed & (l_size - 1), l_size + (hashed & (r_size - 1))
        newest = head[_select(side, in_right, in_left)]
        own = _select(comes, l_size + r_size, _select(side, in_left, in_right))
        link = _select(comes, spare, fresh + (l_come & -side))
        links[link, 0], links[link, 1] = hashed, head[own]
        head[own] = row
        n, place = nl + nr, _select(side, nl, room + nr)
        found[0, place], found[1, place], found[2, place] = row, firsts[e], untils[e]
        found[3, place], found[4, place] = newest, hashed
        of_right[n], ts[n], sign[n] = of_right[e], ts[e], sign[e]
        nl, nr = nl + 1 - side, nr + side
    line = Order(of_right[: nl + nr], ts[: nl + nr], sign[: nl + nr])
    return Timeline(
        line, _events(found, 0, nl), _events(found, room, nr), links[:l_come], links[l_come:spare]
    )


@kernel
def _events(found: I32, at: int, n: int) -> Events:
    """The events at [at, at + n)."""
    place = slice(at, at + n)
    return Events(
        found[0, place], found[1, place], found[2, place], found[3, place], found[4, place]
    )
