"""The timeline of a join of two windows against a simulation that moves one row at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.kernels.window_timeline import Events, Side, Timeline, make_timeline, order_events

NOW = 60
WINDOWS = ((7, 0), (1, 0), (NEVER, 0), (12, 4), (5, 5), (40, 0))


class Event(NamedTuple):
    """When, whether it is an arrival, of the right side, and its row: so events are ordered."""

    ts: int
    arrives: bool
    of_right: bool
    row: int


def side_of(rng: np.random.Generator, length: int, slide: int) -> Side:
    """Rows of which some have left, some are in the window and some come by NOW."""
    n = int(rng.integers(0, 60))
    ts = np.sort(rng.integers(0, NOW + 20, n))
    rows = np.zeros((n, 2), np.int64)
    rows[:, 1] = rng.integers(0, 6, n)
    rows[:, 0] = rng.random(n) < 0.2  # the key is NULL
    told = 20
    arrives, leaves = lifetimes(ts, length, slide)
    bounds = [int((times <= t).sum()) for times, t in ((leaves, told), (arrives, told))]
    end = int((arrives <= NOW).sum())
    return Side(rows, ts, 0, *bounds, end, length, slide, np.array([0]))


def lifetimes(ts: np.ndarray, length: int, slide: int) -> tuple[np.ndarray, np.ndarray]:
    never = np.full(ts.shape[0], NEVER)
    if slide:
        return (ts // slide + 1) * slide, ((ts + length) // slide + 1) * slide
    return ts, never if length == NEVER else ts + length


def expected(sides: tuple[Side, Side], at: int, tells: bool) -> list[tuple[Event, list[int]]]:
    """All events, each with the rows of the other window at its turn."""
    events, inside = [], [set(range(s.first, s.start)) for s in sides]
    for of_right, side in enumerate(sides):
        arrives, leaves = (x.tolist() for x in lifetimes(side.ts, side.length, side.slide))
        for row in range(side.first, side.end):
            comes = max(arrives[row], at)
            if row >= side.start and leaves[row] <= comes:
                continue  # it was never there
            if row >= side.start:
                events.append(Event(comes, True, bool(of_right), row))
            if leaves[row] <= NOW:
                events.append(Event(leaves[row], False, bool(of_right), row))
    found = []
    for event in sorted(events):
        if event.arrives or tells:
            found.append((event, sorted(inside[not event.of_right])))
        (inside[event.of_right].add if event.arrives else inside[event.of_right].remove)(event.row)
    return found


def leaving(side: Side) -> int:
    return int((lifetimes(side.ts, side.length, side.slide)[1][side.first : side.end] <= NOW).sum())


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("at", [BEGINNING, NOW])
@pytest.mark.parametrize("seed", range(12))
def test_events_are_in_the_order_of_the_changelog(seed: int, at: int, tells: bool) -> None:
    """At each instant departures come first, then arrivals, left before right."""
    rng = np.random.default_rng(seed)
    for left in WINDOWS:
        sides = side_of(rng, *left), side_of(rng, *WINDOWS[rng.integers(len(WINDOWS))])
        gone = (leaving(sides[0]), leaving(sides[1])) if tells else (0, 0)
        order, meeting = order_events(*sides, at, NOW, tells, gone)
        found = [
            (Event(ts, sign > 0, right, row), list(range(first, until)))
            for right, ts, sign, row, first, until in zip(
                *(array.tolist() for array in (*order, *meeting)), strict=True
            )
        ]
        assert found == expected(sides, at, tells)


def chain(timeline: Timeline, of_right: bool, newest: int, side: Side) -> list[int]:
    """The fresh rows of a side that a chain names."""
    links = timeline.right_links if of_right else timeline.left_links
    rows = []
    while newest >= 0:
        rows.append(newest)
        newest = int(links[newest - side.start, 1])
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_events_meet_the_fresh_rows_of_their_key_newest_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for left in WINDOWS:
        sides = side_of(rng, *left), side_of(rng, *left)
        gone = leaving(sides[0]), leaving(sides[1])
        timeline = make_timeline(*sides, BEGINNING, NOW, True, gone)
        wanted = [e for e, _ in expected(sides, BEGINNING, True) if has_key(sides, e)]
        assert timeline.order.ts.tolist() == [e.ts for e in wanted]
        assert timeline.order.of_right.tolist() == [e.of_right for e in wanted]
        assert (timeline.order.sign > 0).tolist() == [e.arrives for e in wanted]
        for of_right, events in enumerate((timeline.left, timeline.right)):
            own, other = sides[of_right], sides[not of_right]
            assert events.row.tolist() == [e.row for e in wanted if e.of_right == of_right]
            check_chains(timeline, events, own, other, not of_right)


def has_key(sides: tuple[Side, Side], event: Event) -> bool:
    return not sides[event.of_right].rows[event.row, 0]


def check_chains(
    timeline: Timeline, events: Events, own: Side, other: Side, other_is_right: bool
) -> None:
    """The chain of an event has all fresh rows of its key that its window holds, and no newer."""
    for row, first, until, newest, hashed in zip(*(a.tolist() for a in events), strict=True):
        assert hashed >= 0
        rows = chain(timeline, other_is_right, newest, other)
        assert rows == sorted(rows, reverse=True)
        assert all(place < until for place in rows)
        same = other.rows[:, 1] == own.rows[row, 1]
        fresh = range(max(first, other.start), until)
        partners = [place for place in fresh if same[place] and not other.rows[place, 0]]
        assert [p for p in rows if p >= first and same[p]] == partners[::-1]
