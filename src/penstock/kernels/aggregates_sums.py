"""Aggregates that are sums: count, sum, avg and stddev, each one pass over the events.

Accumulator words: count n · wide n, low, high · float finite, NaN, +Inf, −Inf, exact sum in two ·
spread n, not finite, exact Σx in two words, Σx² in three.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.delta import I64
from penstock.kernels.aggregates_events import GROUP, VALID, Events, Place, ask_group, show_null
from penstock.kernels.exact_spread import Pools, add_spread, read_spread
from penstock.kernels.exact_spread import WORDS as EXACT_SPREAD_WORDS
from penstock.kernels.exact_sums import add_exact, read_exact
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import (
    add_wide,
    subtract_wide,
    to_bits,
    to_float,
    wide_fits,
    wide_float,
)

COUNT_WORDS, WIDE_WORDS, FLOAT_WORDS, SPREAD_WORDS = 1, 3, 6, 2 + EXACT_SPREAD_WORDS
INSTANT, EVENT, TOUCH = range(3)
"""Where a pass stopped because a pool was full, and goes on when it has room."""


@kernel
def count_pass(ev: Events, place: Place, state: I64) -> None:
    """Rows that count."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, at = place.agg, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1:
                state[words[e, GROUP], at] += steps[e]
            e += 1
        while t < touch_ends[m]:
            shown[t, 1 + agg] = state[groups[t], at]
            t += 1


@kernel
def wide_pass(
    ev: Events, place: Place, state: I64, average: bool, scale: float, bound: int, failed: I64
) -> int:
    """Sum (magnitude at most `bound`; 0: any BIGINT) or average of integers or decimals.

    Groups whose sum cannot be shown go to `failed`; returns how many.
    """
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = n_failed = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1:
                g = words[e, GROUP]
                state[g, at] += steps[e]
                if steps[e] > 0:
                    add_wide(state, g, at + 1, words[e, slot])
                elif steps[e] < 0:
                    subtract_wide(state, g, at + 1, words[e, slot])
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            if state[g, at] == 0:
                show_null(shown, t, agg)
            elif average:
                total = wide_float(state, g, at + 1)
                shown[t, 1 + agg] = to_bits(total / state[g, at] / scale)
            elif wide_fits(state, g, at + 1, bound):
                shown[t, 1 + agg] = state[g, at + 1]
            else:
                show_null(shown, t, agg)
                failed[n_failed] = g
                n_failed += 1
            t += 1
    return n_failed


@inlined
def update_float(state: I64, g: int, at: int, value: float, step: int, pool: I64) -> bool:
    """Add (step 1) or take back (−1) a value of a float sum; NaN and infinities apart.

    False, and nothing is changed: the pool is full.
    """
    word = 0
    if value - value == 0.0:
        if not add_exact(state, g, at + 4, step * value, pool):
            return False
    elif value != value:
        word = 1
    else:
        word = 2 if value > 0 else 3
    state[g, at + word] += step
    return True


@inlined
def float_total(state: I64, g: int, at: int, pool: I64) -> float:
    """The sum: NaN over both infinities over one over the finite sum."""
    nan, up, down = state[g, at + 1], state[g, at + 2], state[g, at + 3]
    finite = read_exact(state, g, at + 4, pool)
    if nan + up + down == 0:
        return finite
    if nan > 0 or (up > 0 and down > 0):
        return math.nan
    return math.inf if up > 0 else -math.inf


@kernel
def float_pass(
    ev: Events, place: Place, state: I64, average: bool, pool: I64, cursor: I64
) -> bool:  # fmt: skip
    """Sum or average of floats, from `cursor` on; False: the pool is full there."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e, t = cursor[EVENT], cursor[TOUCH]
    for m in range(cursor[INSTANT], event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                value = to_float(words[e, slot])
                if not update_float(state, words[e, GROUP], at, value, steps[e], pool):
                    cursor[INSTANT], cursor[EVENT], cursor[TOUCH] = m, e, t
                    return False
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            n = state[g, at] + state[g, at + 1] + state[g, at + 2] + state[g, at + 3]
            total = float_total(state, g, at, pool)
            if n == 0:
                show_null(shown, t, agg)
            else:
                shown[t, 1 + agg] = to_bits(total / n if average else total)
            t += 1
    return True


@kernel
def spread_pass(
    ev: Events, place: Place, state: I64, floats: bool, scale: float, pools: Pools, cursor: I64
) -> bool:
    """Sample standard deviation: NULL for fewer than two values, NaN when one is not finite.

    From `cursor` on; False: a pool is full there.
    """
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e, t = cursor[EVENT], cursor[TOUCH]
    for m in range(cursor[INSTANT], event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                g, bits, step = words[e, GROUP], words[e, slot], steps[e]
                value = to_float(bits)
                if floats and value - value != 0.0:
                    state[g, at + 1] += step
                elif not add_spread(state, g, at + 2, bits, floats, step, pools):
                    cursor[INSTANT], cursor[EVENT], cursor[TOUCH] = m, e, t
                    return False
                state[g, at] += step
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            n, odd = state[g, at], state[g, at + 1]
            spread = read_spread(state, g, at + 2, n - odd, pools)
            if n < 2:
                show_null(shown, t, agg)
            else:
                shown[t, 1 + agg] = to_bits(np.nan if odd > 0 else spread / scale)
            t += 1
    return True
