"""Queries outside, data inside: the interval of each query is searched (BJ-QOuter, SJ-Vanilla)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.search import (
    append_between,
    find_parts,
    keep_partners,
    new_parts,
    own_holds,
    view_of,
)


@kernel
def probe_vanilla(
    slots: I64, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Find the partners of each row for the queries at `slots`: O(n log m + k) a row."""
    values, positions, own = entries.values, entries.positions, probes.own
    lows, highs, own_lows, own_highs = queries.low, queries.high, queries.own_low, queries.own_high
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts, has_own = starts[0], new_parts(entries), own.shape[0] > 0
    stretches = parts.stretches
    for i in range(order.shape[0]):
        row = order[i]
        view = view_of(probes, row)
        count = find_parts(entries, view, parts)
        for j in range(slots.shape[0] if count else 0):
            slot = slots[j]
            if not has_own or own_holds(own, own_lows, own_highs, row, slot):
                words, n = append_between(
                    lows[slot], highs[slot], slot, view, values, positions, stretches, count,
                    bits, words, n,
                )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)
