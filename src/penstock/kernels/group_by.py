"""The frame of GROUP BY: entries of rows, events split into instants, net changes of groups.

Rule 4 of Golab & Özsu (2005, §5.2): the result is an array indexed by group; new rows replace old
ones. Between `merge_events` and `settle`, each aggregate makes its pass (`aggregates_*.py`). Group
ids are recycled only after the step.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64, NEVER
from penstock.kernels.aggregates_events import (
    ARGS,
    GROUP,
    LIVE,
    NULLS,
    ROWS,
    STAMP,
    VALID,
    Events,
    ask_group,
)
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import AHEAD, prefetch

SAME, APPEARS, VANISHES, REPLACED = 0, 1, -1, 2
"""The effects of a touch."""
VACANT = -1
"""The stamp of a group that will be removed."""


@kernel
def make_entries(
    rows: I64, groups: I64, arguments: I64, agg_columns: I64, filters: I64, width: int
) -> I64:
    """Make entries (row-major, `width` words) of input rows; words of distinct values stay 0.

    `arguments` are the columns stored as argument words. `agg_columns` and `filters` have for each
    aggregate its argument column and its filter column, −1 for none.
    """
    n, aggs = rows.shape[1], agg_columns.shape[0]
    out = np.zeros((n, width), np.int64)
    every = (1 << aggs) - 1
    some_filter = False
    for a in range(aggs):
        some_filter = some_filter or filters[a] >= 0
    for i in range(n):
        nulls = rows[0, i]
        valid = every
        if some_filter or nulls != 0:
            for a in range(aggs):
                column, condition = agg_columns[a], filters[a]
                null = column >= 0 and (nulls >> column) & 1
                if condition >= 0:
                    null = null or (nulls >> condition) & 1 or rows[1 + condition, i] == 0
                if null:
                    valid &= ~(1 << a)
        out[i, GROUP] = groups[i]
        out[i, VALID] = valid
        for k in range(arguments.shape[0]):
            out[i, ARGS + k] = rows[1 + arguments[k], i]
    return out


@inlined
def _change(sign: int, rows: int) -> int:
    """The change of a group's row count by an arrival; a removal from an empty group is none."""
    if sign < 0:
        return 0 if rows == 0 else -1
    return 1 if sign > 0 else 0


@inlined
def _touch_all(seeds: I64, stamp: int, state: I64, groups: I64, t: int) -> int:
    """Touch groups in an instant that begins; the number of touches so far."""
    for k in range(seeds.shape[0]):
        state[seeds[k], STAMP] = stamp
        groups[t + k] = seeds[k]
    return t + seeds.shape[0]


@inlined
def _unshown(touches: int, aggs: int) -> I64:
    """Room for the values of each touch, none of them NULL."""
    shown = np.empty((touches, 1 + aggs), np.int64)
    shown[:, 0] = 0
    return shown


@kernel
def merge_events(
    expire_ts: I64, expired: I64, ts: I64, sign: I8, arrived: I64, seed_ts: int, seeds: I64,
    state: I64, stamp: int, aggs: int,
) -> tuple[Events, I64, I64, int]:  # fmt: skip
    """Merge the events of a step by time, expirations first, and find the groups of each instant.

    Updates the row counts of groups. Seeds are groups that are touched at `seed_ts` in any case.
    Returns the events, the time and row count of each touch, and the last stamp.
    """
    n_expired, n_arrived, width = expire_ts.shape[0], ts.shape[0], arrived.shape[1]
    n, most = n_expired + n_arrived, n_expired + n_arrived + seeds.shape[0]
    words, steps = np.empty((n, width), np.int64), np.empty(n, np.int64)
    event_ends, touch_ends = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    groups, times = np.empty(most, np.int64), np.empty(most, np.int64)
    counts = np.empty(most, np.int64)
    i = j = t = m = settled = 0
    now, seeded = -NEVER, seeds.shape[0] == 0
    stamp += 1
    while True:
        if i < n_expired and expire_ts[i] == now:
            ask_group(expired, i, state, ROWS)
            g, step = expired[i, GROUP], -1
            for c in range(width):
                words[i + j, c] = expired[i, c]
            i += 1
        elif j < n_arrived and ts[j] == now:
            ask_group(arrived, j, state, ROWS)
            g = arrived[j, GROUP]
            step = _change(sign[j], state[g, ROWS])
            for c in range(width):
                words[i + j, c] = arrived[j, c]
            j += 1
        else:
            if t > settled:  # the instant is over
                for k in range(settled, t):
                    times[k], counts[k] = now, state[groups[k], ROWS]
                event_ends[m], touch_ends[m] = i + j, t
                m += 1
                stamp += 1
                settled = t
            if seeded and i + j == n:
                break
            now = NEVER if seeded else seed_ts
            now = min(
                now, expire_ts[i] if i < n_expired else NEVER, ts[j] if j < n_arrived else NEVER
            )
            if not seeded and now == seed_ts:
                t, seeded = _touch_all(seeds, stamp, state, groups, t), True
            continue
        steps[i + j - 1] = step
        if step != 0:
            state[g, ROWS] += step
            if state[g, STAMP] != stamp:
                state[g, STAMP] = stamp
                groups[t] = g
                t += 1
    events = Events(words, steps, event_ends[:m], touch_ends[:m], groups[:t], _unshown(t, aggs))
    return events, times, counts, stamp


@kernel
def settle(
    ev: Events, counts: I64, always: bool, state: I64, old: I64, change: I8, empty: I64
) -> tuple[int, int]:
    """Write the effect of each touch to `change`, and the row that it replaces to `old`.

    With `always`, no group vanishes. Groups without rows are written to `empty`. Returns the
    numbers of output rows and of empty groups.
    """
    width = ev.shown.shape[1]
    outputs = n_empty = 0
    touches = ev.touch_groups.shape[0]
    for t in range(touches):
        prefetch(state, ev.touch_groups[min(t + AHEAD, touches - 1)], LIVE)
        g = ev.touch_groups[t]
        live = state[g, LIVE] != 0
        change[t] = REPLACED if live else APPEARS
        if counts[t] == 0 and not always:
            empty[n_empty] = g
            n_empty += 1
            change[t] = VANISHES if live else SAME
            state[g, LIVE] = 0
            if not live:
                continue
        else:
            state[g, LIVE] = 1
        same = change[t] == REPLACED
        for c in range(width):
            old[t, c] = state[g, NULLS + c]
            same = same and old[t, c] == ev.shown[t, c]
            state[g, NULLS + c] = ev.shown[t, c]
        if same:
            change[t] = SAME
        else:
            outputs += 2 if change[t] == REPLACED else 1
    return outputs, n_empty


@kernel
def expand_changes(
    ev: Events, times: I64, old: I64, change: I8, outputs: int, keys: I64
) -> tuple[I64, I64, I8, I64]:
    """Expand changes to signed rows (column-major), ts, sign, lin.

    `keys` has lin, NULLs, values.
    """
    key_width, width = keys.shape[1] - 2, ev.shown.shape[1]
    rows = np.empty((key_width + width, outputs), np.int64)
    ts = np.empty(outputs, np.int64)
    sign = np.empty(outputs, np.int8)
    lin = np.empty(outputs, np.int64)
    at = 0
    touches = ev.touch_groups.shape[0]
    for t in range(touches):
        prefetch(keys, ev.touch_groups[min(t + AHEAD, touches - 1)], 0)
        kind, g = change[t], ev.touch_groups[t]
        if kind == VANISHES or kind == REPLACED:
            sign[at] = -2 if kind == REPLACED else -1
            ts[at] = times[t]
            lin[at] = keys[g, 0]
            rows[0, at] = keys[g, 1] | (old[t, 0] << key_width)
            for c in range(key_width):
                rows[1 + c, at] = keys[g, 2 + c]
            for c in range(1, width):
                rows[key_width + c, at] = old[t, c]
            at += 1
        if kind == APPEARS or kind == REPLACED:
            sign[at] = kind
            ts[at] = times[t]
            lin[at] = keys[g, 0]
            rows[0, at] = keys[g, 1] | (ev.shown[t, 0] << key_width)
            for c in range(key_width):
                rows[1 + c, at] = keys[g, 2 + c]
            for c in range(1, width):
                rows[key_width + c, at] = ev.shown[t, c]
            at += 1
    return rows, ts, sign, lin


@kernel
def find_vacant(ids: I64, state: I64) -> I64:
    """The distinct `ids` that have no rows and show none."""
    out = np.empty(ids.shape[0], np.int64)
    n = 0
    for i in range(ids.shape[0]):
        g = ids[i]
        if state[g, ROWS] == 0 and state[g, LIVE] == 0 and state[g, STAMP] != VACANT:
            state[g, STAMP] = VACANT
            out[n] = g
            n += 1
    return out[:n]


@kernel
def clear_rows(ids: I64, state: I64) -> None:
    """Reset the state rows of `ids`."""
    for i in range(ids.shape[0]):
        for c in range(state.shape[1]):
            state[ids[i], c] = 0


@kernel
def show_rows(groups: I64, state: I64, keys: I64, aggs: int) -> I64:
    """The shown rows of `groups`, column-major."""
    n, key_width = groups.shape[0], keys.shape[1] - 2
    rows = np.empty((1 + key_width + aggs, n), np.int64)
    for i in range(n):
        g = groups[i]
        rows[0, i] = keys[g, 1] | (state[g, NULLS] << key_width)
        for c in range(key_width):
            rows[1 + c, i] = keys[g, 2 + c]
        for c in range(aggs):
            rows[1 + key_width + c, i] = state[g, NULLS + 1 + c]
    return rows
