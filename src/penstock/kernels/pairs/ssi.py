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
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    first_above,
    gap_of,
    grown,
    keep_partners,
    new_parts,
    pass_points,
    sees,
    view_of,
)

LEFT, RIGHT = 0, 1


class Lists(NamedTuple):
    """The queries of each group in two orders: side 0 by low, side 1 by high, descending.

    Group g is at [starts[g], starts[g + 1]). `bounds` ascend on both sides: the bound of a right
    part is ~high. A code (group, side, length) stands for `slots[side, starts[g]:][:length]`.
    """

    points: I64  # by group, ascending
    starts: I64
    bounds: I64  # [side, place]
    slots: I64  # [side, place]


@inlined
def prefix_of(bounds: I64, begin: int, end: int, word: int) -> int:
    """How many of the ascending bounds at [begin, end) are at most `word`, found from the front."""
    if begin == end or bounds[begin] > word:
        return 0
    step = 1
    while begin + step < end and bounds[begin + step] <= word:
        step *= 2
    return first_above(bounds, begin + step // 2, min(begin + step, end), word) - begin


@inlined
def _append_outward(
    side: int, bounds: I64, slots: I64, first: int, after: int, values: I64, positions: I64,
    k: int, begin: int, end: int, view: View, bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a group's partners of one side: the entries from k on, until no query takes one."""
    while begin <= k < end:
        gap = gap_of(values[k], view)
        length = prefix_of(bounds, first, after, gap if side == LEFT else ~gap)
        if length == 0:
            break
        after = first + length
        if sees(view, positions[k]):
            if n + length > words.shape[0]:
                words = grown(words, n + length)
            for j in range(length):
                words[n + j] = (positions[k] - view.floor) << bits | slots[first + j]
            n += length
        k += 2 * side - 1
    return words, n


@kernel
def probe_ssi(
    lists: Lists, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Walk from the point of each group in both directions: O(τ log m + k) a row."""
    values, positions = entries.values, entries.positions
    points, firsts = lists.points, lists.starts
    left_bounds, right_bounds = lists.bounds[LEFT], lists.bounds[RIGHT]
    left_slots, right_slots = lists.slots[LEFT], lists.slots[RIGHT]
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts = starts[0], new_parts(entries)
    stretches = parts.stretches
    places = np.empty((stretches.shape[0], points.shape[0]), np.int64)
    for i in range(order.shape[0]):
        view = view_of(probes, order[i])
        count = find_parts(entries, view, parts)
        if count:
            pass_points(points, values, view, parts, places)
        for s in range(count):
            begin, end = stretches[s, 0], stretches[s, 1]
            for g in range(points.shape[0]):
                at, first, after = places[s, g], firsts[g], firsts[g + 1]
                words, n = _append_outward(
                    LEFT, left_bounds, left_slots, first, after, values, positions,
                    at - 1, begin, end, view, bits, words, n,
                )  # fmt: skip
                words, n = _append_outward(
                    RIGHT, right_bounds, right_slots, first, after, values, positions,
                    at, begin, end, view, bits, words, n,
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


@inlined
def _nearest_prefix(
    side: int, bounds: I64, first: int, after: int, values: I64, positions: I64,
    k: int, begin: int, end: int, view: View,
) -> int:  # fmt: skip
    """How many queries of a group take the first partner from k on."""
    while begin <= k < end:
        gap = gap_of(values[k], view)
        word = gap if side == LEFT else ~gap
        if first == after or bounds[first] > word:
            break
        if sees(view, positions[k]):
            return prefix_of(bounds, first, after, word)
        k += 2 * side - 1
    return 0


@kernel
def affected_prefixes(lists: Lists, order: I64, probes: Probes, entries: Entries) -> Prefixes:
    """Find queries that have a partner in their interval (step 1 alone)."""
    values, positions = entries.values, entries.positions
    points, firsts = lists.points, lists.starts
    left_bounds, right_bounds = lists.bounds[LEFT], lists.bounds[RIGHT]
    out, n, parts = np.empty(1024, np.int64), 0, new_parts(entries)
    stretches = parts.stretches
    places = np.empty((stretches.shape[0], points.shape[0]), np.int64)
    for i in range(order.shape[0]):
        view = view_of(probes, order[i])
        count = find_parts(entries, view, parts)
        if count:
            pass_points(points, values, view, parts, places)
        for g in range(points.shape[0] if count else 0):
            left, right, first, after = 0, 0, firsts[g], firsts[g + 1]
            for s in range(count):
                begin, end, at = stretches[s, 0], stretches[s, 1], places[s, g]
                near = _nearest_prefix(
                    LEFT, left_bounds, first, after, values, positions, at - 1, begin, end, view
                )
                left = max(left, near)
                near = _nearest_prefix(
                    RIGHT, right_bounds, first, after, values, positions, at, begin, end, view
                )
                right = max(right, near)
            if left + right:
                if n == out.shape[0]:
                    out = grown(out, n + 4)
                out[n], out[n + 1], out[n + 2], out[n + 3] = order[i], g, left, right
                n += 4
    table = out[:n].reshape(-1, 4)
    return Prefixes(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy(), table[:, 3].copy())
