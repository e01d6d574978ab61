"""The partners nearest to the points of stabbing groups: step 1 of all that is done with groups.

If the nearest partner at or below a point is not in the widest interval of the group, and neither
is the nearest above it, the row affects no query of the group. Entries that the row does not see
are passed over; at worst these are all entries within the widest interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import LEAST, MOST, Entries
from penstock.kernels.pairs.search import Parts, View, first_gap_above, gap_of, new_parts, sees

LEFT, RIGHT = 0, 1


class Groups(NamedTuple):
    """Stabbing groups by point, ascending; none is empty."""

    points: I64
    lows: I64  # the least low of a group
    highs: I64  # the greatest high


class Near(NamedTuple):
    """The partners around the points of groups, for one row."""

    places: I64  # [stretch, group]: where the gap passes the point
    groups: I64  # those with a partner in their widest interval, ascending
    sides: I64  # by group: bit 0 for a partner at or below the point, bit 1 for one above it
    left: I64  # by group: the gap of the nearest partner at or below the point
    right: I64  # by group: the gap of the nearest partner above it


class Reach(NamedTuple):
    """The partners around one point, as plain numbers."""

    sides: int
    left: int
    right: int


@kernel
def new_near(entries: Entries, groups: Groups) -> tuple[Parts, Near]:
    """Room for what `find_near` finds."""
    parts, n = new_parts(entries), groups.points.shape[0]
    places = np.empty((parts.stretches.shape[0], n), np.int64)
    room = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    return parts, Near(places, *room)


@inlined
def _bracket(values: I64, begin: int, end: int, at: int, bound: int, view: View) -> tuple[int, int]:
    """Between which places a stretch passes a bound, looked for from `at` on in both directions."""
    step = 4
    if at > begin and gap_of(values[at - 1], view) > bound:
        at -= 1
        while at - step >= begin and gap_of(values[at - step], view) > bound:
            at -= step
            step *= 2
        return max(at - step + 1, begin), at
    while at + step <= end and gap_of(values[at + step - 1], view) <= bound:
        at += step
        step *= 2
    return at, min(at + step - 1, end)


@inlined
def _pass_points(points: I64, values: I64, view: View, parts: Parts, places: I64) -> None:
    """Write where each stretch passes each point.

    Rows of one key follow one another in order of shift. So a place is looked for near that of
    the row before, as far from it as that of the last point was.
    """
    stretches, books = parts.stretches, parts.books
    for s in range(books[1]):
        begin, end = stretches[s, 0], stretches[s, 1]
        at, move = begin, 0
        for g in range(points.shape[0]):
            upto, before = end, places[s, g]
            if books[2]:
                at = min(max(before + move, begin), end)
                at, upto = _bracket(values, begin, end, at, points[g], view)
            at = first_gap_above(values, at, upto, points[g], view)
            places[s, g], move = at, at - before


@inlined
def find_near(
    groups: Groups, values: I64, positions: I64, view: View, parts: Parts, near: Near
) -> int:
    """Find the partners nearest to each point; how many groups have one in reach."""
    points, lows, highs, stretches = groups.points, groups.lows, groups.highs, parts.stretches
    places, reached, n = near.places, near.groups, 0
    _pass_points(points, values, view, parts, places)
    for g in range(points.shape[0]):
        low, high, left, right, sides = lows[g], highs[g], LEAST, MOST, 0
        for s in range(parts.books[1]):
            for k in range(places[s, g] - 1, stretches[s, 0] - 1, -1):
                gap = gap_of(values[k], view)
                if gap < low:
                    break
                if sees(view, positions[k]):
                    low, left, sides = gap, gap, sides | 1  # no other need be found below it
                    break
            for k in range(places[s, g], stretches[s, 1]):
                gap = gap_of(values[k], view)
                if gap > high:
                    break
                if sees(view, positions[k]):
                    high, right, sides = gap, gap, sides | 2
                    break
        if sides:
            near.sides[g], near.left[g], near.right[g] = sides, left, right
            reached[n] = g
            n += 1
    return n


@inlined
def reach_of(near: Near, group: int) -> Reach:
    """The partners around the point of a group that has a partner in reach."""
    return Reach(near.sides[group], near.left[group], near.right[group])


@inlined
def reaches(low: int, high: int, reach: Reach) -> bool:
    """Whether an interval that holds the point holds one of the nearest partners."""
    return (reach.sides & 1 != 0 and low <= reach.left) or (
        reach.sides & 2 != 0 and high >= reach.right
    )
