"""Selects queries by an index of own conditions, then searches each (SJ-SelectFirst)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, room_for_search, stab_tree
from penstock.kernels.pairs.search import (
    STRETCHES,
    append_between,
    find_stretches,
    is_band_of_floats,
    is_skipped,
    key_of,
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
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n = starts[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    point = np.empty(probes.own.shape[0], np.int64)
    stack, items = room_for_search(), forest.slots.copy()
    for i in range(order.shape[0]):
        row, count, accepted = order[i], 0, 0
        if not is_skipped(probes, row):
            is_float = is_band_of_floats(probes)
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        if count:
            for c in range(point.shape[0]):
                point[c] = probes.own[c, row]
            accepted = stab_tree(forest, 0, point, stack, items)
        for j in range(accepted):
            slot = forest.slots[items[j]]
            words, n = append_between(
                probes, entries, partner, queries, row, slot, stretches, count, bits, words, n
            )
        starts[i + 1] = n
    return Found(words, starts)
