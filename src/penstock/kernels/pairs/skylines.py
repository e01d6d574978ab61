"""Skylines: which partners matter if each query has its own window (window joins, §3.3.2).

The skyline of a point, on one side, has the partners that are younger than every partner between
them and the point. An interval that holds the point and a partner also holds all partners between
them. So a query has a partner in its interval and its window if, and only if, it has one on a
skyline of its group's point: the last point of the skyline that is in the interval is the youngest
partner in it.

No skyline is kept. Instead each entry has two *links*: the nearest entries with a later position
on the left and on the right. A log is in order of time, so that whatever lies between an entry and
the one that it links to is not younger. From any place, the links lead along the skyline. They
depend neither on points nor on shifts, so all groups and all rows of a key share them, and a change
of queries makes none stale. They are made once for each key of a batch of probing rows, in one pass
over its entries. To keep a skyline for each key and group instead takes many times the memory,
serves no band, and saves only this pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries
from penstock.kernels.pairs.near import LEFT, RIGHT
from penstock.kernels.pairs.search import Parts, View, find_parts, gap_of

WORD, AGE = 0, 1
"""Of a point of a skyline: its gap on the left, ~gap on the right; and its age. Both descend."""


class Clock(NamedTuple):
    """The instant from which a row looks at partners, and the position of the first logged one."""

    instant: int
    base: int


@inlined
def age_of(position: int, ts: I64, clock: Clock) -> int:
    """The age of a partner at the instant of the row."""
    return clock.instant - ts[position - clock.base]


# ---- links ---------------------------------------------------------------------------
@inlined
def new_links(entries: Entries) -> I64:
    """Room for the links of all entries: [side, place]."""
    return np.empty((2, entries.positions.shape[0]), np.int64)


@kernel
def link_later(positions: I64, begin: int, end: int, links: I64) -> None:
    """Link the entries at [begin, end): to the nearest with a later position, or past an end."""
    for k in range(begin, end):
        at = k - 1
        while at >= begin and positions[at] < positions[k]:
            at = links[LEFT, at]
        links[LEFT, k] = at
    for k in range(end - 1, begin - 1, -1):
        at = k + 1
        while at < end and positions[at] < positions[k]:
            at = links[RIGHT, at]
        links[RIGHT, k] = at


@inlined
def find_linked(entries: Entries, view: View, parts: Parts, links: I64) -> int:
    """Find the stretches in which a row's partners are, and link their entries; their number."""
    count = find_parts(entries, view, parts)
    if count and not parts.books[2]:
        for s in range(count):
            link_later(entries.positions, parts.stretches[s, 0], parts.stretches[s, 1], links)
    return count


# ---- skylines ------------------------------------------------------------------------
@inlined
def new_skyline(entries: Entries) -> I64:
    """Room for the skylines of any point: [side, word and age, place from the point]."""
    return np.empty((2, 2, entries.positions.shape[0]), np.int64)


@inlined
def _nearest_head(
    side: int, values: I64, view: View, stretches: I64, count: int, heads: I64
) -> int:
    """The stretch that has the nearest entry of one side at its head; −1 if none has an entry."""
    nearest, most = -1, 0
    for s in range(count):
        if stretches[s, 0] <= heads[s] < stretches[s, 1]:
            gap = gap_of(values[heads[s]], view)
            word = gap if side == LEFT else ~gap
            if nearest < 0 or word > most:
                nearest, most = s, word
    return nearest


@inlined
def trace_skyline(
    side: int, bound: int, oldest: int, enough: int, values: I64, positions: I64, view: View,
    ts: I64, clock: Clock, stretches: I64, count: int, heads: I64, links: I64, skyline: I64,
) -> int:  # fmt: skip
    """Write the skyline of one side from the heads of the stretches on; its length.

    Partners are left out if their word is less than `bound`, if they are older than `oldest`, or if
    one of age `enough` or less is nearer. The heads move.
    """
    n, age = 0, oldest + 1
    while age > enough:
        s = _nearest_head(side, values, view, stretches, count, heads)
        if s < 0:
            break
        k = heads[s]
        gap = gap_of(values[k], view)
        word = gap if side == LEFT else ~gap
        if word < bound:
            break
        if positions[k] >= view.limit:  # its link would pass over entries that the row sees
            heads[s] = k + 2 * side - 1
            continue
        heads[s] = links[side, k]
        if positions[k] >= view.floor and age_of(positions[k], ts, clock) < age:
            age = age_of(positions[k], ts, clock)
            skyline[side, WORD, n], skyline[side, AGE, n] = word, age
            n += 1
    return n


@inlined
def reaches(skyline: I64, side: int, length: int, bound: int, oldest: int) -> bool:
    """Whether the last point with a word of `bound` or more is not older than `oldest`."""
    begin, end = 0, length
    while begin < end:
        middle = (begin + end) >> 1
        if skyline[side, WORD, middle] >= bound:
            begin = middle + 1
        else:
            end = middle
    return begin > 0 and skyline[side, AGE, begin - 1] <= oldest
