"""Stabbing groups of queries with own conditions (SJ-SSI, §3.2.2).

Each group has a packed R-tree over own conditions and interval. As the group's point is in all
its intervals, a query that accepts the row is affected if its low reaches down to the nearest
partner at or below the point, or its high up to the nearest partner above it: one search with
both. Each affected query then takes its partners outward from the point.

Entries that a row does not see are passed over; at worst, to find the nearest partner, these are
all entries within the widest interval of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    gap_of,
    grown,
    keep_partners,
    new_parts,
    pass_points,
    sees,
    view_of,
)


class Trees(NamedTuple):
    """A tree per group over (own conditions, interval), and the ends of its widest intervals."""

    points: I64  # by group, ascending
    lows: I64
    highs: I64
    forest: Forest


class Near(NamedTuple):
    """Gaps of the nearest partners at or below a point and above it, and whether there are any."""

    has_left: bool
    left: int
    has_right: bool
    right: int


class AffectedSlots(NamedTuple):
    """Affected queries, each once for a row."""

    rows: I64
    slots: I64


@inlined
def _reaches(low: int, high: int, near: Near) -> bool:
    """Whether an interval that holds the point holds one of the nearest partners."""
    return (near.has_left and low <= near.left) or (near.has_right and high >= near.right)


@inlined
def _find_near(
    group: int, low: int, high: int, view: View, values: I64, positions: I64, stretches: I64,
    count: int, places: I64,
) -> Near:  # fmt: skip
    """The partners in [low, high] nearest to the point of a group."""
    has_left, left, has_right, right = False, LEAST, False, MOST
    for s in range(count):
        begin, end, at = stretches[s, 0], stretches[s, 1], places[s, group]
        for k in range(at - 1, begin - 1, -1):
            gap = gap_of(values[k], view)
            if gap < low or (has_left and gap <= left):
                break
            if sees(view, positions[k]):
                has_left, left = True, gap
                break
        for k in range(at, end):
            gap = gap_of(values[k], view)
            if gap > high or (has_right and gap >= right):
                break
            if sees(view, positions[k]):
                has_right, right = True, gap
                break
    return Near(has_left, left, has_right, right)


@inlined
def _find_affected(
    forest: Forest, tree: int, own: I64, row: int, near: Near, stack: I64, items: I64
) -> int:
    """Write the items of queries that accept the row and reach a nearest partner; their number."""
    boxes, firsts, counts, found, axis = forest.boxes, forest.firsts, forest.counts, 0, own.shape[0]
    top = push_root(forest.heights, counts, tree, stack)
    while top:
        top -= 1
        level, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        first = firsts[tree, level]
        for node in range(begin, end):
            at = first + node
            inside = _reaches(boxes[at, axis], boxes[at, 2 * axis + 1], near)
            for c in range(axis):
                inside = inside and boxes[at, c] <= own[c, row] <= boxes[at, axis + 1 + c]
            if inside and level == 0:
                items[found] = at
                found += 1
            elif inside:
                top = push_children(counts, tree, level, node, stack, top)
    return found


@inlined
def _append_outward(
    group: int, low: int, high: int, slot: int, view: View, values: I64, positions: I64,
    stretches: I64, count: int, places: I64, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a query's partners of a row, outward from where stretches pass the point."""
    for s in range(2 * count):
        begin, end, step = stretches[s >> 1, 0], stretches[s >> 1, 1], 2 * (s & 1) - 1
        k = places[s >> 1, group] - 1 + (s & 1)
        while begin <= k < end and low <= gap_of(values[k], view) <= high:
            if sees(view, positions[k]):
                if n == words.shape[0]:
                    words = grown(words, n + 1)
                words[n] = (positions[k] - view.floor) << bits | slot
                n += 1
            k += step
    return words, n


@kernel
def probe_ssi_own(
    trees: Trees, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Search the tree of each group with its nearest partners: O(τ (log m + g(n)) + k) a row."""
    values, positions, own = entries.values, entries.positions, probes.own
    forest, points, lows, highs = trees.forest, trees.points, trees.lows, trees.highs
    boxes, slots, axis = forest.boxes, forest.slots, own.shape[0]
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts, stack = starts[0], new_parts(entries), room_for_search()
    stretches, items = parts.stretches, np.empty(slots.shape[0], np.int64)
    places = np.empty((stretches.shape[0], points.shape[0]), np.int64)
    for i in range(order.shape[0]):
        row = order[i]
        view = view_of(probes, row)
        count = find_parts(entries, view, parts)
        if count:
            pass_points(points, values, view, parts, places)
        for g in range(points.shape[0] if count else 0):
            near = _find_near(
                g, lows[g], highs[g], view, values, positions, stretches, count, places
            )
            if not (near.has_left or near.has_right):
                continue
            for j in range(_find_affected(forest, g, own, row, near, stack, items)):
                at = items[j]
                words, n = _append_outward(
                    g, boxes[at, axis], boxes[at, 2 * axis + 1], slots[at], view, values,
                    positions, stretches, count, places, bits, words, n,
                )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)


@kernel
def affected_slots(trees: Trees, order: I64, probes: Probes, entries: Entries) -> AffectedSlots:
    """Find queries that have a partner in their interval (step 1 alone)."""
    values, positions, own = entries.values, entries.positions, probes.own
    forest, points, lows, highs = trees.forest, trees.points, trees.lows, trees.highs
    rows, slots, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    parts, stack = new_parts(entries), room_for_search()
    stretches, items = parts.stretches, np.empty(forest.slots.shape[0], np.int64)
    places = np.empty((stretches.shape[0], points.shape[0]), np.int64)
    for i in range(order.shape[0]):
        row = order[i]
        view = view_of(probes, row)
        count = find_parts(entries, view, parts)
        if count:
            pass_points(points, values, view, parts, places)
        for g in range(points.shape[0] if count else 0):
            near = _find_near(
                g, lows[g], highs[g], view, values, positions, stretches, count, places
            )
            if not (near.has_left or near.has_right):
                continue
            found = _find_affected(forest, g, own, row, near, stack, items)
            if n + found > rows.shape[0]:
                rows, slots = grown(rows, n + found), grown(slots, n + found)
            for j in range(found):
                rows[n + j], slots[n + j] = row, forest.slots[items[j]]
            n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
