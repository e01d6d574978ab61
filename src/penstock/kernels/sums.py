"""Reversible sums: 128-bit integers, and the building blocks of exact sums of floats.

A sum is stored in adjacent int64 words of a state row; rows that leave a window are subtracted
(DESIGN §3). Two-sum and Dekker's product compute the rounding error of a sum or product.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel

LOW, HIGH = 0, 1
"""Places of the words of a 128-bit sum."""

NAN_BITS = 0x7FF8000000000000
TOP_BIT = np.int64(-0x8000000000000000)
SPLIT = 134217729.0
"""2²⁷ + 1 (Dekker's split)."""


@kernel
def to_float(bits: int) -> float:
    """The float64 with these bits."""
    return np.int64(bits).view(np.float64)


@kernel
def to_bits(value: float) -> int:
    """The stored bits of a float: one NaN, no −0.0 (`types.py`)."""
    if value != value:
        return NAN_BITS
    return np.float64(value + 0.0).view(np.int64)  # type: ignore[return-value]


@kernel
def float_order(bits: int) -> int:
    """Stored float bits to an integer of the same order, NaN largest; its own inverse."""
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


# ---- 128-bit integers ------------------------------------------------------------------
@kernel
def add_wide(state: I64, g: int, at: int, value: int) -> None:
    """Add `value` to the sum at state[g, at : at + 2]."""
    low = state[g, at + LOW]
    total = low + value
    carry = 1 if (total ^ TOP_BIT) < (low ^ TOP_BIT) else 0
    state[g, at + LOW] = total
    state[g, at + HIGH] += (value >> 63) + carry


@kernel
def subtract_wide(state: I64, g: int, at: int, value: int) -> None:
    """Subtract `value` from the sum at state[g, at : at + 2]."""
    low = state[g, at + LOW]
    borrow = 1 if (low ^ TOP_BIT) < (value ^ TOP_BIT) else 0
    state[g, at + LOW] = low - value
    state[g, at + HIGH] -= (value >> 63) + borrow


@kernel
def wide_fits(state: I64, g: int, at: int, bound: int) -> bool:
    """Whether the sum is an int64 of magnitude at most `bound` (0: any int64)."""
    low = state[g, at + LOW]
    if state[g, at + HIGH] != low >> 63:
        return False
    return bound == 0 or (-bound <= low <= bound)


@kernel
def wide_float(state: I64, g: int, at: int) -> float:
    """The sum as the nearest double (one more rounding when it exceeds 64 bits)."""
    low = state[g, at + LOW]
    if state[g, at + HIGH] == low >> 63:
        return float(low)
    return float(state[g, at + HIGH]) * 18446744073709551616.0 + float(np.uint64(low))


# ---- floats ------------------------------------------------------------------------------
@kernel
def sum_error(a: float, b: float, total: float) -> float:
    """The rounding error of a + b = total (Knuth's two-sum)."""
    part = total - a
    return (a - (total - part)) + (b - part)


@kernel
def put_float(state: I64, g: int, at: int, value: float) -> None:
    """Store the exact bits of an accumulator, including −0.0."""
    state[g, at] = np.float64(value).view(np.int64)


@kernel
def product_error(a: float, b: float, product: float) -> float:
    """The rounding error of a·b = product (Dekker's product)."""
    wide = SPLIT * a
    a_high = wide - (wide - a)
    a_low = a - a_high
    wide = SPLIT * b
    b_high = wide - (wide - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
