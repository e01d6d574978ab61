"""Kernels of query sets: replacements split by set, counts of equal elements.

Sets are stored one after another: set i is items[offsets[i] : offsets[i + 1]], ascending.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64
from penstock.kernels.jit import kernel


@kernel
def split_pairs(offsets: I64, items: I64, sign: I8) -> tuple[I64, I8, I64, I64]:
    """Split rows with sets so that both halves of a replacement (−2, +2) have the same set.

    Queries that are only in the first set see a deletion, those only in the second an insertion.
    Returns the row, sign and set of each result; rows with an empty set are dropped.
    """
    n = sign.shape[0]
    rows = np.empty(2 * n, np.int64)
    signs = np.empty(2 * n, np.int8)
    ends = np.zeros(2 * n + 1, np.int64)
    out = np.empty(items.shape[0], np.int64)
    at = 0
    k = 0
    i = 0
    while i < n:
        pair = sign[i] == -2
        for part in range(
            4 if pair else 1
        ):  # only in the first set; old and new row of both; only in the second set
            row = i if part < 2 else i + 1
            begin = at
            a, a_end = offsets[row], offsets[row + 1]
            b, b_end = (offsets[2 * i + 1 - row], offsets[2 * i + 2 - row]) if pair else (0, 0)
            both = part == 1 or part == 2
            while a < a_end:
                while b < b_end and items[b] < items[a]:
                    b += 1
                shared = b < b_end and items[b] == items[a]
                if shared == both:
                    out[at] = items[a]
                    at += 1
                a += 1
            if at > begin:
                rows[k] = row
                signs[k] = sign[row] if both or not pair else (-1 if part == 0 else 1)
                k += 1
                ends[k] = at
        i += 2 if pair else 1
    return rows[:k], signs[:k], ends[: k + 1], out[:at]


@kernel
def count_before(first: I64) -> I64:
    """For each element, the number of earlier elements with the same value of `first`."""
    seen = np.zeros(first.shape[0], np.int64)
    out = np.empty(first.shape[0], np.int64)
    for i in range(first.shape[0]):
        out[i] = seen[first[i]]
        seen[first[i]] += 1
    return out
