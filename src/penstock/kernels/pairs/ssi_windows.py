"""Stabbing groups of queries with windows of their own (WJ-SSI, §3.3.2).

Each group has a packed R-tree over own conditions, interval and age. One search with both skylines
of the group's point finds the queries that have a partner in interval and window, each once. The
paper stabs one tree of all queries with each skyline point, and so finds a query many times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.near import LEFT, RIGHT, Groups, Near, find_near, new_near
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import Parts, View, gap_of, grown, keep_partners, view_of
from penstock.kernels.pairs.skylines import (
    Clock,
    age_of,
    find_linked,
    new_links,
    new_skyline,
    reaches,
    trace_skyline,
)
from penstock.kernels.pairs.ssi_own import AffectedSlots


class WindowTrees(NamedTuple):
    """A tree per group over (own conditions, interval, age)."""

    groups: Groups
    oldest: I64  # by group: the greatest age that a query takes
    enough: I64  # by group: the greatest age that all its queries take
    forest: Forest


class Traced(NamedTuple):
    """The lengths of both skylines of a point."""

    left: int
    right: int


@kernel
def _trace_both(
    group: int, trees: WindowTrees, values: I64, positions: I64, ts: I64, view: View,
    clock: Clock, parts: Parts, near: Near, heads: I64, links: I64, skyline: I64,
) -> Traced:  # fmt: skip
    """Write both skylines of a group's point."""
    count, oldest, enough = parts.books[1], trees.oldest[group], trees.enough[group]
    for s in range(count):
        heads[s] = near.places[s, group] - 1
    left = trace_skyline(
        LEFT, trees.groups.lows[group], oldest, enough, values, positions, view, ts, clock,
        parts.stretches, count, heads, links, skyline,
    )  # fmt: skip
    for s in range(count):
        heads[s] = near.places[s, group]
    right = trace_skyline(
        RIGHT, ~trees.groups.highs[group], oldest, enough, values, positions, view, ts, clock,
        parts.stretches, count, heads, links, skyline,
    )  # fmt: skip
    return Traced(left, right)


@kernel
def _find_affected(
    forest: Forest, tree: int, own: I64, row: int, traced: Traced, skyline: I64, stack: I64,
    items: I64,
) -> int:  # fmt: skip
    """Write the items of queries that accept the row and a skyline point; their number."""
    boxes, firsts, counts, found, axis = forest.boxes, forest.firsts, forest.counts, 0, own.shape[0]
    if traced.left + traced.right == 0:
        return 0
    sides = axis + 2
    top = push_root(forest.heights, counts, tree, stack)
    while top:
        top -= 1
        level, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        first = firsts[tree, level]
        for node in range(begin, end):
            at, inside = first + node, True
            for c in range(axis):
                inside = inside and boxes[at, c] <= own[c, row] <= boxes[at, sides + c]
            if inside:
                oldest = boxes[at, sides + axis + 1]
                inside = reaches(skyline, LEFT, traced.left, boxes[at, axis], oldest) or reaches(
                    skyline, RIGHT, traced.right, ~boxes[at, sides + axis], oldest
                )
            if inside and level == 0:
                items[found] = at
                found += 1
            elif inside:
                top = push_children(counts, tree, level, node, stack, top)
    return found


@inlined
def room_for(stretches: I64, count: int) -> int:
    """The number of entries in the stretches: a query has no more partners."""
    n = 0
    for s in range(count):
        n += stretches[s, 1] - stretches[s, 0]
    return n


@kernel
def _write_outward(
    items: I64, begin: int, end: int, boxes: I64, slots: I64, axis: int, places: I64,
    stretches: I64, count: int, values: I64, positions: I64, view: View, ts: I64, clock: Clock,
    links: I64, bits: int, words: I64, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the partners of found queries outward from the point, until `words` may be too short.

    Returns the first query that is left, and the new end. Links pass over partners that are too
    old. `places` has the place at which each stretch passes the point.
    """
    sides, most, f = axis + 2, room_for(stretches, count), begin
    while f < end and n + most <= words.shape[0]:
        at, slot = items[f], slots[items[f]]
        low, high, oldest = boxes[at, axis], boxes[at, sides + axis], boxes[at, sides + axis + 1]
        for s in range(2 * count):
            first, last, side = stretches[s >> 1, 0], stretches[s >> 1, 1], s & 1
            k = places[s >> 1] - 1 + side
            while first <= k < last and low <= gap_of(values[k], view) <= high:
                position = positions[k]
                if position >= view.limit:
                    k += 2 * side - 1
                elif position < view.floor or age_of(position, ts, clock) > oldest:
                    k = links[side, k]
                else:
                    words[n] = (position - view.floor) << bits | slot
                    n += 1
                    k += 2 * side - 1
        f += 1
    return f, n


@kernel
def probe_ssi_windows(
    trees: WindowTrees, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Search the tree of each group with its skylines: O(τ (log m + s + g(n)) + k log m) a row.

    s is the length of a skyline. If positions are not in order of the axis, both are O(log m).
    """
    values, positions, own, ts = entries.values, entries.positions, probes.own, partner.ts
    groups, forest, axis = trees.groups, trees.forest, own.shape[0]
    _boxes, slots, stack = forest.boxes, forest.slots, room_for_search()
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, items, (parts, near) = (
        starts[0],
        np.empty(slots.shape[0], np.int64),
        new_near(entries, groups),
    )
    links, skyline, heads = (
        new_links(entries),
        new_skyline(entries),
        np.empty(parts.stretches.shape[0], np.int64),
    )
    axis + 2
    for i in range(order.shape[0]):
        row, reached = order[i], 0
        view, clock = view_of(probes, row), Clock(probes.instants[row], partner.base)
        count = find_linked(entries, view, parts, links)
        most = room_for(parts.stretches, count)
        if count:
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            traced = _trace_both(
                g, trees, values, positions, ts, view, clock, parts, near, heads, links, skyline
            )
            found = _find_affected(forest, g, own, row, traced, skyline, stack, items)
            f = 0
            while f < found:
                if n + most > words.shape[0]:
                    words = grown(words, n + most)
                f, n = _write_outward(
                    items, f, found, forest.boxes, forest.slots, own.shape[0], near.places[:, g],
                    parts.stretches, count, values, positions, view, ts, clock, links, bits,
                    words, n,
                )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)


@kernel
def affected_in_windows(
    trees: WindowTrees, order: I64, probes: Probes, entries: Entries, partner: Partner
) -> AffectedSlots:
    """Find queries that have a partner in their interval and window (step 1 alone)."""
    values, positions, own, ts = entries.values, entries.positions, probes.own, partner.ts
    groups, forest, stack = trees.groups, trees.forest, room_for_search()
    rows, slots, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    items, (parts, near) = np.empty(forest.slots.shape[0], np.int64), new_near(entries, groups)
    links, skyline, heads = (
        new_links(entries),
        new_skyline(entries),
        np.empty(parts.stretches.shape[0], np.int64),
    )
    for i in range(order.shape[0]):
        row, reached = order[i], 0
        view, clock = view_of(probes, row), Clock(probes.instants[row], partner.base)
        if find_linked(entries, view, parts, links):
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            traced = _trace_both(
                g, trees, values, positions, ts, view, clock, parts, near, heads, links, skyline
            )
            found = _find_affected(forest, g, own, row, traced, skyline, stack, items)
            if n + found > rows.shape[0]:
                rows, slots = grown(rows, n + found), grown(slots, n + found)
            for f in range(found):
                rows[n + f], slots[n + f] = row, forest.slots[items[f]]
            n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
