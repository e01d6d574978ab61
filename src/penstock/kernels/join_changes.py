"""The window join that computes its deletions: arrivals and expirations in one pass (Ghanem §4).

If the logs of both sides are in order of `exp`, the next rows of each log leave next. A row that
leaves probes the other side as an arriving row does: its results that are still alive leave with
it, so no operator has to store results. Pairs come in the order of the
changelog: at each instant expirations (left before right), then retractions, then arrivals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I64
from penstock.kernels.jit import kernel
from penstock.kernels.join import (
    COLUMNS,
    I32,
    LEFT_TAGGED,
    LIN,
    REMOVED,
    RIGHT_TAGGED,
    Chains,
    Events,
    Test,
    fits,
    goes_first,
    null_words,
    retract,
    take,
    walk_any,
    walk_ordered,
)

EVENT, PAIRS, LEFT_FIRST, RIGHT_FIRST = 0, 1, 2, 3
"""Marks of a pass: the next event, pairs found, the first row of each side that has not left."""
LEFT, RIGHT, LEFT_DUE, RIGHT_DUE = 0, 1, 2, 3
_MAX = np.iinfo(np.int64).max


class Line(NamedTuple):
    """Events of four streams (arrivals left and right, then rows that leave), one after another.

    `order` lists them by time: position · 4 + stream.
    """

    order: I64
    ts: I64
    ids: I64
    slots: I64


class Asked(NamedTuple):
    """Inputs of a test for the events of a line: banded value, lineage, sign, chains to probe."""

    values: I64
    lin: I64
    sign: I8
    probes: I64


class Pairs(NamedTuple):
    """Left slot, right slot, time and sign of each pair."""

    left: I32
    right: I32
    ts: I64
    sign: I8


@kernel
def line_up(
    left: I64, right: I64, left_sign: I8, right_sign: I8, left_due: I64, right_due: I64,
    right_first: bool,
) -> I64:  # fmt: skip
    """The order of events with the given times and signs, each stream in order of time."""
    nl, nr, ml, mr = left.shape[0], right.shape[0], left_due.shape[0], right_due.shape[0]
    out = np.empty(nl + nr + ml + mr, np.int64)
    i, j, p, q = 0, 0, 0, 0
    for k in range(out.shape[0]):
        l_next, r_next = left[i] if i < nl else _MAX, right[j] if j < nr else _MAX
        l_gone, r_gone = left_due[p] if p < ml else _MAX, right_due[q] if q < mr else _MAX
        if p + q < ml + mr and min(l_gone, r_gone) <= min(l_next, r_next):
            if l_gone <= r_gone and p < ml:
                out[k] = 4 * (nl + nr + p) + LEFT_DUE
                p += 1
            else:
                out[k] = 4 * (nl + nr + ml + q) + RIGHT_DUE
                q += 1
        elif j == nr or (
            i < nl and goes_first(l_next, left_sign[i], r_next, right_sign[j], right_first)
        ):
            out[k] = 4 * i + LEFT
            i += 1
        else:
            out[k] = 4 * (nl + j) + RIGHT
            j += 1
    return out


@kernel
def pair_plain(
    line: Line, l_next: I32, l_head: I32, r_next: I32, r_head: I32, out: Pairs, marks: I64
) -> bool:  # fmt: skip
    """Pairs on equality alone, while nothing is retracted; False when there is no room left.

    Then `marks` tell where to go on: an event changes state only when its pairs are there.
    """
    order, all_ts, ids, slots = line.order, line.ts, line.ids, line.slots
    a, b, times, signs = out.left, out.right, out.ts, out.sign
    n, l_first, r_first = marks[PAIRS], marks[LEFT_FIRST], marks[RIGHT_FIRST]
    room = a.shape[0]
    for k in range(marks[EVENT], order.shape[0]):
        stream, at = order[k] & 3, order[k] >> 2
        chain, slot, ts = ids[at], slots[at], all_ts[at]
        start = n
        sign = np.int8(1 if stream < LEFT_DUE else -1)
        if stream == LEFT or stream == LEFT_DUE:
            skipped = chain < 0 or (stream == LEFT_DUE and l_next[slot] == REMOVED)
            row = np.int32(-1) if skipped else r_head[chain]
            while row >= r_first and n < room:
                a[n], b[n], times[n], signs[n] = slot, row, ts, sign
                n += 1
                row = r_next[row]
            if row < r_first:
                if stream == LEFT_DUE:
                    l_first = slot + 1
                elif not skipped:
                    l_next[slot] = l_head[chain]
                    l_head[chain] = slot
                continue
        else:
            skipped = chain < 0 or (stream == RIGHT_DUE and r_next[slot] == REMOVED)
            row = np.int32(-1) if skipped else l_head[chain]
            while row >= l_first and n < room:
                a[n], b[n], times[n], signs[n] = row, slot, ts, sign
                n += 1
                row = l_next[row]
            if row < l_first:
                if stream == RIGHT_DUE:
                    r_first = slot + 1
                elif not skipped:
                    r_next[slot] = r_head[chain]
                    r_head[chain] = slot
                continue
        marks[EVENT], marks[PAIRS] = k, start
        marks[LEFT_FIRST], marks[RIGHT_FIRST] = l_first, r_first
        return False
    marks[EVENT], marks[PAIRS] = order.shape[0], n
    return True


@kernel
def _partners(
    chain: int, at: int, is_left: bool, alive_after: int, other: Chains, first: int, asked: Asked,
    test: Test, out: I32,
) -> int:  # fmt: skip
    """Rows of the other side that the event at `at` pairs with, in `out`; −1 when it is full."""
    n = 0
    for p in range(max(1, asked.probes.shape[1])):
        probed = asked.probes[at, p] if asked.probes.shape[1] else chain
        if probed < 0:
            continue
        if other.ordered:
            n = walk_ordered(other.head[probed], first, other.next, out, n)
        else:
            n = walk_any(probed, alive_after, other.head, other.next, other.exp, out, n)
        if n < 0:
            return n
    if n and (test.kind or test.tagged):
        n = fits(asked.values[at], asked.lin[at], is_left, other.state, 0, out, n, test)
    return n


@kernel
def pair_any(
    line: Line, left: Events, right: Events, asked: Asked, ls: Chains, rs: Chains, test: Test,
    out: Pairs, marks: I64,
) -> bool:  # fmt: skip
    """As `pair_plain`, with bands, lineage, retractions, and logs that are not in order."""
    order, n = line.order, marks[PAIRS]
    a, b, times, signs = out.left, out.right, out.ts, out.sign
    l_first, r_first = marks[LEFT_FIRST], marks[RIGHT_FIRST]
    found = np.empty(a.shape[0], np.int32)
    for k in range(marks[EVENT], order.shape[0]):
        stream, at = order[k] & 3, order[k] >> 2
        chain, slot, ts = line.ids[at], line.slots[at], line.ts[at]
        is_left, leaves = stream == LEFT or stream == LEFT_DUE, stream >= LEFT_DUE
        own, other = (ls, rs) if is_left else (rs, ls)
        skipped = chain < 0 or (leaves and own.next[slot] == REMOVED)
        alive_after = ts - (1 if stream == LEFT_DUE else 0)  # left goes before right
        partners = 0
        if not skipped:
            first = r_first if is_left else l_first
            partners = _partners(chain, at, is_left, alive_after, other, first, asked, test, found)
        if partners < 0 or n + partners > a.shape[0]:
            marks[EVENT], marks[PAIRS] = k, n
            marks[LEFT_FIRST], marks[RIGHT_FIRST] = l_first, r_first
            return False
        sign = -1
        if stream == LEFT_DUE:
            l_first = slot + 1
        elif stream == RIGHT_DUE:
            r_first = slot + 1
        elif not skipped and asked.sign[at] < 0:
            slot = retract(left, at, ls) if is_left else retract(right, at - left.ts.shape[0], rs)
        elif not skipped:
            own.next[slot] = own.head[chain]
            own.head[chain] = slot
            sign = 1
        if slot >= 0:
            for p in range(partners):
                a[n], b[n] = (slot, found[p]) if is_left else (found[p], slot)
                times[n], signs[n] = ts, sign
                n += 1
    marks[EVENT], marks[PAIRS] = order.shape[0], n
    return True


@kernel
def gather_changes(
    pairs: Pairs, ls: Chains, rs: Chains, tagged: int, columns: I64, nulls: bool, epoch: int
) -> tuple[I64, I64]:
    """The chosen columns of all pairs, column-major, and their lineage.

    Without `nulls` no stored row has a NULL; an `epoch` ≥ 0 serves all pairs.
    """
    left, right, a, b = ls.state, rs.state, pairs.left, pairs.right
    n, wl = a.shape[0], left.shape[1] - COLUMNS
    rows = np.empty((1 + columns.shape[0], n), np.int64)
    lin = np.empty(n, np.int64)
    if tagged == LEFT_TAGGED:
        take(left, a, LIN, lin)
    elif tagged == RIGHT_TAGGED:
        take(right, b, LIN, lin)
    elif epoch >= 0:
        lin[:] = epoch
    else:
        for k in range(n):
            lin[k] = min(left[a[k], LIN], right[b[k], LIN])
    if nulls:
        null_words(left, right, a, b, columns, rows[0])
    else:
        rows[0] = 0
    for j in range(columns.shape[0]):
        if columns[j] < wl:
            take(left, a, COLUMNS + columns[j], rows[1 + j])
        else:
            take(right, b, COLUMNS + columns[j] - wl, rows[1 + j])
    return rows, lin
