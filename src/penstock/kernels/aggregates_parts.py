"""Exact sums in two levels: the parts of a shard's sum, and the sum of such parts.

A partial sum is four words, three doubles and a shift: the sum is (a + b + c) · 2^shift. The sum of
up to 2⁴⁰ values of one magnitude (`MAGNITUDE_BITS` binary orders) fits three doubles. A shift is
needed only beyond the range of doubles. NaN and infinities are stored in the first double.
"""

from __future__ import annotations

import math

from penstock.arrays import I64
from penstock.kernels.aggregates_events import (
    EVENT,
    GROUP,
    INSTANT,
    TOUCH,
    VALID,
    AggSlots,
    Events,
    ask_group,
)
from penstock.kernels.aggregates_sums import odd_word, show_float
from penstock.kernels.exact_sums import add_digits, add_pair, is_wide, read_digits, widen
from penstock.kernels.jit import kernel
from penstock.kernels.sums import to_bits, to_float
from penstock.kernels.wides import BASE, FREE, USED, add_float, nearest, settle

PART_WORDS = 4
MAGNITUDE_BITS = 64
_SHIFT = 64
"""Scales the sum of 2⁶³ doubles back into their range."""


@kernel
def show_parts(state: I64, g: int, at: int, pool: I64, shown: I64, t: int, agg: int) -> None:
    """Show the last three words of the sum of touch t."""
    for word in range(1, PART_WORDS):
        shown[t, 1 + agg + word] = 0
    if (shown[t, 0] >> agg) & 1:
        shown[t, 0] |= ((1 << PART_WORDS) - 1) << agg
    elif state[g, at + 1] + state[g, at + 2] + state[g, at + 3] != 0:
        return
    elif is_wide(state, g, at + 4):
        _show_digits(pool, state[g, at + 5], shown, t, agg)
    else:
        shown[t, 2 + agg] = to_bits(to_float(state[g, at + 5]))


@kernel
def _show_digits(pool: I64, row: int, shown: I64, t: int, agg: int) -> None:
    """Show the sum as three doubles, each nearest to the rest; then restore the sum."""
    shift = _SHIFT if abs(to_float(shown[t, 1 + agg])) == math.inf else 0
    for word in range(3):
        mantissa, place = nearest(pool, row)
        value = math.ldexp(mantissa, place + BASE - shift)
        shown[t, 1 + agg + word] = to_bits(value)
        add_float(pool, row, -value, shift)
        settle(pool, row)
    for word in range(3):
        add_float(pool, row, to_float(shown[t, 1 + agg + word]), shift)
    shown[t, 4 + agg] = shift
    settle(pool, row)


@kernel
def parts_pass(
    ev: Events, place: AggSlots, state: I64, merges: bool, pool: I64, cursor: I64
) -> bool:  # fmt: skip
    """Show sums of doubles in parts, or (`merges`) sums of such parts, from `cursor` on.

    Returns False if the pool is full at the new cursor.
    """
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, at = place.agg, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e, t = cursor[EVENT], cursor[TOUCH]
    for m in range(cursor[INSTANT], event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and steps[e] != 0:
                if not _has_room(pool):
                    cursor[INSTANT], cursor[EVENT], cursor[TOUCH] = m, e, t
                    return False
                g, word = words[e, GROUP], odd_word(to_float(words[e, place.slot]))
                if word == 0:
                    _add_parts(state, g, at + 4, words, e, place.slot, steps[e], merges, pool)
                state[g, at + word] += steps[e]
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            wide = is_wide(state, g, at + 4)
            finite = read_digits(state, g, at + 4, pool) if wide else to_float(state[g, at + 4])
            show_float(state, g, at, finite, False, shown, t, agg)
            if not merges:
                show_parts(state, g, at, pool, shown, t, agg)
            t += 1
    return True


@kernel
def _has_room(pool: I64) -> bool:
    """Whether the pool has room for one more row of digits."""
    return pool[0, FREE] != 0 or pool[0, USED] + 1 < pool.shape[0]


@kernel
def _add_parts(
    state: I64, g: int, at: int, words: I64, e: int, slot: int, step: int, merges: bool, pool: I64
) -> None:
    """Add or subtract the value, or the part, of entry e; the pool must have room."""
    shift = words[e, slot + 3] if merges else 0
    for word in range(3 if merges else 1):
        value = step * to_float(words[e, slot + word])
        if shift != 0:
            widen(state, g, at, pool)
            add_float(pool, state[g, at + 1], value, shift)
        elif value != 0.0 and not add_pair(state, g, at, value):
            add_digits(state, g, at, value, pool)
