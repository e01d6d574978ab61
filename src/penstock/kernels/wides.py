"""Exact sums over the whole range of doubles: rows of 32-bit digits in one pool.

A row holds a number as digits of 2³² from 2^base on; the caller knows the base (−1074 for sums of
doubles, −2148 for sums of squares). Digits may exceed 32 bits until `settle` carries. Row 0 of a
pool is not a number: its words are registers. Digits outside [LO, HI] are 0.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel

USED, FREE = 1, 2
"""Registers in row 0: highest row ever used, first free row."""
LO, HI, SIGN = 0, 1, 2
"""Words of a row: lowest digit, highest digit, and the sign: −1 if all digits are negated.

LO of a free row is the next free row.
"""
START = 5
"""The first digit; the two words before it stay 0, so that two digits below always exist."""
BASE, SQUARE_BASE = -1074, -2148
SUM_WORDS, SQUARE_WORDS = START + 70, START + 140
"""Words for the sum of 2⁶³ values, and for n·Σx² of as many."""

_DIGIT = 0xFFFFFFFF
_FRACTION = (1 << 52) - 1
_MANTISSA = (1 << 53) - 1


# ---- rows ------------------------------------------------------------------------------
@kernel
def make_empty(pool: I64, row: int) -> None:
    """Initialise a row with zero digits as the number 0."""
    pool[row, LO] = pool.shape[1]
    pool[row, HI] = 0
    pool[row, SIGN] = 1


@kernel
def take_row(pool: I64) -> int:
    """Take a row for a new number with value 0; returns 0 if the pool is full."""
    row = pool[0, FREE]
    if row != 0:
        pool[0, FREE] = pool[row, LO]
    else:
        row = pool[0, USED] + 1
        if row >= pool.shape[0]:
            return 0
        pool[0, USED] = row
    make_empty(pool, row)
    return int(row)


@kernel
def clear_digits(pool: I64, row: int) -> None:
    """Set the number to 0."""
    for p in range(pool[row, LO], pool[row, HI] + 1):
        pool[row, p] = 0
    make_empty(pool, row)


@kernel
def give_row(pool: I64, row: int) -> None:
    """Put a row on the free list."""
    clear_digits(pool, row)
    pool[row, LO] = pool[0, FREE]
    pool[0, FREE] = row


# ---- adding ----------------------------------------------------------------------------
@kernel
def add_part(pool: I64, row: int, mantissa: int, place: int) -> None:
    """Add mantissa · 2^(base + place)."""
    p, shift = START + (place >> 5), place & 31
    signed = mantissa * pool[row, SIGN]
    low = (signed & _DIGIT) << shift
    high = (signed >> 32) << shift
    pool[row, p] += low & _DIGIT
    pool[row, p + 1] += (low >> 32) + (high & _DIGIT)
    pool[row, p + 2] += high >> 32
    pool[row, LO] = min(pool[row, LO], p)
    pool[row, HI] = max(pool[row, HI], p + 2)


@kernel
def split_float(value: float) -> tuple[int, int]:
    """A finite double as mantissa and place: mantissa · 2^(place − 1074)."""
    bits = np.float64(value).view(np.int64)
    exponent, mantissa = (bits >> 52) & 0x7FF, bits & _FRACTION
    if exponent != 0:
        mantissa |= 1 << 52
        exponent -= 1
    return int(-mantissa if bits < 0 else mantissa), int(exponent)


@kernel
def add_float(pool: I64, row: int, value: float, lift: int) -> None:
    """Add value · 2^lift to a sum of doubles; −1074 − base is the lift for another base."""
    mantissa, place = split_float(value)
    if mantissa != 0:
        add_part(pool, row, mantissa, place + lift)


# ---- reading ---------------------------------------------------------------------------
@kernel
def _carry(pool: I64, row: int, factor: int) -> int:
    """Multiply by `factor` (1, −1), carry so that digits have 32 bits; returns the final carry."""
    carry = 0
    for p in range(pool[row, LO], pool[row, HI] + 1):
        total = pool[row, p] * factor + carry
        pool[row, p] = total & _DIGIT
        carry = total >> 32
    return carry


@kernel
def settle(pool: I64, row: int) -> bool:
    """Carry and make the digits those of the magnitude; returns whether the number is not 0."""
    above = _carry(pool, row, 1)
    if above < 0:
        above = _carry(pool, row, -1) - above
        pool[row, SIGN] = -pool[row, SIGN]
    if above != 0:
        pool[row, HI] += 1
        pool[row, pool[row, HI]] = above
    lo, hi = pool[row, LO], pool[row, HI]
    while hi >= lo and pool[row, hi] == 0:
        hi -= 1
    while lo <= hi and pool[row, lo] == 0:
        lo += 1
    if hi < lo:
        make_empty(pool, row)
        return False
    pool[row, LO], pool[row, HI] = lo, hi
    return True


@kernel
def bits_of(digit: int) -> int:
    """The number of bits of a positive number below 2⁵³."""
    return math.frexp(float(digit))[1]


@kernel
def bottom(pool: I64, row: int) -> int:
    """The place of the lowest bit that is set in a settled number."""
    lo = pool[row, LO]
    digit = pool[row, lo]
    return int(32 * (lo - START) + bits_of(digit & -digit) - 1)


@kernel
def top(pool: I64, row: int) -> int:
    """The place above the highest bit that is set in a settled number."""
    hi = pool[row, HI]
    return int(32 * (hi - START) + bits_of(pool[row, hi]))


@kernel
def nearest(pool: I64, row: int) -> tuple[float, int]:
    """The mantissa of 53 bits nearest to a settled number (ties to even), and its place."""
    hi = pool[row, HI]
    if hi < pool[row, LO]:
        return 0.0, 0
    a, b, c = pool[row, hi], pool[row, hi - 1], pool[row, hi - 2]
    length = bits_of(a)
    window = (a << (64 - length)) | (b << (32 - length)) | (c >> length)
    below = c & ((1 << length) - 1) != 0 or pool[row, LO] < hi - 2
    mantissa, rest = (window >> 11) & _MANTISSA, window & 0x7FF
    if rest > 0x400 or (rest == 0x400 and (below or mantissa & 1 == 1)):
        mantissa += 1
    place = 32 * (hi - START) + length - 53
    return float(mantissa) * pool[row, SIGN], int(place)


@kernel
def to_double(pool: I64, row: int, base: int) -> float:
    """The double nearest to a settled number; infinite beyond the range."""
    mantissa, place = nearest(pool, row)
    return math.ldexp(mantissa, place + base)


@kernel
def take_double(pool: I64, row: int, base: int) -> float:
    """Subtract the nearest double, which must be finite, and return it; the rest stays settled."""
    value = to_double(pool, row, base)
    add_float(pool, row, -value, BASE - base)
    settle(pool, row)
    return value
