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
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.near import Groups, Reach, find_near, new_near, reach_of, reaches
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    gap_of,
    grown,
    keep_partners,
    sees,
    view_of,
)


class Trees(NamedTuple):
    """A tree per group over (own conditions, interval)."""

    groups: Groups
    forest: Forest


@inlined
def _find_affected(
    forest: Forest, tree: int, own: I64, row: int, reach: Reach, stack: I64, items: I64
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
            inside = reaches(boxes[at, axis], boxes[at, 2 * axis + 1], reach)
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
    low: int, high: int, slot: int, group: int, count: int, view: View, values: I64,
    positions: I64, stretches: I64, places: I64, bits: int, words: I64, n: int,
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
    groups, forest, axis = trees.groups, trees.forest, own.shape[0]
    boxes, slots, stack = forest.boxes, forest.slots, room_for_search()
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, items, (parts, near) = (
        starts[0],
        np.empty(slots.shape[0], np.int64),
        new_near(entries, groups),
    )
    for i in range(order.shape[0]):
        row, reached = order[i], 0
        view = view_of(probes, row)
        count = find_parts(entries, view, parts)
        if count:
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            found = _find_affected(forest, g, own, row, reach_of(near, g), stack, items)
            for f in range(found):
                at = items[f]
                words, n = _append_outward(
                    boxes[at, axis], boxes[at, 2 * axis + 1], slots[at], g, count, view, values,
                    positions, parts.stretches, near.places, bits, words, n,
                )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)


# ---- which queries are affected ------------------------------------------------------
class AffectedSlots(NamedTuple):
    """Affected queries, each once for a row."""

    rows: I64
    slots: I64


@kernel
def affected_slots(trees: Trees, order: I64, probes: Probes, entries: Entries) -> AffectedSlots:
    """Find queries that have a partner in their interval (step 1 alone)."""
    values, positions, own = entries.values, entries.positions, probes.own
    groups, forest, stack = trees.groups, trees.forest, room_for_search()
    rows, slots, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    items, (parts, near) = np.empty(forest.slots.shape[0], np.int64), new_near(entries, groups)
    for i in range(order.shape[0]):
        row, reached = order[i], 0
        view = view_of(probes, row)
        if find_parts(entries, view, parts):
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            found = _find_affected(forest, g, own, row, reach_of(near, g), stack, items)
            if n + found > rows.shape[0]:
                rows, slots = grown(rows, n + found), grown(slots, n + found)
            for f in range(found):
                rows[n + f], slots[n + f] = row, forest.slots[items[f]]
            n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
