"""Aggregates that are sums: count, sum, avg and stddev, each one pass over the events.

Accumulator words: count n · wide n, low, high · float finite, NaN, +Inf, −Inf, head, tail ·
spread n, odd, Σx in two words, Σx² in three.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.delta import I64
from penstock.kernels.aggregates_events import GROUP, VALID, Events, Place, ask_group, show_null
from penstock.kernels.jit import kernel
from penstock.kernels.sums import (
    add_double,
    add_triple,
    add_wide,
    product_error,
    sample_variance,
    subtract_wide,
    to_bits,
    to_float,
    wide_fits,
    wide_float,
)

COUNT_WORDS, WIDE_WORDS, FLOAT_WORDS, SPREAD_WORDS = 1, 3, 6, 7
_HUGE = 1e140
"""Beyond this the square of a sum may overflow: such values are counted apart."""


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


@kernel
def update_float(state: I64, g: int, at: int, value: float, step: int) -> None:
    """Add (step 1) or take back (−1) a value of a float sum; NaN and infinities apart."""
    if value - value == 0.0:
        state[g, at] += step
        if state[g, at] == 0:
            state[g, at + 4] = 0
            state[g, at + 5] = 0
        else:
            add_double(state, g, at + 4, step * value)
    elif value != value:
        state[g, at + 1] += step
    elif value > 0:
        state[g, at + 2] += step
    else:
        state[g, at + 3] += step


@kernel
def float_total(state: I64, g: int, at: int) -> float:
    """The sum: NaN over both infinities over one over the finite sum."""
    nan, up, down = state[g, at + 1], state[g, at + 2], state[g, at + 3]
    if nan + up + down == 0:
        return to_float(state[g, at + 4])
    if nan > 0 or (up > 0 and down > 0):
        return math.nan
    return math.inf if up > 0 else -math.inf


@kernel
def float_pass(ev: Events, place: Place, state: I64, average: bool) -> None:
    """Sum or average of floats."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                update_float(state, words[e, GROUP], at, to_float(words[e, slot]), steps[e])
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            n = state[g, at] + state[g, at + 1] + state[g, at + 2] + state[g, at + 3]
            if n == 0:
                show_null(shown, t, agg)
            else:
                total = float_total(state, g, at)
                shown[t, 1 + agg] = to_bits(total / n if average else total)
            t += 1


@kernel
def update_spread(state: I64, g: int, at: int, value: float, step: int) -> None:
    """Add or take back a value of Σx and Σx²."""
    state[g, at] += step
    if not abs(value) < _HUGE:
        state[g, at + 1] += step
    elif state[g, at] != state[g, at + 1]:
        square = value * value
        add_double(state, g, at + 2, step * value)
        add_triple(state, g, at + 4, step * square)
        add_triple(state, g, at + 4, step * product_error(value, value, square))
    if state[g, at] == state[g, at + 1]:
        for word in range(2, SPREAD_WORDS):
            state[g, at + word] = 0


@kernel
def spread_pass(ev: Events, place: Place, state: I64, floats: bool, scale: float) -> None:
    """Sample standard deviation: NULL for fewer than two values, NaN when one is not finite."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                bits = words[e, slot]
                value = to_float(bits) if floats else float(bits)
                update_spread(state, words[e, GROUP], at, value, steps[e])
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            n = state[g, at]
            if n < 2:
                show_null(shown, t, agg)
            elif state[g, at + 1] > 0:
                shown[t, 1 + agg] = to_bits(np.nan)
            else:
                spread = math.sqrt(sample_variance(state, g, at + 2, at + 4, n))
                shown[t, 1 + agg] = to_bits(spread / scale)
            t += 1
