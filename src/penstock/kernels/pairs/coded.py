"""Pairs of a pure template, with the queries that take them as prefixes of sorted lists.

At most one prefix per stabbing group takes a pair, because a partner is on one side of a point. A
reader that needs the queries expands a code; a reader that needs the pairs only does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Probes
from penstock.kernels.pairs.order import sort_words
from penstock.kernels.pairs.search import (
    STRETCHES,
    find_stretches,
    first_gap_above,
    gap_of,
    grown,
    is_band_of_floats,
    is_skipped,
    key_of,
    shift_of,
)
from penstock.kernels.pairs.ssi import Lists, prefix_of

_INDEX_BITS = 24
"""Bits of a sorted word that number a code within the codes of its row."""


class Coded(NamedTuple):
    """Pairs in order of (row, position); the codes of pair i are at [starts[i], starts[i + 1]).

    A code (group, side, length) is `lists.slots[side, lists.starts[group]:][:length]`.
    """

    rows: I64
    positions: I64
    starts: I64
    groups: I64
    sides: I64
    lengths: I64


@inlined
def _append_codes(
    lists: Lists, group: int, row: int, stretch: I64, probes: Probes, entries: Entries,
    heads: I64, codes: I64, n: int, begun: int,
) -> tuple[I64, I64, int]:  # fmt: skip
    """Append the prefixes of a group that take partners of a stretch."""
    values, positions, floor = entries.values, entries.positions, probes.floor
    shift, limit, is_float = shift_of(probes, row), probes.limits[row], is_band_of_floats(probes)
    first, after, begin, end = lists.starts[group], lists.starts[group + 1], stretch[0], stretch[1]
    undefined = probes.undefined
    at = first_gap_above(values, begin, end, lists.points[group], shift, is_float, undefined)
    for side in range(2):
        k, length = at - 1 + side, after - first
        while begin <= k < end:
            gap = gap_of(values[k], shift, is_float, undefined)
            length = prefix_of(lists.bounds, side, first, first + length, gap)
            if length == 0:
                break
            if floor <= positions[k] < limit:
                if n == heads.shape[0]:
                    heads, codes = grown(heads, n + 1), grown(codes, 2 * (n + 1))
                heads[n] = (positions[k] - floor) << _INDEX_BITS | (n - begun)
                codes[2 * n], codes[2 * n + 1] = 2 * group + side, length
                n += 1
            k += 2 * side - 1
    return heads, codes, n


@kernel
def _order_codes(heads: I64, codes: I64, ends: I64, order: I64, floor: int) -> Coded:
    """Sort the codes of each row by position, put rows in order, and number the pairs."""
    sort_words(heads, ends)
    m, n, pairs = order.shape[0], ends[order.shape[0]], 0
    place = np.empty(m, np.int64)
    for i in range(m):
        place[order[i]] = i
    rows, positions, starts = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(n + 1, np.int64),
    )
    groups, sides, lengths = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    out = 0
    for row in range(m):
        begin = ends[place[row]]
        for h in range(begin, ends[place[row] + 1]):
            position = floor + (heads[h] >> _INDEX_BITS)
            if h == begin or position != positions[pairs - 1]:
                rows[pairs], positions[pairs], starts[pairs] = row, position, out
                pairs += 1
            code = begin + (heads[h] & ((1 << _INDEX_BITS) - 1))
            groups[out], sides[out] = codes[2 * code] >> 1, codes[2 * code] & 1
            lengths[out] = codes[2 * code + 1]
            out += 1
    starts[pairs] = n
    rows, positions, starts = (
        rows[:pairs].copy(),
        positions[:pairs].copy(),
        starts[: pairs + 1].copy(),
    )
    return Coded(rows, positions, starts, groups, sides, lengths)


@kernel
def probe_coded(lists: Lists, order: I64, probes: Probes, entries: Entries) -> Coded:
    """Walk from the point of each group in both directions, without listing queries."""
    ends, is_float = np.zeros(order.shape[0] + 1, np.int64), is_band_of_floats(probes)
    heads, codes, n = np.empty(256, np.int64), np.empty(512, np.int64), ends[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for g in range(lists.points.shape[0] if count else 0):
            for s in range(count):
                heads, codes, n = _append_codes(
                    lists, g, row, stretches[s], probes, entries, heads, codes, n, ends[i]
                )
        ends[i + 1] = n
    return _order_codes(heads, codes, ends, order, probes.floor)
