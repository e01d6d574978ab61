"""Data outside, queries inside: partners stab an R-tree of queries.

BJ-DOuter, SJ-JoinFirst, and WJ-JoinFirst if windows differ.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.rtree import Forest, room_for_search, stab_tree
from penstock.kernels.pairs.search import (
    find_parts,
    gap_of,
    grown,
    keep_partners,
    new_parts,
    sees,
    view_of,
)


@kernel
def probe_data_outer(
    forest: Forest, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Stab the tree with each partner: O(m log n + k) a row.

    The tree is over (own conditions, interval), and ages if windows differ.
    """
    values, positions, own, slots = entries.values, entries.positions, probes.own, forest.slots
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n, parts, axis = starts[0], new_parts(entries), own.shape[0]
    point, stack = np.empty(forest.boxes.shape[1] // 2, np.int64), room_for_search()
    has_ages = point.shape[0] > axis + 1
    items = np.empty(slots.shape[0], np.int64)
    stretches = parts.stretches
    for i in range(order.shape[0]):
        row = order[i]
        view = view_of(probes, row)
        for c in range(axis):
            point[c] = own[c, row]
        for s in range(find_parts(entries, view, parts)):
            for k in range(stretches[s, 0], stretches[s, 1]):
                if not sees(view, positions[k]):
                    continue
                point[axis] = gap_of(values[k], view)
                if has_ages:
                    point[axis + 1] = probes.instants[row] - partner.ts[positions[k] - partner.base]
                found = stab_tree(forest, 0, point, stack, items)
                if n + found > words.shape[0]:
                    words = grown(words, n + found)
                for j in range(found):
                    words[n + j] = (positions[k] - view.floor) << bits | slots[items[j]]
                n += found
        n = keep_partners(words, starts[i], n, row, bits, probes, partner, queries)
        starts[i + 1] = n
    return Found(words, starts)
