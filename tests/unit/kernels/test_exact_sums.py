"""Exact sums against fractions: every order, whatever has left, pair and row of digits alike."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.arrays import I64
from penstock.kernels import exact_spread, exact_sums, wides

TINY, LARGEST = 5e-324, 1.7976931348623157e308
BELOW_ONE = st.floats(-1.0, 1.0, exclude_min=True, exclude_max=True)  # 2.0**1024 is infinite
ADVERSE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0.0, -0.0, TINY, -TINY, 2.0**-1022, LARGEST, -LARGEST, 1.7e308, 1e32, 1e16, 0.1, 0.2,
         9.969209968386869e36, 1e9, 7.0, 2.0**53, 1.0, 2.0**-53, 2.0**-54, -(2.0**-106)]
    ),
    st.builds(math.ldexp, BELOW_ONE, st.integers(-1074, 1024)),
)  # fmt: skip


def rounded(total: Fraction) -> float:
    """The nearest double, ties to even; infinite beyond the range."""
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


class Sum:
    """An exact sum in a state row of its own, which is free of digits when it can be."""

    def __init__(self) -> None:
        self.state = np.zeros((1, 2), np.int64)
        self.pool = np.zeros((1, wides.SUM_WORDS), np.int64)

    def add(self, value: float) -> None:
        if exact_sums.add_pair(self.state, 0, 0, value):
            return
        while not exact_sums.add_digits(self.state, 0, 0, value, self.pool):
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])

    def read(self) -> float:
        if self.is_wide:
            return exact_sums.read_digits(self.state, 0, 0, self.pool)
        return float(self.state.view(np.float64)[0, 0])

    @property
    def is_wide(self) -> bool:
        return exact_sums.is_wide(self.state, 0, 0)


@given(st.lists(ADVERSE, max_size=30), st.randoms(use_true_random=False))
@example([1e32, 0.2, 1e16, 0.0, 7.0], random.Random(1))
@example([1.7e308, 1.7e308, -1.7e308], random.Random(1))
def test_a_sum_is_the_nearest_double_at_each_moment(
    values: list[float], rng: random.Random
) -> None:
    one, held, total = Sum(), list[float](), Fraction(0)
    coming = values[:]
    while coming or held:
        if coming and (not held or rng.random() < 0.6):
            value, step = coming.pop(), 1
            held.append(value)
        else:
            value, step = held.pop(rng.randrange(len(held))), -1
        one.add(step * value)
        total += step * Fraction(value)
        if rng.random() < 0.7:
            assert one.read() == rounded(total)
    assert one.read() == 0.0
    assert not one.state.any()
    assert not one.pool[1:, wides.START :].any()


@given(st.lists(ADVERSE, max_size=20), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(values: list[float], rng: random.Random) -> None:
    shuffled = rng.sample(values, len(values))
    found = []
    for order in (values, shuffled):
        one = Sum()
        for value in order:
            one.add(value)
        found.append(one.read())
    assert found[0] == found[1]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("held", [0.0, 0.1, LARGEST])
def test_a_pair_takes_no_value_that_is_not_finite(held: float, odd: float) -> None:
    one = Sum()
    one.add(held)
    before = one.state.copy()
    assert not exact_sums.add_pair(one.state, 0, 0, odd)
    assert (one.state == before).all()


def test_ordinary_numbers_stay_two_doubles() -> None:
    rng = random.Random(3)
    one = Sum()
    for _ in range(2_000):
        one.add(round(rng.uniform(0, 1e6), 2))
    assert not one.is_wide


def test_a_sum_that_fits_two_doubles_again_goes_back_and_its_row_is_used_again() -> None:
    one = Sum()
    for _ in range(5):
        for value in (9.969209968386869e36, 1e9, 0.1):
            one.add(value)
        assert one.read() == 9.969209968386869e36
        assert one.is_wide
        one.add(-9.969209968386869e36)
        assert one.read() == math.fsum([1e9, 0.1])
        assert not one.is_wide
        one.add(-1e9)
        one.add(-0.1)
    assert one.pool[0, wides.USED] == 1


def test_rows_of_groups_that_are_cleared_are_free() -> None:
    state, pool = np.zeros((3, 2), np.int64), np.zeros((9, wides.SUM_WORDS), np.int64)
    for g in range(3):
        for value in (1e300, 1.0, 1e-300):
            assert exact_sums.add_digits(state, g, 0, value, pool)
    exact_sums.clear_sums(pool, state, np.array([0, 2]), 0)
    assert not state[[0, 2]].any()
    assert pool[0, wides.USED] == 3
    taken = {wides.take_row(pool), wides.take_row(pool)}
    assert wides.take_row(pool) == 4
    assert len(taken) == 2
    assert exact_sums.read_digits(state, 1, 0, pool) == 1e300


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2100)), max_size=40))
def test_digits_are_the_number(parts: list[tuple[int, int]]) -> None:
    pool = np.zeros((2, wides.SUM_WORDS), np.int64)
    row, total = wides.take_row(pool), 0
    for mantissa, place in parts:
        wides.add_part(pool, row, mantissa, place)
        total += mantissa << place
        settled = wides.settle(pool, row)
        assert settled == (total != 0)
        digits = [int(d) for d in pool[row, wides.START :]]
        sign = int(pool[row, wides.SIGN])
        assert sum(d << 32 * i for i, d in enumerate(digits)) * sign == total
        if total:
            assert wides.top(pool, row) == abs(total).bit_length()
            assert wides.bottom(pool, row) == (total & -total).bit_length() - 1
        mantissa_found, at = wides.nearest(pool, row)
        assert Fraction(mantissa_found) * Fraction(2) ** at == nearest(total)


def nearest(total: int) -> Fraction:
    """To 53 bits, ties to even."""
    cut = max(abs(total).bit_length() - 53, 0)
    return Fraction(round(Fraction(total, 1 << cut)) << cut)


# ---- spread ----------------------------------------------------------------------------
class Spread:
    """Exact sums of x and x²."""

    def __init__(self, floats: bool) -> None:
        self.floats = floats
        self.state = np.zeros((1, exact_spread.WORDS), np.int64)
        self.sums = np.zeros((1, wides.SUM_WORDS), np.int64)
        self.squares = np.zeros((1, wides.SQUARE_WORDS), np.int64)
        self.scratch = np.zeros((1, wides.SQUARE_WORDS), np.int64)
        wides.make_empty(self.scratch, 0)

    @property
    def pools(self) -> exact_spread.Pools:
        return exact_spread.Pools(self.sums, self.squares, self.scratch)

    def add(self, value: float, step: int) -> None:
        bits = int(np.float64(value).view(np.int64)) if self.floats else int(value)
        usual = exact_spread.is_usual(bits, self.floats)
        if usual and exact_spread.add_doubles(self.state, 0, 0, float(value), step):
            return
        add = exact_spread.add_digits
        while not add(self.state, 0, 0, bits, self.floats, step, self.pools):
            self.sums = np.concatenate([self.sums, np.zeros_like(self.sums)])
            self.squares = np.concatenate([self.squares, np.zeros_like(self.squares)])

    def read(self, n: int) -> float:
        quick = exact_spread.quick_scatter(self.state, 0, 0, n)
        found = exact_spread.read_spread(self.state, 0, 0, n, self.pools)
        if n > 1 and not math.isnan(quick):
            assert exact_spread.spread_of(quick, n) == found
        return found


def deviation(values: list[Fraction]) -> float:
    """The sample standard deviation, nearly rounded correctly."""
    n = len(values)
    scatter = n * sum(v * v for v in values) - sum(values, Fraction(0)) ** 2
    variance = scatter / (n * (n - 1))
    shift = (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(variance / Fraction(4) ** shift), shift)


@pytest.mark.parametrize("floats", [True, False])
def test_a_spread_is_that_of_what_is_there(floats: bool) -> None:
    integers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9))

    @given(st.lists(ADVERSE if floats else integers, max_size=16), st.randoms())
    def check(values: list[float], rng: random.Random) -> None:
        one, held = Spread(floats), list[float]()
        coming = values[:]
        while coming or held:
            if coming and (not held or rng.random() < 0.6):
                held.append(coming.pop())
                one.add(held[-1], 1)
            else:
                one.add(held.pop(rng.randrange(len(held))), -1)
            if len(held) > 1 and rng.random() < 0.7:
                expected = deviation([Fraction(v) for v in held])
                assert one.read(len(held)) == pytest.approx(expected, rel=1e-14, abs=TINY)
        assert one.read(0) == 0.0
        assert not one.state.any()
        assert not one.squares[1:, wides.START :].any()

    check()


@given(ADVERSE, st.integers(2, 50))
def test_equal_values_have_no_spread(value: float, n: int) -> None:
    one = Spread(True)
    for _ in range(n):
        one.add(value, 1)
    assert one.read(n) == 0.0


def fields(pool: I64) -> int:
    return int(pool[0, wides.USED])


def test_ordinary_numbers_have_a_spread_of_five_doubles() -> None:
    rng = random.Random(4)
    one = Spread(True)
    for _ in range(2_000):
        one.add(rng.uniform(1, 1_000), 1)
    assert fields(one.sums) == fields(one.squares) == 0


def test_a_spread_goes_back_to_doubles_when_the_outlier_has_left() -> None:
    one = Spread(True)
    for value in (9.969209968386869e36, 1e3, 0.1):
        one.add(value, 1)
    one.read(3)
    assert np.isnan(one.state.view(np.float64)[0, 0])
    one.add(9.969209968386869e36, -1)
    assert one.read(2) == pytest.approx((1e3 - 0.1) / math.sqrt(2), rel=1e-15)
    assert not np.isnan(one.state.view(np.float64)).any()
