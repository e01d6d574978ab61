"""Kernels of calls that queries share: the rows that a call needs, and the slots it rejects."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.grouped_filter_bits import U64, lowest_bit
from penstock.kernels.jit import kernel


@kernel
def rows_of_groups(bits: U64, rows: I64, uses: U64, group_of: I32, groups: int) -> tuple[I64, I64]:
    """For each group of slots (CSR), the rows that have a slot of the group set."""
    counts = np.zeros(groups + 1, np.int64)
    found = np.empty(0, np.int64)
    for filling in range(2):
        last = np.full(groups, -1, np.int64)  # the last row added to each group
        for i in range(rows.shape[0]):
            for w in range(uses.shape[0]):
                word = bits[rows[i], w] & uses[w]
                while word:
                    group = group_of[w * 64 + np.int64(lowest_bit(word))]
                    word &= word - np.uint64(1)
                    if last[group] != i:
                        last[group] = i
                        if filling:
                            found[counts[group]] = rows[i]
                        counts[group] += 1
        if not filling:
            total = 0
            for g in range(groups + 1):
                counts[g], total = total, total + counts[g]
            found = np.empty(total, np.int64)
    offsets = np.zeros(groups + 1, np.int64)
    offsets[1:] = counts[:groups]
    return offsets, found


@kernel
def clear_groups(rows: I64, groups: I64, members: U64, bits: U64) -> None:
    """In rows[i], clear the bits of the slots of groups[i]."""
    for i in range(rows.shape[0]):
        for w in range(members.shape[1]):
            bits[rows[i], w] &= ~members[groups[i], w]
