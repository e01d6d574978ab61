"""Stabbing groups of queries without own conditions (BJ-SSI, §3.1.2).

The partners nearest to a group's point decide which of its queries are affected. The interval of
a query is two parts: up to the point, and above it. Of the left parts, those that hold a gap are a
prefix of the group's queries in order of low; of the right parts, a prefix in order of high,
descending. So walking from the point, each partner is taken by a shorter prefix than the one
before it, and the walk ends when none takes it. Entries that a row does not see are passed over;
at worst these are all entries within the widest interval of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.near import LEFT, RIGHT, Groups, find_near, new_near
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    first_above,
    gap_of,
    grown,
    keep_partners,
    sees,
    view_of,
)


class Lists(NamedTuple):
    """The queries of each group in two orders: side 0 by low, side 1 by high, descending.

    Group g is at [starts[g], starts[g + 1]). `bounds` ascend on both sides: the bound of a right
    part is ~high. A code (group, side, length) stands for `slots[side, starts[g]:][:length]`.
    """

    groups: Groups
    starts: I64
    bounds: I64  # [side, place]
    slots: I64  # [side, place]


@inlined
def prefix_of(bounds: I64, side: int, begin: int, end: int, gap: int) -> int:
    """How many queries at [begin, end) hold a gap of this side, looked for from the front."""
    word = gap if side == LEFT else ~gap
    if bounds[side, begin] > word:
        return 0
    step = 1
    while begin + step < end and bounds[side, begin + step] <= word:
        step *= 2
    return first_above(bounds[side], begin + step // 2, min(begin + step, end), word) - begin


@inlined
def _append_outward(
    side: int, lists: Lists, group: int, values: I64, positions: I64, k: int, begin: int,
    end: int, view: View, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a group's partners of one side: the entries from k on, until no query takes one."""
    bounds, slots, first, after = (
        lists.bounds,
        lists.slots,
        lists.starts[group],
        lists.starts[group + 1],
    )
    while begin <= k < end:
        length = prefix_of(bounds, side, first, after, gap_of(values[k], view))
        if length == 0:
            break
        after = first + length
        if sees(view, positions[k]):
            if n + length > words.shape[0]:
                words = grown(words, n + length)
            for j in range(length):
                words[n + j] = (positions[k] - view.floor) << bits | slots[side, first + j]
            n += length
        k += 2 * side - 1
    return words, n


@kernel
def probe_ssi(
    lists: Lists, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Walk from the point of each group in both directions: O(τ log m + k) a row."""
    values, positions, groups = entries.values, entries.positions, lists.groups
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, (parts, near) = starts[0], new_near(entries, groups)
    stretches, places = parts.stretches, near.places
    for i in range(order.shape[0]):
        view, reached = view_of(probes, order[i]), 0
        count = find_parts(entries, view, parts)
        if count:
            reached = find_near(groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            for s in range(count):
                begin, end = stretches[s, 0], stretches[s, 1]
                for side in range(2):
                    words, n = _append_outward(
                        side, lists, g, values, positions, places[s, g] - 1 + side, begin, end,
                        view, bits, words, n,
                    )  # fmt: skip
        n = keep_partners(words, starts[i], n, order[i], bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)


# ---- which queries are affected ------------------------------------------------------
class Prefixes(NamedTuple):
    """Affected queries of a row in a group: prefixes of its two lists, not both empty."""

    rows: I64
    groups: I64
    left: I64  # how many of side 0
    right: I64


@kernel
def _wider(table: I64, n: int) -> I64:
    """A copy with room for n columns, and for twice as many as before."""
    new = np.empty((table.shape[0], max(n, 2 * table.shape[1])), np.int64)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            new[i, j] = table[i, j]
    return new


@kernel
def affected_prefixes(lists: Lists, order: I64, probes: Probes, entries: Entries) -> Prefixes:
    """Find queries that have a partner in their interval (step 1 alone)."""
    values, positions, bounds = entries.values, entries.positions, lists.bounds
    out, n, (parts, near) = np.empty((4, 256), np.int64), 0, new_near(entries, lists.groups)
    for i in range(order.shape[0]):
        view, reached = view_of(probes, order[i]), 0
        if find_parts(entries, view, parts):
            reached = find_near(lists.groups, values, positions, view, parts, near)
        if n + reached > out.shape[1]:
            out = _wider(out, n + reached)
        for j in range(reached):
            g = near.groups[j]
            first, after, left, right = lists.starts[g], lists.starts[g + 1], 0, 0
            if near.sides[g] & 1:
                left = prefix_of(bounds, LEFT, first, after, near.left[g])
            if near.sides[g] & 2:
                right = prefix_of(bounds, RIGHT, first, after, near.right[g])
            out[0, n], out[1, n], out[2, n], out[3, n] = order[i], g, left, right
            n += 1
    return Prefixes(out[0, :n].copy(), out[1, :n].copy(), out[2, :n].copy(), out[3, :n].copy())
