from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrays import I64
from penstock.kernels import sums

INT64 = st.integers(-(2**63), 2**63 - 1)


def wide(state: I64) -> int:
    return (int(state[0, 1]) << 64) + (int(state[0, 0]) & (2**64 - 1))


@given(st.lists(INT64, max_size=30))
def test_wide_sums_are_exact_and_undone(values: list[int]) -> None:
    state = np.zeros((1, 2), np.int64)
    for i, value in enumerate(values):
        sums.add_wide(state, 0, 0, value)
        total = sum(values[: i + 1])
        assert wide(state) == total
        assert sums.wide_fits(state, 0, 0, 0) == (-(2**63) <= total < 2**63)
        assert sums.wide_fits(state, 0, 0, 99) == (abs(total) <= 99)
        assert sums.wide_float(state, 0, 0) == pytest.approx(float(total), rel=1e-15)
    for value in values:
        sums.subtract_wide(state, 0, 0, value)
    assert not state.any()


@given(st.floats(-1e140, 1e140), st.floats(-1e140, 1e140))
def test_product_error(a: float, b: float) -> None:
    if min(abs(a), abs(b)) < 1e-120:
        return  # below, the error itself is rounded away
    product = a * b
    error = sums.product_error(a, b, product)
    assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)


@given(st.lists(st.floats(), min_size=2))
def test_float_order_is_the_order_with_nan_last(values: list[float]) -> None:
    bits = [sums.to_bits(v) for v in values]
    by_key = sorted(bits, key=sums.float_order)
    ordered = sorted(values, key=lambda v: (math.isnan(v), 0.0 if math.isnan(v) else v))
    assert by_key == [sums.to_bits(v) for v in ordered]
    assert [sums.float_order(sums.float_order(b)) for b in bits] == bits


def test_stored_floats_have_one_nan_and_no_negative_zero() -> None:
    assert sums.to_bits(-0.0) == 0
    assert sums.to_bits(-math.nan) == sums.NAN_BITS
    assert math.isnan(sums.to_float(sums.NAN_BITS))
