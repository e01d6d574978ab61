"""Stabbing groups of queries without own conditions (BJ-SSI, §3.1.2).

The partners nearest to a group's point decide which of its queries are affected. A query's interval
has two parts: up to the point, and above it. The left parts that hold a gap are a prefix of the
group's queries in order of low; the right parts that hold it are a prefix in order of high,
descending. So on the way outward from the point, each partner is taken by a shorter prefix than the
one before, and the search ends when no query takes it. Entries that a row does not see are skipped;
at worst these are all entries within the widest interval of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.search import (
    STRETCHES,
    are_tested,
    find_stretches,
    first_above,
    first_gap_above,
    gap_of,
    grown,
    is_band_of_floats,
    is_partner,
    is_skipped,
    key_of,
    shift_of,
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
def prefix_of(bounds: I64, side: int, begin: int, end: int, gap: int) -> int:
    """The number of queries at [begin, end) that hold a gap on this side of their point."""
    word = gap if side == LEFT else ~gap
    if begin == end or bounds[side, begin] > word:
        return 0
    step = 1
    while begin + step < end and bounds[side, begin + step] <= word:
        step *= 2
    return first_above(bounds[side], begin + step // 2, min(begin + step, end), word) - begin


@inlined
def _append_prefix(
    slots: I64, length: int, row: int, position: int, bits: int,
    probes: Probes, partner: Partner, queries: Queries, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a partner for the queries of a prefix."""
    if n + length > words.shape[0]:
        words = grown(words, n + length)
    head = (position - probes.floor) << bits
    if are_tested(queries):
        for j in range(length):
            if is_partner(probes, partner, queries, row, position, slots[j]):
                words[n] = head | slots[j]
                n += 1
    else:
        for j in range(length):
            words[n + j] = head | slots[j]
        n += length
    return words, n


@kernel
def probe_ssi(
    lists: Lists, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Search from the point of each group in both directions: O(τ log m + k) per row."""
    values, positions, bounds = entries.values, entries.positions, lists.bounds
    floor, undefined, is_float = probes.floor, probes.undefined, is_band_of_floats(probes)
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n = starts[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        shift, limit = shift_of(probes, row), probes.limits[row]
        for g in range(lists.points.shape[0] if count else 0):
            point, first, after = lists.points[g], lists.starts[g], lists.starts[g + 1]
            for s in range(count):
                begin, end = stretches[s, 0], stretches[s, 1]
                at = first_gap_above(values, begin, end, point, shift, is_float, undefined)
                for side in range(2):
                    k, length = at - 1 + side, after - first
                    while begin <= k < end:
                        gap = gap_of(values[k], shift, is_float, undefined)
                        length = prefix_of(bounds, side, first, first + length, gap)
                        if length == 0:
                            break
                        if floor <= positions[k] < limit:
                            words, n = _append_prefix(
                                lists.slots[side, first:after], length, row, positions[k], bits,
                                probes, partner, queries, words, n,
                            )  # fmt: skip
                        k += 2 * side - 1
        starts[i + 1] = n
    return Found(words, starts)


# ---- which queries are affected ------------------------------------------------------
class Prefixes(NamedTuple):
    """Affected queries of a row in a group: prefixes of its two lists, not both empty."""

    rows: I64
    groups: I64
    left: I64  # number of queries of side 0
    right: I64


@inlined
def nearest_prefix(
    lists: Lists, group: int, side: int, k: int, begin: int, end: int, row: int,
    probes: Probes, entries: Entries,
) -> int:  # fmt: skip
    """The number of queries of a group that take the partner nearest to the point on one side.

    The partner is the first one that the row sees among the entries at k and beyond in [begin,
    end).
    """
    first, after = lists.starts[group], lists.starts[group + 1]
    shift, is_float = shift_of(probes, row), is_band_of_floats(probes)
    while begin <= k < end:
        gap = gap_of(entries.values[k], shift, is_float, probes.undefined)
        word = gap if side == LEFT else ~gap
        if first == after or lists.bounds[side, first] > word:
            break
        if probes.floor <= entries.positions[k] < probes.limits[row]:
            return prefix_of(lists.bounds, side, first, after, gap)
        k += 2 * side - 1
    return 0


@kernel
def affected_prefixes(lists: Lists, order: I64, probes: Probes, entries: Entries) -> Prefixes:
    """Find the queries that have a partner in their interval (step 1 only)."""
    n, is_float = 0, is_band_of_floats(probes)
    out = np.empty((256, 4), np.int64)
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        shift = shift_of(probes, row)
        for g in range(lists.points.shape[0] if count else 0):
            left, right = 0, 0
            for s in range(count):
                begin, end = stretches[s, 0], stretches[s, 1]
                at = first_gap_above(
                    entries.values, begin, end, lists.points[g], shift, is_float, probes.undefined
                )
                near = nearest_prefix(lists, g, LEFT, at - 1, begin, end, row, probes, entries)
                left = max(left, near)
                near = nearest_prefix(lists, g, RIGHT, at, begin, end, row, probes, entries)
                right = max(right, near)
            if left + right:
                if n == out.shape[0]:
                    out = grown(out.reshape(-1), 4 * n + 4).reshape(-1, 4)
                out[n, 0], out[n, 1], out[n, 2], out[n, 3] = row, g, left, right
                n += 1
    return Prefixes(out[:n, 0].copy(), out[:n, 1].copy(), out[:n, 2].copy(), out[:n, 3].copy())
