"""Aggregates of order: min, max and median, each one pass over the events.

The edge decides what is stored (DESIGN §5.3): the best value when rows never leave (words n, key),
a monotonic deque when they leave in order (`deque.py`), a multiset otherwise (its root). Numbers
are stored as keys in the wanted order; `flip` reverses the order, so that min becomes max.
"""

from __future__ import annotations

from penstock.arrays import I64
from penstock.kernels.aggregates_events import GROUP, VALID, AggSlots, Events, ask_group, show_null
from penstock.kernels.deque import FRONT, TOP, ask_neighbour, ask_node, leave, push, push_string
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import AHEAD, prefetch
from penstock.kernels.multiset import (
    SIZE,
    descend,
    descend_text,
    greatest,
    insert_key,
    least,
    nth,
    remove_key,
)
from penstock.kernels.strings import U8, compare_strings
from penstock.kernels.sums import float_order, to_bits, to_float

BEST_WORDS, TREE_WORDS = 2, 1
LEAST, GREATEST, MEDIAN = range(3)


@kernel
def to_key(bits: int, floats: bool, flip: bool) -> int:
    """Convert a value to an integer key of the wanted order."""
    key = float_order(bits) if floats else bits
    return ~key if flip else key


@kernel
def from_key(key: int, floats: bool, flip: bool) -> int:
    """The value of a key."""
    if flip:
        key = ~key
    return float_order(key) if floats else key


@kernel
def best_pass(
    ev: Events, place: AggSlots, state: I64, floats: bool, text: bool, flip: bool,
    starts: I64, lengths: I64, heap: U8,
) -> None:  # fmt: skip
    """Min or max of rows that never leave."""
    words, shown = ev.words, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1 and ev.steps[e] > 0:
                g, key = words[e, GROUP], words[e, slot]
                better = state[g, at] == 0
                if not text:
                    key = to_key(key, floats, flip)
                    better = better or key > state[g, at + 1]
                elif not better:
                    order = compare_strings(key, state[g, at + 1], starts, lengths, heap)
                    better = order < 0 if flip else order > 0
                if better:
                    state[g, at + 1] = key
                state[g, at] += 1
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            if state[g, at] == 0:
                show_null(shown, t, agg)
            elif text:
                shown[t, 1 + agg] = state[g, at + 1]
            else:
                shown[t, 1 + agg] = from_key(state[g, at + 1], floats, flip)
            t += 1


@inlined
def ask_deque(words: I64, steps: I64, e: int, state: I64, at: int, pool: I64) -> None:
    """Prefetch for later events: a deque for one, a node for a nearer one, then the next node."""
    last = words.shape[0] - 1
    far, near, next_ = min(e + 2 * AHEAD, last), min(e + AHEAD, last), min(e + AHEAD // 2, last)
    prefetch(state, words[far, GROUP], at)
    prefetch(state, words[far, GROUP], at + TOP)
    ask_node(pool, state, words[near, GROUP], at, steps[near] > 0)
    ask_neighbour(pool, state, words[next_, GROUP], at, steps[next_] > 0)


@kernel
def deque_pass(
    ev: Events, place: AggSlots, state: I64, pool: I64, floats: bool, flip: bool
) -> None:
    """Min or max of numbers; rows leave in order of arrival."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_deque(words, steps, e, state, at, pool)
            if (words[e, VALID] >> agg) & 1:
                g, key = words[e, GROUP], to_key(words[e, slot], floats, flip)
                if steps[e] > 0:
                    push(pool, state, g, at, key)
                elif steps[e] < 0:
                    leave(pool, state, g, at, key)
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            if state[g, at + FRONT] == 0:
                show_null(shown, t, agg)
            else:
                shown[t, 1 + agg] = from_key(state[g, at + TOP], floats, flip)
            t += 1


@kernel
def text_deque_pass(
    ev: Events, place: AggSlots, state: I64, pool: I64, flip: bool,
    starts: I64, lengths: I64, heap: U8,
) -> None:  # fmt: skip
    """Min or max of strings; rows leave in order of arrival."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_deque(words, steps, e, state, at, pool)
            if (words[e, VALID] >> agg) & 1:
                g, code = words[e, GROUP], words[e, slot]
                if steps[e] > 0:
                    push_string(pool, state, g, at, code, flip, starts, lengths, heap)
                elif steps[e] < 0:
                    leave(pool, state, g, at, code)
            e += 1
        while t < touch_ends[m]:
            g = groups[t]
            if state[g, at + FRONT] == 0:
                show_null(shown, t, agg)
            else:
                shown[t, 1 + agg] = state[g, at + TOP]
            t += 1


@kernel
def median_bits(pool: I64, root: int, floats: bool, scale: float) -> int:
    """The middle value, or the mean of the two in the middle, as a stored double."""
    n = pool[root, SIZE]
    low = nth(pool, root, (n - 1) >> 1)
    middle = to_float(float_order(low)) if floats else float(low)
    if n & 1 == 0:
        high = nth(pool, root, n >> 1)
        if high != low:
            other = to_float(float_order(high)) if floats else float(high)
            middle = 0.5 * middle + 0.5 * other
    return to_bits(middle / scale)


@kernel
def tree_pass(
    ev: Events, place: AggSlots, state: I64, pool: I64, want: int, floats: bool, text: bool,
    scale: float, starts: I64, lengths: I64, heap: U8, path: I64,
) -> None:  # fmt: skip
    """Min, max or median of rows that leave in any order."""
    words, steps, shown = ev.words, ev.steps, ev.shown
    agg, slot, at = place.agg, place.slot, place.at
    event_ends, touch_ends, groups = ev.event_ends, ev.touch_ends, ev.touch_groups
    e = t = 0
    for m in range(event_ends.shape[0]):
        while e < event_ends[m]:
            ask_group(words, e, state, at)
            if (words[e, VALID] >> agg) & 1:
                g, key = words[e, GROUP], to_key(words[e, slot], floats, False)
                root = state[g, at]
                if text:
                    depth = descend_text(pool, root, key, starts, lengths, heap, path)
                else:
                    depth = descend(pool, root, key, path)
                if steps[e] > 0:
                    state[g, at] = insert_key(pool, root, key, depth, path)
                elif steps[e] < 0:
                    state[g, at] = remove_key(pool, root, depth, path)
            e += 1
        while t < touch_ends[m]:
            root = state[groups[t], at]
            if root == 0:
                show_null(shown, t, agg)
            elif want == LEAST:
                shown[t, 1 + agg] = from_key(least(pool, root), floats, False)
            elif want == GREATEST:
                shown[t, 1 + agg] = from_key(greatest(pool, root), floats, False)
            else:
                shown[t, 1 + agg] = median_bits(pool, root, floats, scale)
            t += 1
