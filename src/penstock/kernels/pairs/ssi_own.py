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
from penstock.kernels.pairs.near import Groups, Near, find_near, new_near, reach_of, reaches
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import (
    Parts,
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
    trees: Trees, own: I64, row: int, near: Near, reached: int, stack: I64, hits: I64
) -> int:
    """Write (group, item) of the queries that a row affects; how many they are.

    These accept the row, and their intervals hold a partner nearest to the group's point.
    """
    boxes, firsts, counts = trees.forest.boxes, trees.forest.firsts, trees.forest.counts
    heights, found, axis = trees.forest.heights, 0, own.shape[0]
    for j in range(reached):
        tree = near.groups[j]
        reach, top = reach_of(near, tree), push_root(heights, counts, tree, stack)
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
                    hits[found, 0], hits[found, 1] = tree, at
                    found += 1
                elif inside:
                    top = push_children(counts, tree, level, node, stack, top)
    return found


@inlined
def _append_outward(
    forest: Forest, hits: I64, found: int, view: View, values: I64, positions: I64, parts: Parts,
    places: I64, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append the partners of affected queries, outward from where stretches pass their points."""
    boxes, slots, stretches = forest.boxes, forest.slots, parts.stretches
    last = boxes.shape[1] - 1
    for h in range(found):
        group, at = hits[h, 0], hits[h, 1]
        low, high, slot = boxes[at, last // 2], boxes[at, last], slots[at]
        for s in range(2 * parts.books[1]):
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
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, (parts, near) = starts[0], new_near(entries, trees.groups)
    stack, hits = room_for_search(), np.empty((trees.forest.slots.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, found = order[i], 0
        view = view_of(probes, row)
        if find_parts(entries, view, parts):
            reached = find_near(trees.groups, values, positions, view, parts, near)
            found = _find_affected(trees, own, row, near, reached, stack, hits)
        words, n = _append_outward(
            trees.forest, hits, found, view, values, positions, parts, near.places, bits, words, n
        )
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
    values, positions, own, of_item = (
        entries.values,
        entries.positions,
        probes.own,
        trees.forest.slots,
    )
    rows, slots, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    parts, near = new_near(entries, trees.groups)
    stack, hits = room_for_search(), np.empty((of_item.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, found = order[i], 0
        view = view_of(probes, row)
        if find_parts(entries, view, parts):
            reached = find_near(trees.groups, values, positions, view, parts, near)
            found = _find_affected(trees, own, row, near, reached, stack, hits)
        if n + found > rows.shape[0]:
            rows, slots = grown(rows, n + found), grown(slots, n + found)
        for h in range(found):
            rows[n + h], slots[n + h] = row, of_item[hits[h, 1]]
        n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
