"""Window-join kernels: one pass over the merged events of both sides, one pass that gathers.

A side is two row-major matrices, `links` [next in chain, exp], small so that walks stay in
cache, and `state` [exp, lin, NULL bits, columns…], and the head of each chain, newest first.
Rows of a batch are appended before the pass and become visible when their event links them,
so a pair is found once, by its later part (Ghanem §5.5). The first probe that meets an expired
row unlinks it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.delta import I8, I64
from penstock.kernels.jit import kernel

NEXT, DIES = 0, 1
EXP, LIN, NULLS, COLUMNS = 0, 1, 2, 3
REMOVED = -3
"""In NEXT: the row was retracted."""
USED, FIRST, REMOVALS, DISORDERED, LAST_EXP, CREDIT = 0, 1, 2, 3, 4, 5
"""Registers of a side (`state/join_side.py`)."""
INT_BAND, FLOAT_BAND = 1, 2
LEFT_TAGGED, RIGHT_TAGGED = 1, 2
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Events(NamedTuple):
    """What one side brings: `ids` its chain (−1: matches nothing), `slots` its place when stored.

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
    """Stored rows of one side. `ordered`: rows were appended in order of exp."""

    links: I64
    state: I64
    head: I64
    regs: I64
    ordered: bool
    link: bool
    probe: bool


class Test(NamedTuple):
    """What else a pair must satisfy: the band; since[lin] ≤ epoch when one side is `tagged`."""

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
    partners: I64


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
def _walk(
    chain: int, ts: int, links: I64, head: I64, ordered: bool, out: I64, n: int
) -> int:  # fmt: skip
    """Append the live rows of `chain` to `out` at n; the new n, or −1 when it is full."""
    room = out.shape[0]
    row = head[chain]
    before = -1
    while row >= 0:
        following = links[row, NEXT]
        if links[row, DIES] > ts:
            if n == room:
                return -1
            out[n] = row
            n += 1
            before = row
        else:
            if ordered:
                following = -1
            if before < 0:
                head[chain] = following
            else:
                links[before, NEXT] = following
        row = following
    return n


@kernel
def _fits(
    own: int, lin: int, is_left: bool, state: I64, start: int, out: I64, n: int, test: Test
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
def _unlink_equal(
    chain: int, rows: I64, i: int, exp: int, lin: int, links: I64, state: I64, head: I64
) -> int:
    """Unlink the newest stored row equal to column i of `rows`; its slot, or −1."""
    row = head[chain]
    before = -1
    while row >= 0:
        same = state[row, EXP] == exp and state[row, LIN] == lin
        for c in range(rows.shape[0]):
            same = same and state[row, NULLS + c] == rows[c, i]
        if same:
            if before < 0:
                head[chain] = links[row, NEXT]
            else:
                links[before, NEXT] = links[row, NEXT]
            links[row, NEXT] = REMOVED
            return int(row)
        before = row
        row = links[row, NEXT]
    return -1


@kernel
def _grown(array: I64) -> I64:
    new = np.empty(2 * array.shape[0] + 16, np.int64)
    new[: array.shape[0]] = array
    return new


@kernel
def _retract(ev: Events, i: int, own: Chains) -> int:
    """Unlink the row that event i takes back; its slot, or −1."""
    lines = (own.links, own.state, own.head)
    slot = _unlink_equal(ev.ids[i], ev.rows, i, ev.exp[i], ev.lin[i], *lines)
    if slot >= 0:
        own.regs[REMOVALS] += 1
    return slot


@kernel
def _probe(
    ev: Events, i: int, is_left: bool, other: Chains, test: Test, out: I64, n: int
) -> int:  # fmt: skip
    """All partners of event i appended to `out` at n; the new n, or −1 when it is full."""
    start = n
    if ev.probes.shape[1] == 0:
        n = _walk(ev.ids[i], ev.ts[i], other.links, other.head, other.ordered, out, n)
    else:
        for p in range(ev.probes.shape[1]):
            chain = ev.probes[i, p]
            if chain >= 0 and n >= 0:
                n = _walk(chain, ev.ts[i], other.links, other.head, other.ordered, out, n)
    if n > start and (test.kind or test.tagged):
        column = test.left_column if is_left else test.right_column
        value = ev.rows[1 + column, i] if test.kind else 0
        n = _fits(value, ev.lin[i], is_left, other.state, start, out, n, test)
    return n


@kernel
def join_events(
    left: Events, right: Events, ls: Chains, rs: Chains, test: Test, right_first: bool, guess: int
) -> Found:
    """Apply both sides' events in order of (ts, side) and find the pairs of each."""
    # Arrays are taken out of their tuples once: in the loop that would count references.
    l_ts, l_exp, l_sign, l_ids, l_slots = left.ts, left.exp, left.sign, left.ids, left.slots
    r_ts, r_exp, r_sign, r_ids, r_slots = right.ts, right.exp, right.sign, right.ids, right.slots
    l_links, l_head, r_links, r_head = ls.links, ls.head, rs.links, rs.head
    nl, nr = l_ts.shape[0], r_ts.shape[0]
    simple = test.kind == 0 and test.tagged == 0 and left.probes.shape[1] == 0
    events = np.empty((nl + nr, 4), np.int64)
    out = np.empty(guess, np.int64)
    used, n, i, j = 0, 0, 0, 0
    while i < nl or j < nr:
        is_left = j == nr or (
            i < nl and (l_ts[i] < r_ts[j] or (not right_first and l_ts[i] == r_ts[j]))
        )
        start = n
        if is_left:
            chain, slot, ts, exp, sign = l_ids[i], l_slots[i], l_ts[i], l_exp[i], l_sign[i]
            if chain >= 0:
                if sign < 0:
                    slot = _retract(left, i, ls)
                elif ls.link:
                    l_links[slot, NEXT] = l_head[chain]
                    l_head[chain] = slot
                while slot >= 0 and exp > ts and ls.probe:
                    if simple:
                        n = _walk(chain, ts, r_links, r_head, rs.ordered, out, start)
                    else:
                        n = _probe(left, i, True, rs, test, out, start)
                    if n >= 0:
                        break
                    out = _grown(out)
            i += 1
        else:
            chain, slot, ts, exp, sign = r_ids[j], r_slots[j], r_ts[j], r_exp[j], r_sign[j]
            if chain >= 0:
                if sign < 0:
                    slot = _retract(right, j, rs)
                elif rs.link:
                    r_links[slot, NEXT] = r_head[chain]
                    r_head[chain] = slot
                while slot >= 0 and exp > ts and rs.probe:
                    if simple:
                        n = _walk(chain, ts, l_links, l_head, ls.ordered, out, start)
                    else:
                        n = _probe(right, j, False, ls, test, out, start)
                    if n >= 0:
                        break
                    out = _grown(out)
            j += 1
        if n > start:
            events[used, 0] = 2 * slot + (0 if is_left else 1)
            events[used, 1] = ts
            events[used, 2] = 1 if sign > 0 else -1
            events[used, 3] = n - start
            used += 1
    return Found(events[:used], out[:n])


@kernel
def gather_pairs(found: Found, left: I64, right: I64, tagged: int) -> tuple[I64, I64, I64, I8, I64]:
    """The rows of all pairs, column-major, with ts, exp, sign and lin."""
    n = found.partners.shape[0]
    wl, wr = left.shape[1] - COLUMNS, right.shape[1] - COLUMNS
    rows = np.empty((1 + wl + wr, n), np.int64)
    ts, exp, lin = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    sign = np.empty(n, np.int8)
    k = 0
    for e in range(found.events.shape[0]):
        slot = found.events[e, 0] >> 1
        is_left = (found.events[e, 0] & 1) == 0
        when, what = found.events[e, 1], np.int8(found.events[e, 2])
        for _ in range(found.events[e, 3]):
            partner = found.partners[k]
            if is_left:
                a, b = slot, partner
            else:
                a, b = partner, slot
            rows[0, k] = left[a, NULLS] | (right[b, NULLS] << wl)
            for c in range(wl):
                rows[1 + c, k] = left[a, COLUMNS + c]
            for c in range(wr):
                rows[1 + wl + c, k] = right[b, COLUMNS + c]
            ts[k] = when
            sign[k] = what
            exp[k] = min(left[a, EXP], right[b, EXP])
            if tagged == LEFT_TAGGED:
                lin[k] = left[a, LIN]
            elif tagged == RIGHT_TAGGED:
                lin[k] = right[b, LIN]
            else:
                lin[k] = min(left[a, LIN], right[b, LIN])
            k += 1
    return rows, ts, exp, sign, lin
