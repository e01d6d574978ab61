"""Checked int64 arithmetic in one pass: the result, and the number of rows that overflowed.

Each kernel writes one output and no temporaries, because page faults of new large arrays cost more
than the arithmetic. An operand of one element applies to all rows. The caller looks for the bad
rows only if the count is not 0. Sums, differences and products are computed in uint64: for signed
integers the compiler assumes that no overflow happens and would remove the tests.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel

_LEAST = np.iinfo(np.int64).min


@kernel
def add_int64(a: I64, b: I64, out: I64) -> int:
    """Write the sums to `out` and return the number of overflows."""
    step_a, step_b = int(a.shape[0] > 1), int(b.shape[0] > 1)
    wrong = 0
    for i in range(out.shape[0]):
        x, y = np.uint64(a[i * step_a]), np.uint64(b[i * step_b])
        r = x + y
        out[i] = np.int64(r)
        wrong += int(np.int64(((x ^ r) & (y ^ r)) >> np.uint64(63)))
    return wrong


@kernel
def sub_int64(a: I64, b: I64, out: I64) -> int:
    """Write the differences to `out` and return the number of overflows."""
    step_a, step_b = int(a.shape[0] > 1), int(b.shape[0] > 1)
    wrong = 0
    for i in range(out.shape[0]):
        x, y = np.uint64(a[i * step_a]), np.uint64(b[i * step_b])
        r = x - y
        out[i] = np.int64(r)
        wrong += int(np.int64(((x ^ y) & (x ^ r)) >> np.uint64(63)))
    return wrong


@kernel
def mul_overflows(x: int, y: int) -> bool:
    """Whether x · y is outside int64; only products near 2⁶³ need a division."""
    if abs(np.float64(x) * np.float64(y)) < 4.0e18:
        return False
    if (x == -1 and y == _LEAST) or (y == -1 and x == _LEAST):
        return True
    r = np.int64(np.uint64(x) * np.uint64(y))
    return bool(r // x != y)


@kernel
def mul_int64(a: I64, b: I64, out: I64) -> int:
    """Write the products to `out` and return the number of overflows."""
    step_a, step_b = int(a.shape[0] > 1), int(b.shape[0] > 1)
    wrong = 0
    for i in range(out.shape[0]):
        x, y = a[i * step_a], b[i * step_b]
        out[i] = np.int64(np.uint64(x) * np.uint64(y))
        wrong += mul_overflows(x, y)
    return wrong


@kernel
def mul_bad(a: I64, b: I64, out: I64) -> None:
    """Write 1 to `out` where the product overflows, else 0."""
    step_a, step_b = int(a.shape[0] > 1), int(b.shape[0] > 1)
    for i in range(out.shape[0]):
        out[i] = mul_overflows(a[i * step_a], b[i * step_b])
