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
from penstock.kernels.pairs.near import find_near, new_near
from penstock.kernels.pairs.order import sort_words
from penstock.kernels.pairs.search import View, find_parts, gap_of, grown, sees, view_of
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
    side: int, lists: Lists, group: int, values: I64, positions: I64, k: int, begin: int,
    end: int, view: View, heads: I64, codes: I64, n: int, begun: int,
) -> tuple[I64, I64, int]:  # fmt: skip
    """Append the prefixes of one side of a group that take the entries from k on."""
    first, after = lists.starts[group], lists.starts[group + 1]
    while begin <= k < end:
        length = prefix_of(lists.bounds, side, first, after, gap_of(values[k], view))
        if length == 0:
            break
        after = first + length
        if sees(view, positions[k]):
            if n == heads.shape[0]:
                heads, codes = grown(heads, n + 1), grown(codes, 2 * (n + 1))
            heads[n] = (positions[k] - view.floor) << _INDEX_BITS | (n - begun)
            codes[2 * n], codes[2 * n + 1] = 2 * group + side, length
            n += 1
        k += 2 * side - 1
    return heads, codes, n


@kernel
def _order_codes(heads: I64, codes: I64, ends: I64, order: I64, every: int, floor: int) -> Coded:
    """Sort the codes of each row by position, put rows in order, and number the pairs."""
    sort_words(heads, ends)
    n, pairs = ends[order.shape[0]], 0
    place = np.full(every, -1, np.int64)  # −1: a row that did not probe
    for i in range(order.shape[0]):
        place[order[i]] = i
    rows, positions, starts = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(n + 1, np.int64),
    )
    groups, sides, lengths = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    out = 0
    for row in range(every):
        if place[row] < 0:
            continue
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
    """Walk from the point of each group in both directions, without listing queries.

    The rows in `order` probe: all, or some of them.
    """
    values, positions = entries.values, entries.positions
    ends, (parts, near) = np.zeros(order.shape[0] + 1, np.int64), new_near(entries, lists.groups)
    heads, codes, n = np.empty(256, np.int64), np.empty(512, np.int64), ends[0]
    for i in range(order.shape[0]):
        view, reached = view_of(probes, order[i]), 0
        count = find_parts(entries, view, parts)
        if count:
            reached = find_near(lists.groups, values, positions, view, parts, near)
        for j in range(reached):
            g = near.groups[j]
            for s in range(count):
                begin, end = parts.stretches[s, 0], parts.stretches[s, 1]
                for side in range(2):
                    heads, codes, n = _append_codes(
                        side, lists, g, values, positions, near.places[s, g] - 1 + side, begin,
                        end, view, heads, codes, n, ends[i],
                    )  # fmt: skip
        ends[i + 1] = n
    return _order_codes(heads, codes, ends, order, probes.limits.shape[0], probes.floor)
