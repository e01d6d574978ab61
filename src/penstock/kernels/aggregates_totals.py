"""Aggregates of pairs that come as totals: each input row is the change of a count and of sums.

The words of a sum are how many values, high and low: the sum is high · 2³² + low. Accumulators and
what is shown are those of `aggregates_sums`.
"""

from __future__ import annotations

from penstock.arrays import I64
from penstock.kernels.aggregates_events import GROUP, AggSlots, Events, ask_group, show_null
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.sums import HIGH, LOW, TOP_BIT, to_bits, wide_fits, wide_float

_HALF = 32


@inlined
def _add_unsigned(state: I64, g: int, at: int, value: int) -> None:
    """Add the 64 bits of a value to the low word of a 128-bit sum, and carry."""
    low = state[g, at + LOW]
    total = low + value
    state[g, at + LOW] = total
    state[g, at + HIGH] += 1 if (total ^ TOP_BIT) < (low ^ TOP_BIT) else 0


@inlined
def _add_halves(state: I64, g: int, at: int, high: int, low: int) -> None:
    """Add high · 2³² + low to a 128-bit sum."""
    _add_unsigned(state, g, at, high << _HALF)
    state[g, at + HIGH] += high >> _HALF
    _add_unsigned(state, g, at, low)
    state[g, at + HIGH] += low >> 63


@kernel
def count_totals_pass(ev: Events, place: AggSlots, state: I64) -> None:
    """Add counts."""
    words, shown = ev.words, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            state[words[e, GROUP], at] += words[e, slot]
            e += 1
        while t < touch_ends[m]:
            shown[t, 1 + agg] = state[groups[t], at]
            t += 1


@kernel
def sum_totals_pass(
    ev: Events, place: AggSlots, state: I64, average: bool, scale: float, bound: int, failed: I64
) -> int:
    """Sum or average of integers or decimals, as `wide_pass` shows them.

    Writes the groups with a sum that does not fit to `failed` and returns their number.
    """
    words, shown = ev.words, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = n_failed = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            g = words[e, GROUP]
            state[g, at] += words[e, slot]
            _add_halves(state, g, at + 1, words[e, slot + 1], words[e, slot + 2])
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
