"""Queries in order of their lows, swept against sorted partners (BJ-MJ)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.search import (
    View,
    find_parts,
    gap_of,
    grown,
    keep_partners,
    new_parts,
    own_holds,
    sees,
    view_of,
)


class Sorted(NamedTuple):
    """Queries by low."""

    slots: I64
    lows: I64
    highs: I64


@inlined
def _append_upto(
    high: int, slot: int, view: View, values: I64, positions: I64, begin: int, end: int,
    bits: int, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append a query's partners from the first one on."""
    for k in range(begin, end):
        if gap_of(values[k], view) > high:
            break
        if sees(view, positions[k]):
            if n == words.shape[0]:
                words = grown(words, n + 1)
            words[n] = (positions[k] - view.floor) << bits | slot
            n += 1
    return words, n


@kernel
def probe_merge(
    asked: Sorted, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Sweep the queries along the partners: O(m + n + k) a row."""
    values, positions, own = entries.values, entries.positions, probes.own
    slots, lows, highs = asked.slots, asked.lows, asked.highs
    own_lows, own_highs, has_own = queries.own_low, queries.own_high, own.shape[0] > 0
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts = starts[0], new_parts(entries)
    stretches = parts.stretches
    for i in range(order.shape[0]):
        row = order[i]
        view = view_of(probes, row)
        for s in range(find_parts(entries, view, parts)):
            begin, end = stretches[s, 0], stretches[s, 1]
            for j in range(slots.shape[0]):
                while begin < end and gap_of(values[begin], view) < lows[j]:
                    begin += 1
                if begin == end:
                    break
                if gap_of(values[begin], view) > highs[j]:
                    continue  # a helper that takes arrays is called only for what it may find
                if not has_own or own_holds(own, own_lows, own_highs, row, slots[j]):
                    words, n = _append_upto(
                        highs[j], slots[j], view, values, positions, begin, end, bits, words, n
                    )
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)
