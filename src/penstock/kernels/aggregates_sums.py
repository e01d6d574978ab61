"""Aggregates that are sums: count, sum and avg, each one pass over the events.

Accumulator words: count n · wide n, low, high · float finite, NaN, +Inf, −Inf, exact sum in two.
"""

from __future__ import annotations

import math

from penstock.arrays import I64
from penstock.kernels.aggregates_events import (
    AT_EVENT,
    AT_TOUCH,
    DONE,
    EVENT,
    GROUP,
    INSTANT,
    TOUCH,
    VALID,
    AggSlots,
    Events,
    ask_group,
    show_null,
)
from penstock.kernels.exact_sums import add_digits, add_pair, is_wide, read_digits
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import (
    add_wide,
    subtract_wide,
    to_bits,
    to_float,
    wide_fits,
    wide_float,
)

COUNT_WORDS, WIDE_WORDS, FLOAT_WORDS = 1, 3, 6


@kernel
def count_pass(ev: Events, place: AggSlots, state: I64) -> None:
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
    ev: Events, place: AggSlots, state: I64, average: bool, scale: float, bound: int, failed: I64
) -> int:
    """Sum or average of integers or decimals; the largest valid magnitude is `bound` (0: BIGINT).

    Writes the groups with a sum that does not fit to `failed` and returns their number.
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
def odd_word(value: float) -> int:
    """The word that counts a value: finite, NaN, +Inf or −Inf."""
    if value - value == 0.0:
        return 0
    if value != value:
        return 1
    return 2 if value > 0 else 3


@inlined
def shown_total(finite: float, nan: int, up: int, down: int) -> float:
    """The sum: NaN if there is one or both infinities, else an infinity, else the finite sum."""
    if nan + up + down == 0:
        return finite
    if nan > 0 or (up > 0 and down > 0):
        return math.nan
    return math.inf if up > 0 else -math.inf


@inlined
def show_float(
    state: I64, g: int, at: int, finite: float, average: bool, shown: I64, t: int, agg: int
) -> None:
    """Show a sum or average."""
    nan, up, down = state[g, at + 1], state[g, at + 2], state[g, at + 3]
    n = state[g, at] + nan + up + down
    if n == 0:
        show_null(shown, t, agg)
    else:
        total = shown_total(finite, nan, up, down)
        shown[t, 1 + agg] = to_bits(total / n if average else total)


@kernel
def _pairs_pass(ev: Events, place: AggSlots, state: I64, average: bool, cursor: I64) -> int:
    """Process sums that are pairs of doubles, up to the first event or touch of another sum.

    Starts at `cursor`. The loop contains no calls: a call with array arguments costs more than the
    addition.
    """
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e, t = cursor[EVENT], cursor[TOUCH]
    m, stop = cursor[INSTANT], DONE
    while stop == DONE and m < event_ends.shape[0]:
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                g, value = words[e, GROUP], to_float(words[e, slot])
                word = 0
                if not add_pair(state, g, at + 4, steps[e] * value):
                    word = odd_word(value)
                    if word == 0:
                        stop = AT_EVENT
                        break
                state[g, at + word] += steps[e]
            e += 1
        while stop == DONE and t < touch_ends[m]:
            g = groups[t]
            if is_wide(state, g, at + 4):
                stop = AT_TOUCH
                break
            show_float(state, g, at, to_float(state[g, at + 4]), average, shown, t, agg)
            t += 1
        m += stop == DONE
    cursor[INSTANT], cursor[EVENT], cursor[TOUCH] = m, e, t
    return stop


@kernel
def float_pass(
    ev: Events, place: AggSlots, state: I64, average: bool, pool: I64, cursor: I64
) -> bool:  # fmt: skip
    """Sum or average of floats, from `cursor` on; returns False if the pool is full there."""
    agg, at = place.agg, place.at
    while True:
        stop = _pairs_pass(ev, place, state, average, cursor)
        if stop == DONE:
            return True
        if stop == AT_EVENT:
            e = cursor[EVENT]
            g, value = ev.words[e, GROUP], to_float(ev.words[e, place.slot])
            if not add_digits(state, g, at + 4, ev.steps[e] * value, pool):
                return False
            state[g, at] += ev.steps[e]
            cursor[EVENT] += 1
        else:
            g = ev.touch_groups[cursor[TOUCH]]
            finite = read_digits(state, g, at + 4, pool)
            show_float(state, g, at, finite, average, ev.shown, cursor[TOUCH], agg)
            cursor[TOUCH] += 1
