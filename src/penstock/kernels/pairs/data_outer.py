"""Stabs an R-tree of queries with each partner (BJ-DOuter, SJ-JoinFirst)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, room_for_search, stab_tree
from penstock.kernels.pairs.search import (
    STRETCHES,
    are_tested,
    find_stretches,
    gap_of,
    grown,
    is_band_of_floats,
    is_partner,
    is_skipped,
    key_of,
    shift_of,
)


@kernel
def probe_data_outer(
    forest: Forest, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Stab the tree of (own conditions, interval) with each partner: O(m log n + k) per row."""
    values, positions, floor = entries.values, entries.positions, probes.floor
    is_float, tested = is_band_of_floats(probes), are_tested(queries)
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n = starts[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    own = probes.own.shape[0]
    point, stack, items = np.empty(own + 1, np.int64), room_for_search(), forest.slots.copy()
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for c in range(own):
            point[c] = probes.own[c, row]
        shift, limit = shift_of(probes, row), probes.limits[row]
        for s in range(count):
            for k in range(stretches[s, 0], stretches[s, 1]):
                position = positions[k]
                if position < floor or position >= limit:
                    continue
                point[own] = gap_of(values[k], shift, is_float, probes.undefined)
                for j in range(stab_tree(forest, 0, point, stack, items)):
                    slot = forest.slots[items[j]]
                    if tested and not is_partner(probes, partner, queries, row, position, slot):
                        continue
                    if n == words.shape[0]:
                        words = grown(words, n + 1)
                    words[n] = (position - floor) << bits | slot
                    n += 1
        starts[i + 1] = n
    return Found(words, starts)
