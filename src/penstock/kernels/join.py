"""Window-join kernels: one pass over the merged events of both sides, one pass that gathers.

A side is a log of rows: `exp`, row-major `state` [lin, NULL bits, columns…] and chains, newest
row first (`head`, `next`: 32 bits each, so that walks stay in cache). Rows of a batch are appended
before the pass and become visible when their event links them, so a pair is found once, by its
later part (Ghanem §5.5). A log in order of `exp` is alive from some row on and a walk stops
there; otherwise a walk unlinks the expired rows it meets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I8, I64
from penstock.kernels.jit import kernel

I32 = NDArray[np.int32]

LIN, NULLS, COLUMNS = 0, 1, 2
REMOVED = -3
"""In `next`: the row was retracted."""
USED, FIRST, REMOVALS, DISORDERED, LAST_EXP, CREDIT, SOME_NULL, LEAST_LIN = range(8)
"""Registers of a side (`state/join_side.py`)."""
INT_BAND, FLOAT_BAND = 1, 2
LEFT_TAGGED, RIGHT_TAGGED = 1, 2
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Events(NamedTuple):
    """The events of one side: `ids` are chains (−1: matches nothing), `slots` places when stored.

    `probes` (n × p) are the chains to search on the other side; with p = 0 it is `ids`.
    """

    ts: I64
    exp: I64
    lin: I64
    sign: I8
    ids: I64
    slots: I64
    probes: I64
    rows: I64


class Chains(NamedTuple):
    """The log of one side: `used` rows, in order of exp if `ordered`, none alive before `first`."""

    next: I32
    exp: I64
    state: I64
    head: I32
    regs: I64
    used: int
    first: int
    ordered: bool
    link: bool
    probe: bool


class Test(NamedTuple):
    """Further conditions on a pair: the band; since[lin] ≤ epoch when one side is `tagged`."""

    kind: int
    left_column: int
    right_column: int
    low: int
    high: int
    low_float: float
    high_float: float
    tagged: int
    since: I64


class Found(NamedTuple):
    """Pairs by event: `events` (k × 4: slot·2 + is right, ts, sign, pairs), and the partners."""

    events: I64
    partners: I32


@kernel
def partner_range(value: int, low: int, high: int, is_left: bool) -> tuple[int, int]:
    """Partner values within the band of `value`, without wrapping; (1, 0) when there are none.

    A `low` of −2⁶³ and a `high` of 2⁶³−1 are open.
    """
    if not is_left:
        flipped = _MIN if high == _MAX else -high
        high = _MAX if low == _MIN else -low
        low = flipped
    lo, hi = _MIN, _MAX
    if low != _MIN:
        if low > 0 and value > _MAX - low:
            return 1, 0
        if low >= 0 or value >= _MIN - low:
            lo = value + low
    if high != _MAX:
        if high < 0 and value < _MIN - high:
            return 1, 0
        if high <= 0 or value <= _MAX - high:
            hi = value + high
    return lo, hi


@kernel
def _advance(first: int, ts: int, exp: I64, used: int) -> int:
    """The first row of an ordered log that is alive at `ts`."""
    while first < used and exp[first] <= ts:
        first += 1
    return first


@kernel
def walk_ordered(row: int, first: int, following: I32, out: I32, n: int) -> int:
    """Append the chain from `row` back to `first` to `out` at n; the new n, −1 when it is full."""
    room = out.shape[0]
    while row >= first:
        if n == room:
            return -1
        out[n] = row
        n += 1
        row = following[row]
    return n


@kernel
def walk_any(
    chain: int, ts: int, head: I32, following: I32, exp: I64, out: I32, n: int
) -> int:  # fmt: skip
    """Append the live rows of `chain` to `out` at n, unlink others; the new n, −1 when full."""
    room = out.shape[0]
    row, before = head[chain], -1
    while row >= 0:
        after = following[row]
        if exp[row] > ts:
            if n == room:
                return -1
            out[n] = row
            n += 1
            before = row
        elif before < 0:
            head[chain] = after
        else:
            following[before] = after
        row = after
    return n


@kernel
def fits(
    own: int, lin: int, is_left: bool, state: I64, start: int, out: I32, n: int, test: Test
) -> int:
    """Keep of out[start:n] the rows that pass `test` with the event's value and lineage."""
    column = test.right_column if is_left else test.left_column
    lo, hi = 0, 0
    if test.kind == INT_BAND:
        lo, hi = partner_range(own, test.low, test.high, is_left)
    own_float = np.int64(own).view(np.float64)
    tagged_is_own = (test.tagged == LEFT_TAGGED) == is_left
    kept = start
    for k in range(start, n):
        row = out[k]
        value = state[row, COLUMNS + column]
        if test.kind == INT_BAND:
            if not lo <= value <= hi:
                continue
        elif test.kind == FLOAT_BAND:
            gap = np.int64(value).view(np.float64) - own_float
            if not test.low_float <= (gap if is_left else -gap) <= test.high_float:
                continue
        if test.tagged:
            other = state[row, LIN]
            since = test.since[lin if tagged_is_own else other]
            if (other if tagged_is_own else lin) < since:
                continue
        out[kept] = row
        kept += 1
    return kept


@kernel
def retract(ev: Events, i: int, own: Chains) -> int:
    """Unlink the newest stored row equal to event i; its slot, or −1."""
    state, rows, chain = own.state, ev.rows, ev.ids[i]
    row, before = own.head[chain], -1
    while row >= 0:
        same = own.exp[row] == ev.exp[i] and state[row, LIN] == ev.lin[i]
        for c in range(rows.shape[0]):
            same = same and state[row, NULLS + c] == rows[c, i]
        if same:
            if before < 0:
                own.head[chain] = own.next[row]
            else:
                own.next[before] = own.next[row]
            own.next[row] = REMOVED
            own.regs[REMOVALS] += 1
            return int(row)
        before = row
        row = own.next[row]
    return -1


@kernel
def _probe(
    ev: Events, i: int, is_left: bool, other: Chains, first: int, test: Test, out: I32, n: int
) -> int:  # fmt: skip
    """All partners of event i appended to `out` at n; the new n, or −1 when it is full."""
    start = n
    chains = max(1, ev.probes.shape[1])
    for p in range(chains):
        chain = ev.probes[i, p] if ev.probes.shape[1] else ev.ids[i]
        if chain < 0:
            continue
        if other.ordered:
            n = walk_ordered(other.head[chain], first, other.next, out, n)
        else:
            n = walk_any(chain, ev.ts[i], other.head, other.next, other.exp, out, n)
        if n < 0:
            return n
    if n > start and (test.kind or test.tagged):
        column = test.left_column if is_left else test.right_column
        value = ev.rows[1 + column, i] if test.kind else 0
        n = fits(value, ev.lin[i], is_left, other.state, start, out, n, test)
    return n


@kernel
def _grown(array: I32) -> I32:
    new = np.empty(2 * array.shape[0] + 16, np.int32)
    new[: array.shape[0]] = array
    return new


@kernel
def _is_simple(left: Events, ls: Chains, rs: Chains, test: Test) -> bool:
    """Whether a chain's rows are all partners: no test, no second look at keys, in order."""
    plain = test.kind == 0 and test.tagged == 0 and left.probes.shape[1] == 0
    return plain and ls.ordered and rs.ordered


@kernel
def goes_first(ts: int, sign: int, right_ts: int, right_sign: int, right_first: bool) -> bool:
    """Whether an event of the left side precedes one of the right side.

    At one instant a −1 row precedes an arrival, so a row that leaves meets no partner that comes.
    """
    if ts != right_ts:
        return ts < right_ts
    if (sign < 0) != (right_sign < 0):
        return sign < 0
    return not right_first


@kernel
def join_events(
    left: Events, right: Events, ls: Chains, rs: Chains, test: Test, right_first: bool, guess: int
) -> Found:
    """Apply both sides' events in order of (ts, −1 rows first, side); find the pairs of each."""
    # Arrays are taken out of their tuples once: in the loop that would count references.
    l_ts, l_exp, l_sign, l_ids, l_slots = left.ts, left.exp, left.sign, left.ids, left.slots
    r_ts, r_exp, r_sign, r_ids, r_slots = right.ts, right.exp, right.sign, right.ids, right.slots
    l_next, l_head, l_log, l_used, l_first = ls.next, ls.head, ls.exp, ls.used, ls.first
    r_next, r_head, r_log, r_used, r_first = rs.next, rs.head, rs.exp, rs.used, rs.first
    nl, nr = l_ts.shape[0], r_ts.shape[0]
    simple = _is_simple(left, ls, rs, test)
    events = np.empty((nl + nr, 4), np.int64)
    out = np.empty(guess, np.int32)
    used, n, i, j = 0, 0, 0, 0
    while i < nl or j < nr:
        is_left = j == nr or (
            i < nl and goes_first(l_ts[i], l_sign[i], r_ts[j], r_sign[j], right_first)
        )
        start = n
        if is_left:
            chain, slot, ts, exp, sign = l_ids[i], l_slots[i], l_ts[i], l_exp[i], l_sign[i]
            r_first = _advance(r_first, ts, r_log, r_used)
            if chain >= 0:
                if sign < 0:
                    slot = retract(left, i, ls)
                elif ls.link:
                    l_next[slot] = l_head[chain]
                    l_head[chain] = slot
                while slot >= 0 and exp > ts and ls.probe:
                    if simple:
                        n = walk_ordered(r_head[chain], r_first, r_next, out, start)
                    else:
                        n = _probe(left, i, True, rs, r_first, test, out, start)
                    if n >= 0:
                        break
                    out = _grown(out)
            i += 1
        else:
            chain, slot, ts, exp, sign = r_ids[j], r_slots[j], r_ts[j], r_exp[j], r_sign[j]
            l_first = _advance(l_first, ts, l_log, l_used)
            if chain >= 0:
                if sign < 0:
                    slot = retract(right, j, rs)
                elif rs.link:
                    r_next[slot] = r_head[chain]
                    r_head[chain] = slot
                while slot >= 0 and exp > ts and rs.probe:
                    if simple:
                        n = walk_ordered(l_head[chain], l_first, l_next, out, start)
                    else:
                        n = _probe(right, j, False, ls, l_first, test, out, start)
                    if n >= 0:
                        break
                    out = _grown(out)
            j += 1
        if n > start:
            events[used, 0], events[used, 1] = 2 * slot + (0 if is_left else 1), ts
            events[used, 2], events[used, 3] = 1 if sign > 0 else -1, n - start
            used += 1
    return Found(events[:used], out[:n])


@kernel
def _spread(found: Found) -> tuple[I32, I32, I64, I8]:
    """Left slot, right slot, ts and sign of each pair."""
    events, partners = found.events, found.partners
    n = partners.shape[0]
    a, b = np.empty(n, np.int32), np.empty(n, np.int32)
    ts, sign = np.empty(n, np.int64), np.empty(n, np.int8)
    k = 0
    for e in range(events.shape[0]):
        slot, when, what = np.int32(events[e, 0] >> 1), events[e, 1], np.int8(events[e, 2])
        is_left = (events[e, 0] & 1) == 0
        for _ in range(events[e, 3]):
            a[k] = slot if is_left else partners[k]
            b[k] = partners[k] if is_left else slot
            ts[k] = when
            sign[k] = what
            k += 1
    return a, b, ts, sign


@kernel
def take(state: I64, slots: I32, column: int, out: I64) -> None:
    """One column of row-major `state` at `slots`."""
    for k in range(slots.shape[0]):
        out[k] = state[slots[k], column]


@kernel
def null_words(left: I64, right: I64, a: I32, b: I32, columns: I64, out: I64) -> None:
    """The NULL word of the chosen columns of each pair."""
    wl = left.shape[1] - COLUMNS
    for k in range(a.shape[0]):
        nulls = left[a[k], NULLS] | (right[b[k], NULLS] << wl)
        out[k] = 0
        if nulls:
            for j in range(columns.shape[0]):
                out[k] |= ((nulls >> columns[j]) & 1) << j


@kernel
def gather_pairs(
    found: Found, ls: Chains, rs: Chains, tagged: int, columns: I64
) -> tuple[I64, I64, I64, I8, I64]:  # fmt: skip
    """The chosen columns of all pairs, column-major, with ts, exp, sign and lin.

    One column at a time: many output streams at once are slower than rereading the slots.
    """
    left, right, left_exp, right_exp = ls.state, rs.state, ls.exp, rs.exp
    a, b, ts, sign = _spread(found)
    n = a.shape[0]
    wl = left.shape[1] - COLUMNS
    rows = np.empty((1 + columns.shape[0], n), np.int64)
    exp, lin = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        exp[k] = min(left_exp[a[k]], right_exp[b[k]])
    if tagged == LEFT_TAGGED:
        take(left, a, LIN, lin)
    elif tagged == RIGHT_TAGGED:
        take(right, b, LIN, lin)
    else:
        for k in range(n):
            lin[k] = min(left[a[k], LIN], right[b[k], LIN])
    null_words(left, right, a, b, columns, rows[0])
    for j in range(columns.shape[0]):
        if columns[j] < wl:
            take(left, a, COLUMNS + columns[j], rows[1 + j])
        else:
            take(right, b, COLUMNS + columns[j] - wl, rows[1 + j])
    return rows, ts, exp, sign, lin
