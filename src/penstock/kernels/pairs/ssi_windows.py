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
from penstock.kernels.pairs.near import LEFT, Groups, Near, find_near, new_near
from penstock.kernels.pairs.rtree import Forest, push_children, push_root, room_for_search
from penstock.kernels.pairs.search import Parts, View, gap_of, grown, keep_partners, sees, view_of
from penstock.kernels.pairs.skylines import (
    Skyline,
    Times,
    age_of,
    find_linked,
    is_stabbed,
    new_links,
    new_skyline,
    trace_skyline,
)
from penstock.kernels.pairs.ssi_own import AffectedSlots


class WindowTrees(NamedTuple):
    """A tree per group over (own conditions, interval, age)."""

    groups: Groups
    oldest: I64  # by group: the greatest age that a query takes
    enough: I64  # by group: the greatest age that all its queries take
    forest: Forest


@inlined
def _trace_both(
    group: int, trees: WindowTrees, values: I64, positions: I64, view: View, times: Times,
    parts: Parts, near: Near, heads: I64, links: I64, skyline: Skyline,
) -> int:  # fmt: skip
    """Write both skylines of a group's point; their length."""
    lows, highs, count, length = trees.groups.lows, trees.groups.highs, parts.books[1], 0
    for side in range(2):
        for s in range(count):
            heads[s] = near.places[s, group] - 1 + side
        length += trace_skyline(
            side, lows[group] if side == LEFT else ~highs[group], trees.oldest[group],
            trees.enough[group], values, positions, view, times, parts.stretches, count, heads,
            links, skyline,
        )  # fmt: skip
    return length


@inlined
def _find_affected(
    forest: Forest, tree: int, own: I64, row: int, skyline: Skyline, stack: I64, items: I64
) -> int:
    """Write the items of queries that accept the row and a skyline point; their number."""
    boxes, firsts, counts, found, axis = forest.boxes, forest.firsts, forest.counts, 0, own.shape[0]
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
            inside = inside and is_stabbed(
                boxes[at, axis], boxes[at, sides + axis], boxes[at, sides + axis + 1], skyline
            )
            if inside and level == 0:
                items[found] = at
                found += 1
            elif inside:
                top = push_children(counts, tree, level, node, stack, top)
    return found


@inlined
def _append_outward(
    low: int, high: int, oldest: int, slot: int, group: int, count: int, view: View, times: Times,
    values: I64, positions: I64, stretches: I64, places: I64, links: I64, bits: int, words: I64,
    n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a query's partners of a row, outward from the point; links pass over what is old."""
    for s in range(2 * count):
        begin, end, side = stretches[s >> 1, 0], stretches[s >> 1, 1], s & 1
        k = places[s >> 1, group] - 1 + side
        while begin <= k < end and low <= gap_of(values[k], view) <= high:
            if positions[k] < view.limit and (
                positions[k] < view.floor or age_of(times, positions[k]) > oldest
            ):
                k = links[side, k]
                continue
            if sees(view, positions[k]):
                if n == words.shape[0]:
                    words = grown(words, n + 1)
                words[n] = (positions[k] - view.floor) << bits | slot
                n += 1
            k += 2 * side - 1
    return words, n


@kernel
def probe_ssi_windows(
    trees: WindowTrees, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Search the tree of each group with its skylines: O(τ (log m + s + g(n)) + k log m) a row.

    s is the length of a skyline. If positions are not in order of the axis, both are O(log m).
    """
    values, positions, own = entries.values, entries.positions, probes.own
    groups, forest, axis = trees.groups, trees.forest, own.shape[0]
    boxes, slots, stack = forest.boxes, forest.slots, room_for_search()
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
    sides = axis + 2
    for i in range(order.shape[0]):
        row, reached = order[i], 0
        view, times = view_of(probes, row), Times(partner.ts, partner.base, probes.instants[row])
        count = find_linked(entries, view, parts, links)
        if count:
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g, found = near.groups[j], 0
            if _trace_both(
                g, trees, values, positions, view, times, parts, near, heads, links, skyline
            ):
                found = _find_affected(forest, g, own, row, skyline, stack, items)
            for f in range(found):
                at, oldest = items[f], boxes[items[f], sides + axis + 1]
                words, n = _append_outward(
                    boxes[at, axis], boxes[at, sides + axis], oldest, slots[at], g, count, view,
                    times, values, positions, parts.stretches, near.places, links, bits, words, n,
                )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)


@kernel
def affected_in_windows(
    trees: WindowTrees, order: I64, probes: Probes, entries: Entries, partner: Partner
) -> AffectedSlots:
    """Find queries that have a partner in their interval and window (step 1 alone)."""
    values, positions, own = entries.values, entries.positions, probes.own
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
        view, times = view_of(probes, row), Times(partner.ts, partner.base, probes.instants[row])
        if find_linked(entries, view, parts, links):
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g, found = near.groups[j], 0
            if _trace_both(
                g, trees, values, positions, view, times, parts, near, heads, links, skyline
            ):
                found = _find_affected(forest, g, own, row, skyline, stack, items)
            if n + found > rows.shape[0]:
                rows, slots = grown(rows, n + found), grown(slots, n + found)
            for f in range(found):
                rows[n + f], slots[n + f] = row, forest.slots[items[f]]
            n += found
    return AffectedSlots(rows[:n].copy(), slots[:n].copy())
