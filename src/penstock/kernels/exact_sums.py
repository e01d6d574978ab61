"""Exact sums of doubles in two words of a state row, or in a row of digits (docs/design/0010).

While no addition loses a bit, the sum is a pair of doubles: the nearest double and the rest. The
first addition that would lose a bit moves the sum to a row of a pool (`wides.py`); the words are
then NaN and the number of that row. A sum that fits a pair again returns to one when it is read.
"""

from __future__ import annotations

import math

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import put_float, sum_error, to_float
from penstock.kernels.wides import (
    BASE,
    add_float,
    bottom,
    give_row,
    settle,
    take_double,
    take_row,
    to_double,
    top,
)

PAIR_BITS = 106
"""The sum of two doubles can represent every number with this many bits."""


@inlined
def add_pair(state: I64, g: int, at: int, value: float) -> bool:
    """Add a value to the pair at state[g, at : at + 2].

    Returns False and changes nothing if a bit would be lost, if the value is not finite, or if the
    sum is a row of digits.
    """
    head, tail = to_float(state[g, at]), to_float(state[g, at + 1])
    total = head + value
    error = sum_error(head, value, total)
    rest = tail + error
    # The smaller part comes back if no bit is lost; NaN (digits, an overflow) never does.
    if rest - tail != error or rest - error != tail:
        return False
    result = total + rest
    put_float(state, g, at, result)
    put_float(state, g, at + 1, rest - (result - total))
    return True


@kernel
def add_digits(state: I64, g: int, at: int, value: float, pool: I64) -> bool:
    """Add a finite value to a sum that is, or becomes, a row of digits.

    False if the pool is full.
    """
    if not widen(state, g, at, pool):
        return False
    add_float(pool, state[g, at + 1], value, 0)
    return True


@inlined
def is_wide(state: I64, g: int, at: int) -> bool:
    """Whether the sum is a row of digits."""
    head = to_float(state[g, at])
    return head != head


@kernel
def widen(state: I64, g: int, at: int, pool: I64) -> bool:
    """Convert the sum to a row of digits; returns False if the pool is full."""
    if is_wide(state, g, at):
        return True
    row = take_row(pool)
    if row == 0:
        return False
    add_float(pool, row, to_float(state[g, at]), 0)
    add_float(pool, row, to_float(state[g, at + 1]), 0)
    put_float(state, g, at, math.nan)
    state[g, at + 1] = row
    return True


@kernel
def read_digits(state: I64, g: int, at: int, pool: I64) -> float:
    """The double nearest to a sum that is a row of digits."""
    row = state[g, at + 1]
    some = settle(pool, row)
    total = to_double(pool, row, BASE) if some else 0.0
    if not some or (top(pool, row) - bottom(pool, row) <= PAIR_BITS and abs(total) < math.inf):
        narrow(state, g, at, 2, pool, BASE)
    return total


@kernel
def narrow(state: I64, g: int, at: int, words: int, pool: I64, base: int) -> None:
    """Convert the row of digits named in word at + 1 to `words` doubles, and free the row."""
    row = state[g, at + 1]
    for word in range(words):
        put_float(state, g, at + word, take_double(pool, row, base))
    give_row(pool, row)


@kernel
def clear_sums(pool: I64, state: I64, groups: I64, at: int) -> None:
    """Free the rows of digits of `groups`."""
    for i in range(groups.shape[0]):
        g = groups[i]
        if is_wide(state, g, at):
            give_row(pool, state[g, at + 1])
            state[g, at] = 0
            state[g, at + 1] = 0
