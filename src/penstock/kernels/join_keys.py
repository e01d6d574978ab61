"""Chain keys of join rows: equality columns, or buckets of a band column.

A band of width w = high − low (+ 1 for integers) joins a value with at most two integer
buckets of width w. Floats need three, because the rounding error widens the bucket range.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.jit import kernel
from penstock.kernels.join import partner_range

_SATURATE = 2.0**45  # float buckets beyond ±this are one: rounding stays far below a bucket


@kernel
def equi_keys(rows: I64, lin: I64, columns: I64, tagged: bool) -> I64:
    """Key of each row, row-major: [lin when tagged, values of the columns…]."""
    n, k = rows.shape[1], columns.shape[0]
    first = 1 if tagged else 0
    out = np.empty((n, first + k), np.int64)
    for i in range(n):
        if tagged:
            out[i, 0] = lin[i]
        for j in range(k):
            out[i, first + j] = rows[1 + columns[j], i]
    return out


@kernel
def int_buckets(values: I64, lin: I64, width: int, tagged: bool) -> I64:
    """Key of each row: [lin when tagged, bucket]."""
    n = values.shape[0]
    first = 1 if tagged else 0
    out = np.empty((n, first + 1), np.int64)
    for i in range(n):
        if tagged:
            out[i, 0] = lin[i]
        out[i, first] = values[i] // width
    return out


@kernel
def int_probes(
    values: I64, lin: I64, low: int, high: int, width: int, is_left: bool, tagged: bool
) -> tuple[I64, Bool]:
    """Two keys per row (row-major, adjacent) that cover the band, and which of them count."""
    n = values.shape[0]
    first = 1 if tagged else 0
    out = np.zeros((2 * n, first + 1), np.int64)
    good = np.zeros(2 * n, np.bool_)
    for i in range(n):
        lo, hi = partner_range(values[i], low, high, is_left)
        if lo > hi:
            continue
        a, b = lo // width, hi // width
        for p in range(2):
            if tagged:
                out[2 * i + p, 0] = lin[i]
            out[2 * i + p, first] = a + p
            good[2 * i + p] = a + p <= b
    return out, good


@kernel
def _float_bucket(value: float, width: float) -> int:
    return int(min(max(math.floor(value / width), -_SATURATE), _SATURATE))


@kernel
def float_buckets(values: I64, lin: I64, width: float, tagged: bool) -> tuple[I64, Bool]:
    """Key of each row: [lin when tagged, bucket], and whether it is finite."""
    floats = values.view(np.float64)
    n = values.shape[0]
    first = 1 if tagged else 0
    out = np.zeros((n, first + 1), np.int64)
    good = np.isfinite(floats)
    for i in range(n):
        if tagged:
            out[i, 0] = lin[i]
        if good[i]:
            out[i, first] = _float_bucket(floats[i], width)
    return out, good


@kernel
def float_probes(
    values: I64, lin: I64, low: float, high: float, width: float, is_left: bool, tagged: bool
) -> tuple[I64, Bool]:
    """Three keys per row (row-major, adjacent) that cover the band, and which of them count."""
    floats = values.view(np.float64)
    n = values.shape[0]
    first = 1 if tagged else 0
    out = np.zeros((3 * n, first + 1), np.int64)
    good = np.zeros(3 * n, np.bool_)
    if not is_left:
        low, high = -high, -low
    for i in range(n):
        v = floats[i]
        if not np.isfinite(v):
            continue
        slack = 2.0**-50 * (abs(v) + abs(low) + abs(high))
        a = _float_bucket(v + low - slack, width)
        b = _float_bucket(v + high + slack, width)
        for p in range(3):
            if tagged:
                out[3 * i + p, 0] = lin[i]
            out[3 * i + p, first] = a + p
            good[3 * i + p] = a + p <= b
    return out, good
