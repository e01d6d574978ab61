"""Sweeps queries in order of their lows along the sorted partners (BJ-MJ)."""

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
    gap_of,
    grown,
    is_band_of_floats,
    is_partner,
    is_skipped,
    key_of,
    own_holds,
    shift_of,
)


class Sorted(NamedTuple):
    """Queries by low."""

    slots: I64
    lows: I64
    highs: I64


@inlined
def _sweep(
    asked: Sorted, row: int, begin: int, end: int, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries, words: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append what the queries take of a stretch; the first partner only moves forward."""
    values, positions, floor = entries.values, entries.positions, probes.floor
    limit, shift, undefined = probes.limits[row], shift_of(probes, row), probes.undefined
    is_float, tested = is_band_of_floats(probes), are_tested(queries)
    for j in range(asked.slots.shape[0]):
        slot, low, high = asked.slots[j], asked.lows[j], asked.highs[j]
        while begin < end and gap_of(values[begin], shift, is_float, undefined) < low:
            begin += 1
        if begin == end:
            break
        if not own_holds(probes, queries, row, slot):
            continue
        for k in range(begin, end):
            if gap_of(values[k], shift, is_float, undefined) > high:
                break
            position = positions[k]
            if position < floor or position >= limit:
                continue
            if tested and not is_partner(probes, partner, queries, row, position, slot):
                continue
            if n == words.shape[0]:
                words = grown(words, n + 1)
            words[n] = (position - floor) << bits | slot
            n += 1
    return words, n


@kernel
def probe_merge(
    asked: Sorted, order: I64, bits: int,
    probes: Probes, entries: Entries, partner: Partner, queries: Queries,
) -> Found:  # fmt: skip
    """Sweep the queries along the partners: O(m + n + k) per row."""
    starts, words = np.zeros(order.shape[0] + 1, np.int64), np.empty(256, np.int64)
    n = starts[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for i in range(order.shape[0]):
        row, count = order[i], 0
        if not is_skipped(probes, row):
            is_float = is_band_of_floats(probes)
            count = find_stretches(entries, key_of(probes, row), is_float, stretches)
        for s in range(count):
            begin, end = stretches[s, 0], stretches[s, 1]
            words, n = _sweep(
                asked, row, begin, end, bits, probes, entries, partner, queries, words, n
            )
        starts[i + 1] = n
    return Found(words, starts)
