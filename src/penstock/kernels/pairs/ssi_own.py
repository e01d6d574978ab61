"""Stabbing groups of queries with own conditions (SJ-SSI, §3.2.2).

Each group has a packed R-tree over own conditions and interval. The group's point is in all its
intervals. So a query that accepts the row is affected if its low is at most the nearest partner at
or below the point, or its high is at least the nearest partner above it; one search tests both.
Each affected query then takes its partners outward from the point.

Entries that a row does not see are skipped; at worst, the search for the nearest partner visits all
entries within the widest interval of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import (
    STRETCHES,
    are_tested,
    find_stretches,
    first_gap_above,
    gap_of,
    grown,
    is_band_of_floats,
    is_partner,
    is_skipped,
    key_of,
    shift_of,
)


class Trees(NamedTuple):
    """A tree per group over (own conditions, interval), and the ends of its widest interval."""

    points: I64  # by group, ascending
    lows: I64
    highs: I64
    forest: Forest


class Near(NamedTuple):
    """Gaps of the nearest partners at or below a point and above it, and whether they exist."""

    has_left: bool
    left: int
    has_right: bool
    right: int


class AffectedSlots(NamedTuple):
    """Affected queries, each one once per row."""

    rows: I64
    slots: I64


@inlined
def _reaches(low: int, high: int, near: Near) -> bool:
    """Whether an interval around the point contains one of the nearest partners."""
    return (near.has_left and low <= near.left) or (near.has_right and high >= near.right)


@kernel
def find_near(
    trees: Trees, group: int, row: int, stretches: I64, count: int, places: I64,
    probes: Probes, entries: Entries,
) -> Near:  # fmt: skip
    """The partners nearest to a group's point; writes to `places` where each stretch passes it."""
    values, positions, undefined = entries.values, entries.positions, probes.undefined
    shift, limit, is_float = shift_of(probes, row), probes.limits[row], is_band_of_floats(probes)
    has_left, left, has_right, right = False, LEAST, False, MOST
    for s in range(count):
        begin, end = stretches[s, 0], stretches[s, 1]
        at = first_gap_above(values, begin, end, trees.points[group], shift, is_float, undefined)
        places[s] = at
        for k in range(at - 1, begin - 1, -1):
            gap = gap_of(values[k], shift, is_float, undefined)
            if gap < trees.lows[group] or (has_left and gap <= left):
                break
            if probes.floor <= positions[k] < limit:
                has_left, left = True, gap
                break
        for k in range(at, end):
            gap = gap_of(values[k], shift, is_float, undefined)
            if gap > trees.highs[group] or (has_right and gap >= right):
                break
            if probes.floor <= positions[k] < limit:
                has_right, right = True, gap
                break
    return Near(has_left, left, has_right, right)


@kernel
def find_affected(
    forest: Forest, tree: int, own: I64, row: int, near: Near, stack: I64, items: I64
) -> int:
    """Write the items of queries that accept the row and reach a nearest partner; their number."""
    boxes, firsts, found = forest.boxes, forest.firsts, 0
    axis = own.shape[0]
    top = push_root(forest, tree, stack)
    while top:
        top -= 1
        level, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        first = firsts[tree, level]
        for node in range(begin, end):
            at = first + node
            inside = _reaches(boxes[at, axis], boxes[at, 2 * axis + 1], near)
            for c in range(axis):
                inside = inside and boxes[at, c] <= own[c, row] <= boxes[at, axis + 1 + c]
            if not inside:
                continue
            if level:
                top = push_children(forest, tree, level, node, stack, top)
            else:
                items[found] = at
                found += 1
    return found


@inlined
def _append_outward(
    low: int, high: int, slot: int, row: int, stretches: I64, count: int, places: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a query's partners of a row, outward from where stretches pass the point."""
    values, positions, floor = entries.values, entries.positions, probes.floor
    limit, shift, undefined = probes.limits[row], shift_of(probes, row), probes.undefined
    is_float, tested = is_band_of_floats(probes), are_tested(queries)
    for s in range(2 * count):
        begin, end, step = stretches[s >> 1, 0], stretches[s >> 1, 1], 2 * (s & 1) - 1
        k = places[s >> 1] - 1 + (s & 1)
        while begin <= k < end:
            position = positions[k]
            if not low <= gap_of(values[k], shift, is_float, undefined) <= high:
                break
            k += step
            if position < floor or position >= limit:
                continue
            if tested and not is_partner(probes, partner, queries, row, position, slot):
                continue
            if n == words.shape[0]:
                words = grown(words, n + 1)
            words[n] = (position - floor) << bits | slot
            n += 1
    return words, n


@kernel
def probe_ssi_own(
    trees: Trees, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Search each group's tree with its nearest partners: O(τ (log m + g(n)) + k) per row."""
    forest = trees.forest
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, axis = starts[0], probes.own.shape[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    places, stack = np.empty(stretches.shape[0], np.int64), room_for_search()
    items = np.empty(forest.slots.shape[0], np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            is_float = is_band_of_floats(probes)
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for g in range(trees.points.shape[0] if count else 0):
            near = find_near(trees, g, row, stretches, count, places, probes, entries)
            if not (near.has_left or near.has_right):
                continue
            for j in range(find_affected(forest, g, probes.own, row, near, stack, items)):
                item = items[j]
                low, high = forest.boxes[item, axis], forest.boxes[item, 2 * axis + 1]
                words, n = _append_outward(
                    low, high, forest.slots[item], row, stretches, count, places, bits,
                    probes, entries, partner, queries, words, n,
                )  # fmt: skip
        starts[i + 1] = n
    return Found(words, starts)


@kernel
def affected_slots(trees: Trees, order: I64, probes: Probes, entries: Entries) -> AffectedSlots:
    """Find the queries that have a partner in their interval (step 1 only)."""
    rows, slots, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    places, stack = np.empty(stretches.shape[0], np.int64), room_for_search()
    items = np.empty(trees.forest.slots.shape[0], np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            is_float = is_band_of_floats(probes)
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for g in range(trees.points.shape[0] if count else 0):
            near = find_near(trees, g, row, stretches, count, places, probes, entries)
            if not (near.has_left or near.has_right):
                continue
            found = find_affected(trees.forest, g, probes.own, row, near, stack, items)
            if n + found > rows.shape[0]:
                rows, slots = grown(rows, n + found), grown(slots, n + found)
            for j in range(found):
                rows[n + j], slots[n + j] = row, trees.forest.slots[items[j]]
            n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
