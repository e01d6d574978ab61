"""Finds the pairs that a join adds and removes, in the order of the changelog."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.join import Chains, Events, Test
from penstock.kernels.join_changes import (
    LEFT_FIRST,
    PAIRS,
    RIGHT_FIRST,
    Asked,
    Line,
    Pairs,
    line_up,
    pair_any,
    pair_plain,
)

_PER_EVENT = 8  # initial capacity, in pairs

Array = NDArray[Any]
Streams = tuple[Events, Events, Events, Events]


def find_changes(streams: Streams, ls: Chains, rs: Chains, test: Test, right_first: bool) -> Pairs:
    """Find the pairs that appear and end with arrivals and departures (each: left, right)."""
    left, right, left_due, right_due = streams
    signs = left.sign, right.sign
    order = line_up(left.ts, right.ts, *signs, left_due.ts, right_due.ts, right_first)
    line = Line(order, *(_joined(streams, name) for name in ("ts", "ids", "slots")))
    marks = np.zeros(4, np.int64)
    marks[LEFT_FIRST], marks[RIGHT_FIRST] = ls.first, rs.first
    out = _room(64 + _PER_EVENT * order.shape[0])
    if _is_plain(left, right, ls, rs, test):
        chains = (ls.next, ls.head, rs.next, rs.head)
        while not pair_plain(line, *chains, out, marks):
            out = _more(out)
    else:
        asked = _asked(streams, test)
        while not pair_any(line, left, right, asked, ls, rs, test, out, marks):
            out = _more(out)
    n = int(marks[PAIRS])
    return Pairs(out.left[:n], out.right[:n], out.ts[:n], out.sign[:n])


def _is_plain(left: Events, right: Events, ls: Chains, rs: Chains, test: Test) -> bool:
    """Whether walking the chains is enough, without the general path."""
    if test.kind or test.tagged or not (ls.ordered and rs.ordered):
        return False
    return bool((left.sign > 0).all() and (right.sign > 0).all())


def _asked(streams: Streams, test: Test) -> Asked:
    lin, sign = _joined(streams, "lin"), _joined(streams, "sign")
    probes = np.concatenate([e.probes for e in streams if e.ts.shape[0]])
    if not test.kind:
        return Asked(lin, lin, sign, probes)  # values are not asked for
    columns = (test.left_column, test.right_column) * 2
    values = [e.rows[1 + c] for e, c in zip(streams, columns, strict=True)]
    return Asked(np.concatenate(values), lin, sign, probes)


def _joined(streams: Streams, name: str) -> Array:
    return np.concatenate([getattr(events, name) for events in streams])


def _room(n: int) -> Pairs:
    slots = np.empty((2, n), np.int32)
    return Pairs(slots[0], slots[1], np.empty(n, np.int64), np.empty(n, np.int8))


def _more(old: Pairs) -> Pairs:
    """A buffer of twice the capacity with the same pairs."""
    n = old.ts.shape[0]
    new = _room(2 * n)
    new.left[:n], new.right[:n] = old.left, old.right
    new.ts[:n], new.sign[:n] = old.ts, old.sign
    return new
