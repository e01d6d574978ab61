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
def _hashes(side: Side, leaving: int) -> I32:
    """31-bit hashes of keys: of the rows that may leave from `first` on, then of fresh rows.

    A key with a NULL has −1. A few more elements follow, for kernels that read ahead.
    """
    rows, key, first, start, end = side.rows, side.columns, side.first, side.start, side.end
    hashes = np.zeros(leaving + end - start + AHEAD, np.int32)
    for i in range(leaving + end - start):
        hashed = hash_of_row(rows, first + i if i < leaving else start + i - leaving, key)
        hashes[i] = hashed & _HASH if hashed >= 0 else -1
    return hashes


@kernel
def _buckets(rows: int) -> I32:
    """Empty chains for this many rows."""
    n = 16
    while n < rows:
        n *= 2
    return np.full(n, -1, np.int32)


@inlined
def _chain(
    at: int, row: int, fresh: int, hashes: I32, head: I32, links: I32, other: I32
) -> tuple[int, int]:
    """The hash of an event's row, and the newest fresh row of its bucket on the `other` side.

    The hash is the one at `at`. An arriving row (`fresh` ≥ 0 is its number among arrivals) is put
    at the front of its own chain.
    """
    hashed, later = int(hashes[at]), hashes[at + AHEAD]
    prefetch(other, 0, later & (other.shape[0] - 1))
    prefetch(head, 0, later & (head.shape[0] - 1))
    newest = int(other[hashed & (other.shape[0] - 1)])
    if hashed >= 0 and fresh >= 0:
        bucket = hashed & (head.shape[0] - 1)
        links[fresh, 0], links[fresh, 1] = hashed, head[bucket]
        head[bucket] = row
    return hashed, newest


@inlined
def _put(events: I32, n: int, meeting: tuple[int, int, int], fresh: int, hashed: int) -> None:
    events[0, n], events[1, n], events[2, n] = meeting
    events[3, n], events[4, n] = fresh, hashed


@kernel
def chain_events(
    left: Side, right: Side, leaving: tuple[int, int], order: Order, meeting: Meeting
) -> Timeline:
    """The events by side of rows with a key, each with the chain of fresh rows that it meets.

    `order` is shortened in place.
    """
    l_base, l_start, l_come = left.first, left.start, left.end - left.start
    r_base, r_start, r_come = right.first, right.start, right.end - right.start
    l_gone = max(0, min(leaving[0], l_start - l_base))
    r_gone = max(0, min(leaving[1], r_start - r_base))
    l_hash, l_head, l_links = (
        _hashes(left, l_gone),
        _buckets(l_come),
        np.empty((l_come, 2), np.int32),
    )
    r_hash, r_head, r_links = (
        _hashes(right, r_gone),
        _buckets(r_come),
        np.empty((r_come, 2), np.int32),
    )
    lefts = np.empty((5, l_come + leaving[0]), np.int32)
    rights = np.empty((5, r_come + leaving[1]), np.int32)
    (of_right, ts, sign), (rows, firsts, untils), nl, nr = order, meeting, 0, 0
    for e in range(ts.shape[0]):
        n, row, arrives = nl + nr, int(rows[e]), sign[e] > 0
        span = (row, int(firsts[e]), int(untils[e]))
        if of_right[e]:
            at = row - r_base if row < r_start else row - r_start + r_gone
            fresh = row - r_start if arrives else -1
            hashed, newest = _chain(at, row, fresh, r_hash, r_head, r_links, l_head)
            if hashed >= 0:
                _put(rights, nr, span, newest, hashed)
                nr += 1
        else:
            at = row - l_base if row < l_start else row - l_start + l_gone
            fresh = row - l_start if arrives else -1
            hashed, newest = _chain(at, row, fresh, l_hash, l_head, l_links, r_head)
            if hashed >= 0:
                _put(lefts, nl, span, newest, hashed)
                nl += 1
        if hashed >= 0:
            of_right[n], ts[n], sign[n] = of_right[e], ts[e], sign[e]
    kept = Order(of_right[: nl + nr], ts[: nl + nr], sign[: nl + nr])
    return Timeline(kept, _events(lefts, nl), _events(rights, nr), l_links, r_links)


@kernel
def _events(found: I32, n: int) -> Events:
    return Events(found[0, :n], found[1, :n], found[2, :n], found[3, :n], found[4, :n])
