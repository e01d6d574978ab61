"""Exact int64 arithmetic: every operation returns its result and the rows where it overflowed."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels import arithmetic as kernels
from penstock.state.convert import F64

Checked = tuple[I64, Bool | None]
MIN, MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def add_checked(a: I64, b: I64) -> Checked:
    """Sum."""
    a, b, r = _operands(a, b)
    if not kernels.add_int64(a, b, r):
        return r, None
    return r, ((a ^ r) & (b ^ r)) < 0


def sub_checked(a: I64, b: I64) -> Checked:
    """Difference."""
    a, b, r = _operands(a, b)
    if not kernels.sub_int64(a, b, r):
        return r, None
    return r, ((a ^ b) & (a ^ r)) < 0


def mul_checked(a: I64, b: I64) -> Checked:
    """Product."""
    a, b, r = _operands(a, b)
    if not kernels.mul_int64(a, b, r):
        return r, None
    bad = np.empty_like(r)
    kernels.mul_bad(a, b, bad)
    return r, bad != 0


def _operands(a: I64, b: I64) -> tuple[I64, I64, I64]:
    """Both operands as kernels want them, and room for the result."""
    n = a.shape[0] if b.shape[0] == 1 else b.shape[0]
    return np.ascontiguousarray(a), np.ascontiguousarray(b), np.empty(n, np.int64)


def divide_away(a: I64, divisor: int) -> I64:
    """Quotient rounded half away from zero (divisor > 0)."""
    if divisor > MAX:
        return np.zeros_like(a)
    if divisor == 1:
        return a
    whole = a // divisor
    rest = a - whole * divisor  # 0 ≤ rest < divisor
    up = rest > divisor - rest
    tie = rest == divisor - rest
    rounded: I64 = whole + (up | (tie & (a >= 0)))
    return rounded


def rescale(a: I64, have: int, want: int) -> Checked:
    """A decimal of scale `have` at scale `want`."""
    if want >= have:
        if want == have:
            return a, None
        return mul_checked(a, np.array([10 ** (want - have)], np.int64))
    return divide_away(a, 10 ** (have - want)), None


def round_away(x: F64) -> F64:
    """Round to a whole number, half away from zero (exact, unlike adding a half)."""
    with np.errstate(invalid="ignore"):
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


def to_integer(x: F64) -> Checked:
    """Whole floats as int64; bad where they do not fit (or are NaN)."""
    bad = ~((x >= -(2.0**63)) & (x < 2.0**63))
    with np.errstate(invalid="ignore"):
        return np.where(bad, 0.0, x).astype(np.int64), bad
