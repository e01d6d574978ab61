"""stddev: one pass over the events, as in `aggregates_sums.py`.

Accumulator words: n, not finite, exact Σx in two words, Σx² in three (`exact_spread.py`).
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
from penstock.kernels.exact_spread import (
    WORDS,
    Pools,
    add_digits,
    add_doubles,
    is_usual,
    quick_scatter,
    read_spread,
    spread_of,
)
from penstock.kernels.exact_sums import is_wide
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import to_bits, to_float

SPREAD_WORDS = 2 + WORDS


@inlined
def _is_odd(bits: int, floats: bool) -> bool:
    """Whether a value is not finite."""
    value = to_float(bits)
    return floats and value - value != 0.0


@kernel
def _doubles_pass(
    ev: Events, place: AggSlots, state: I64, floats: bool, scale: float, cursor: I64
) -> int:
    """Process sums that are doubles, from `cursor` to the first event or touch that needs digits.

    The loop contains no calls: a call with array arguments costs more than the addition.
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
                g, bits = words[e, GROUP], words[e, slot]
                if _is_odd(bits, floats):
                    state[g, at + 1] += steps[e]
                else:
                    value = to_float(bits) if floats else float(bits)
                    usual = is_usual(bits, floats)
                    if not usual or not add_doubles(state, g, at + 2, value, steps[e]):
                        stop = AT_EVENT
                        break
                state[g, at] += steps[e]
            e += 1
        while stop == DONE and t < touch_ends[m]:
            g = groups[t]
            n, odd = state[g, at], state[g, at + 1]
            scatter = quick_scatter(state, g, at + 2, n)
            if is_wide(state, g, at + 2) or (n > 1 and odd == 0 and scatter != scatter):
                stop = AT_TOUCH
                break
            if n < 2:
                show_null(shown, t, agg)
            else:
                spread = math.nan if odd > 0 else spread_of(scatter, n) / scale
                shown[t, 1 + agg] = to_bits(spread)
            t += 1
        m += stop == DONE
    cursor[INSTANT], cursor[EVENT], cursor[TOUCH] = m, e, t
    return stop


@kernel
def spread_pass(
    ev: Events, place: AggSlots, state: I64, floats: bool, scale: float, pools: Pools, cursor: I64
) -> bool:
    """Sample standard deviation: NULL for fewer than two values, NaN if one is not finite.

    Starts at `cursor`; returns False if a pool is full there.
    """
    at = place.at
    while True:
        stop = _doubles_pass(ev, place, state, floats, scale, cursor)
        if stop == DONE:
            return True
        if stop == AT_EVENT:
            e = cursor[EVENT]
            g, bits, step = ev.words[e, GROUP], ev.words[e, place.slot], ev.steps[e]
            if not add_digits(state, g, at + 2, bits, floats, step, pools):
                return False
            state[g, at] += step
            cursor[EVENT] += 1
        else:
            _show_digits(ev, place, state, cursor[TOUCH], scale, pools)
            cursor[TOUCH] += 1


@kernel
def _show_digits(
    ev: Events, place: AggSlots, state: I64, t: int, scale: float, pools: Pools
) -> None:
    """Show the value of touch t, computed from all digits."""
    g, at = ev.touch_groups[t], place.at
    n, odd = state[g, at], state[g, at + 1]
    spread = read_spread(state, g, at + 2, n - odd, pools)
    if n < 2:
        show_null(ev.shown, t, place.agg)
    else:
        ev.shown[t, 1 + place.agg] = to_bits(math.nan if odd > 0 else spread / scale)
