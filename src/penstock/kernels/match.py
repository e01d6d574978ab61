"""The kernel of stream ⋈ Q as a compiled scan: every row against every query's parameters.

A predicate compares a value of the row with a parameter. Floats are compared through an
order-preserving map to int64, so NaN equals NaN and is largest. A NULL on either side never
matches.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64
from penstock.kernels.jit import kernel

EQ, NE, LT, LE, GT, GE = range(6)


@kernel
def _ordered(bits: int, is_float: int) -> int:
    if is_float and bits < 0:
        return bits ^ 0x7FFFFFFFFFFFFFFF
    return bits


@kernel
def _holds(op: int, a: int, b: int) -> bool:
    if op == EQ:
        return a == b
    if op == NE:
        return a != b
    if op == LT:
        return a < b
    if op == LE:
        return a <= b
    if op == GT:
        return a > b
    return a >= b


@kernel
def _passes(i: int, q: int, values: I64, preds: I64, params: I64) -> bool:
    for p in range(preds.shape[0]):
        column, value = preds[p, 2], preds[p, 3]
        if (values[0, i] >> value) & 1 or (params[q, 0] >> column) & 1:
            return False
        a = _ordered(values[1 + value, i], preds[p, 1])
        b = _ordered(params[q, 1 + column], preds[p, 1])
        if not _holds(preds[p, 0], a, b):
            return False
    return True


@kernel
def match_queries(
    lin: I64, sign: I8, by_cohort: bool, keyed: bool, values: I64, preds: I64, params: I64,
    queries: I64, since: I64, cohort: I64,
) -> tuple[I64, I64, I8]:  # fmt: skip
    """All matching (row, query) pairs, in order of row and query, with the sign of each.

    `preds` rows are (operator, is_float, parameter, value); `values` holds the compared values
    after a NULL word. If a query takes only one half of a replacement, that half becomes ±1.
    """
    n = lin.shape[0]
    capacity = max(16, n)
    rows = np.empty(capacity, np.int64)
    qids = np.empty(capacity, np.int64)
    signs = np.empty(capacity, np.int8)
    k = 0
    i = 0
    while i < n:
        pair = keyed and sign[i] == -2
        for j in range(queries.shape[0]):
            q = queries[j]
            if by_cohort:
                if cohort[q] != lin[i]:
                    continue
            elif lin[i] < since[q]:
                continue
            first = _passes(i, q, values, preds, params)
            second = pair and _passes(i + 1, q, values, preds, params)
            if not (first or second):
                continue
            if k + 2 > capacity:
                capacity *= 2
                rows = np.concatenate((rows, np.empty(capacity - rows.shape[0], np.int64)))
                qids = np.concatenate((qids, np.empty(capacity - qids.shape[0], np.int64)))
                signs = np.concatenate((signs, np.empty(capacity - signs.shape[0], np.int8)))
            if first:
                rows[k], qids[k] = i, q
                signs[k] = sign[i] if (second or not pair) else -1
                k += 1
            if second:
                rows[k], qids[k] = i + 1, q
                signs[k] = 2 if first else 1
                k += 1
        i += 2 if pair else 1
    return rows[:k], qids[:k], signs[:k]
