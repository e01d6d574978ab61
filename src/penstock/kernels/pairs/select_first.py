"""Selects queries by an index of own conditions, then searches each (SJ-SelectFirst)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, room_for_search, stab_tree
from penstock.kernels.pairs.search import (
    append_between,
    find_parts,
    keep_partners,
    new_parts,
    view_of,
)


@kernel
def probe_select_first(
    forest: Forest, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Stab the tree of own conditions with each row, and search the intervals of the queries found.

    The entries with the row's key are found once for all of them (§4.1): O(log n + n' log m + k)
    per row, where n' queries accept the row. Without own conditions, all queries do.
    """
    values, positions, lows, highs = entries.values, entries.positions, queries.low, queries.high
    slots, point = forest.slots, np.empty(probes.own.shape[0], np.int64)
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts = starts[0], new_parts(entries)
    stack, items = room_for_search(), np.empty(slots.shape[0], np.int64)
    stretches = parts.stretches
    for i in range(order.shape[0]):
        row, accepted = order[i], 0
        view = view_of(probes, row)
        count = find_parts(entries, view, parts)
        if count:
            for c in range(point.shape[0]):
                point[c] = probes.own[c, row]
            accepted = stab_tree(forest, 0, point, stack, items)
        for j in range(accepted):
            slot = slots[items[j]]
            words, n = append_between(
                lows[slot], highs[slot], slot, view, values, positions, stretches, count,
                bits, words, n,
            )  # fmt: skip
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)
