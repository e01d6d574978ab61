"""Exact Σx and Σx² in five words of a state row, or in two rows of digits, and their spread.

Σx is a pair of doubles and Σx² a triple while no addition loses a bit; then both move to rows of
two pools (`wides.py`), marked as in `exact_sums.py`. n·Σx² − (Σx)² is computed from the exact sums
and rounded once, so the result depends neither on the order of rows nor on rows that have left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from penstock.arrays import I64
from penstock.kernels.exact_sums import PAIR_BITS, clear_sums, is_wide, narrow, widen
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import product_error, put_float, sum_error, to_float
from penstock.kernels.wides import (
    BASE,
    HI,
    LO,
    SIGN,
    SQUARE_BASE,
    START,
    add_float,
    add_part,
    bottom,
    clear_digits,
    give_row,
    nearest,
    settle,
    split_float,
    take_row,
    top,
)

WORDS = 5
_SQUARES = 2
"""Offset of the first word of Σx² from the first word of Σx."""
_TRIPLE_BITS = 159
_LIFT = BASE - SQUARE_BASE
_PIECE = 22
_SMALL, _LARGE = 2.0**-330, 2.0**440
"""Within these limits no product here loses a bit by underflow, and none overflows."""
_SMALL_PLACE, _LARGE_PLACE = -400 - BASE, 900 - SQUARE_BASE
_EXACT_INT, _LEAST_INT = 1 << 53, -(1 << 63)
_DOUBT, _LAST_BIT = 2.0**-146, 2.0**-52


class Pools(NamedTuple):
    """Rows of digits for Σx and for Σx², and one row to compute in."""

    sums: I64
    squares: I64
    scratch: I64


@inlined
def _add_triple(
    a: float, b: float, c: float, value: float
) -> tuple[float, float, float, float]:  # fmt: skip
    """The sum a + b + c + value in three doubles, and the rest that does not fit."""
    first = a + value
    error = sum_error(a, value, first)
    second = b + error
    error = sum_error(b, error, second)
    third = c + error
    lost = sum_error(c, error, third)
    head = first + second
    second = sum_error(first, second, head)
    middle = second + third
    return head, middle, sum_error(second, third, middle), lost


# ---- adding ----------------------------------------------------------------------------
@inlined
def is_usual(bits: int, floats: bool) -> bool:
    """Whether a value is moderate: its square, and sums of both, can be a few doubles."""
    if not floats:
        return -_EXACT_INT <= bits <= _EXACT_INT
    size = abs(to_float(bits))
    return size == 0.0 or _SMALL < size < _LARGE


@inlined
def add_doubles(state: I64, g: int, at: int, value: float, step: int) -> bool:
    """Add (step 1) or subtract (−1) a moderate value.

    Returns False and changes nothing if a bit would be lost or the sums are rows of digits.
    """
    head, tail = to_float(state[g, at]), to_float(state[g, at + 1])
    total = head + step * value
    error = sum_error(head, step * value, total)
    rest = tail + error
    square = value * value
    a, b, c, lost = _add_triple(
        to_float(state[g, at + 2]), to_float(state[g, at + 3]), to_float(state[g, at + 4]),
        step * square,
    )  # fmt: skip
    a, b, c, lost_too = _add_triple(a, b, c, step * product_error(value, value, square))
    if sum_error(tail, error, rest) != 0.0 or lost != 0.0 or lost_too != 0.0:
        return False
    result = total + rest
    put_float(state, g, at, result)
    put_float(state, g, at + 1, rest - (result - total))
    put_float(state, g, at + 2, a)
    put_float(state, g, at + 3, b)
    put_float(state, g, at + 4, c)
    return True


@kernel
def add_digits(state: I64, g: int, at: int, bits: int, floats: bool, step: int, p: Pools) -> bool:
    """Add or subtract a finite value of sums that are, or become, rows of digits.

    Returns False and changes nothing if a pool is full.
    """
    if not _widen_spread(state, g, at, p):
        return False
    mantissa, place = bits, -BASE
    if floats or bits == _LEAST_INT:  # its magnitude does not fit 64 bits
        mantissa, place = split_float(to_float(bits) if floats else float(bits))
    add_part(p.sums, state[g, at + 1], mantissa * step, place)
    _add_square(p.squares, state[g, at + _SQUARES + 1], abs(mantissa), 2 * place, step)
    return True


@kernel
def _widen_spread(state: I64, g: int, at: int, p: Pools) -> bool:
    """Convert both sums to rows of digits; returns False if a pool is full."""
    squares = at + _SQUARES
    if is_wide(state, g, at):
        return True
    row = take_row(p.squares)
    if row == 0:
        return False
    if not widen(state, g, at, p.sums):
        give_row(p.squares, row)
        return False
    for word in range(3):
        add_float(p.squares, row, to_float(state[g, squares + word]), _LIFT)
    put_float(state, g, squares, math.nan)
    state[g, squares + 1] = row
    return True


@kernel
def _add_square(pool: I64, row: int, mantissa: int, place: int, step: int) -> None:
    """Add step · mantissa² · 2^(base + place), computed from three pieces of the mantissa."""
    mask = (1 << _PIECE) - 1
    for i in range(3):
        one = (mantissa >> (i * _PIECE)) & mask
        for j in range(3):
            other = (mantissa >> (j * _PIECE)) & mask
            add_part(pool, row, step * one * other, place + (i + j) * _PIECE)


# ---- reading ---------------------------------------------------------------------------
@inlined
def quick_scatter(state: I64, g: int, at: int, count: int) -> float:
    """n·Σx² − (Σx)² of doubles as the nearest double; NaN if that needs more digits.

    The errors are at most 2⁻¹⁴⁶ of n·Σx² plus the rounding of `low`. If they cannot change the
    result, the result is the nearest double.
    """
    n, head, tail = float(count), to_float(state[g, at]), to_float(state[g, at + 1])
    a, b, c = to_float(state[g, at + 2]), to_float(state[g, at + 3]), to_float(state[g, at + 4])
    left, right = n * a, head * head
    middle, cross = n * b, 2.0 * head * tail
    total = left - right
    rest, low = 0.0, n * c - tail * tail
    low += product_error(n, b, middle) - product_error(2.0 * head, tail, cross)
    for part in (
        sum_error(left, -right, total), product_error(n, a, left),
        -product_error(head, head, right), middle, -cross,
    ):  # fmt: skip
        more = rest + part
        low += sum_error(rest, part, more)
        rest = more
    high = total + rest
    low += sum_error(total, rest, high)
    doubt = left * _DOUBT + abs(low) * _LAST_BIT
    scatter = high + low
    return scatter if high + (low - doubt) == high + (low + doubt) else math.nan


@inlined
def spread_of(scatter: float, n: int) -> float:
    """The sample standard deviation of n values."""
    return math.sqrt(scatter / (float(n) * float(n - 1)))


@kernel
def read_spread(state: I64, g: int, at: int, n: int, p: Pools) -> float:
    """The sample standard deviation of n values (0 if n is below 2), computed from all digits."""
    wide = is_wide(state, g, at)
    if wide:
        settle(p.sums, state[g, at + 1])
        settle(p.squares, state[g, at + _SQUARES + 1])
        wide = not _narrow_spread(state, g, at, p)
    if n < 2:
        return 0.0
    if wide:
        _scatter_of_rows(p, state[g, at + 1], state[g, at + _SQUARES + 1], n)
    else:
        _scatter_of_doubles(state, g, at, float(n), p.scratch)
    settle(p.scratch, 0)
    mantissa, place = nearest(p.scratch, 0)
    clear_digits(p.scratch, 0)
    exponent = place + SQUARE_BASE
    if exponent & 1:
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    return math.ldexp(spread_of(mantissa, n), exponent >> 1)


@kernel
def _narrow_spread(state: I64, g: int, at: int, p: Pools) -> bool:
    """Convert settled sums back to doubles if they fit; returns whether they did."""
    squares, row = at + _SQUARES, state[g, at + 1]
    square_row = state[g, squares + 1]
    if p.sums[row, LO] <= p.sums[row, HI]:
        low = bottom(p.sums, row)
        if low < _SMALL_PLACE or top(p.sums, row) - low > PAIR_BITS:
            return False
    if p.squares[square_row, LO] <= p.squares[square_row, HI]:
        low, high = bottom(p.squares, square_row), top(p.squares, square_row)
        if low < 2 * _SMALL_PLACE or high > _LARGE_PLACE or high - low > _TRIPLE_BITS:
            return False
    narrow(state, g, at, 2, p.sums, BASE)
    narrow(state, g, squares, 3, p.squares, SQUARE_BASE)
    return True


@kernel
def _scatter_of_doubles(state: I64, g: int, at: int, n: float, scratch: I64) -> None:
    """Write n·Σx² − (Σx)² of sums in doubles to the scratch row."""
    for word in range(_SQUARES, WORDS):
        _add_product(scratch, n, to_float(state[g, at + word]))
    head, tail = to_float(state[g, at]), to_float(state[g, at + 1])
    _add_product(scratch, head, -head)
    _add_product(scratch, 2.0 * head, -tail)
    _add_product(scratch, tail, -tail)


@kernel
def _add_product(scratch: I64, a: float, b: float) -> None:
    product = a * b
    add_float(scratch, 0, product, _LIFT)
    add_float(scratch, 0, product_error(a, b, product), _LIFT)


@kernel
def _scatter_of_rows(p: Pools, row: int, square_row: int, n: int) -> None:
    """Write n·Σx² − (Σx)² of settled rows of digits to the scratch row (schoolbook method)."""
    squares, sums = p.squares, p.sums
    sign, low, high = squares[square_row, SIGN], n & 0x7FFFFFFF, n >> 31
    for i in range(squares[square_row, LO], squares[square_row, HI] + 1):
        digit, place = sign * squares[square_row, i], 32 * (i - START)
        add_part(p.scratch, 0, digit * low, place)
        add_part(p.scratch, 0, digit * high, place + 31)
    for i in range(sums[row, LO], sums[row, HI] + 1):
        for j in range(sums[row, LO], sums[row, HI] + 1):
            digit, other = -sums[row, i], sums[row, j]
            place = 32 * (i + j - 2 * START)
            add_part(p.scratch, 0, digit * (other & 0xFFFF), place)
            add_part(p.scratch, 0, digit * (other >> 16), place + 16)


@kernel
def clear_spreads(p: Pools, state: I64, groups: I64, at: int) -> None:
    """Free the rows of digits of `groups`."""
    clear_sums(p.sums, state, groups, at)
    clear_sums(p.squares, state, groups, at + _SQUARES)
