"""Searches the interval of each query separately (BJ-QOuter, SJ-Vanilla)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.pairs.data import Entries, Found, Partner, Probes, Queries
from penstock.kernels.pairs.search import (
    STRETCHES,
    append_between,
    find_stretches,
    is_band_of_floats,
    is_skipped,
    key_of,
    own_holds,
)


@kernel
def probe_vanilla(
    slots: I64, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Find the partners of each row for the queries at `slots`: O(n log m + k) per row."""
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n = starts[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            is_float = is_band_of_floats(probes)
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for j in range(slots.shape[0] if count else 0):
            slot = slots[j]
            if own_holds(probes, queries, row, slot):
                words, n = append_between(
                    probes, entries, partner, queries, row, slot, stretches, count, bits, words, n
                )
        starts[i + 1] = n
    return Found(words, starts)
