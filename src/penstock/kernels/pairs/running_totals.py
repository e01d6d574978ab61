"""Running totals of pairs: how the count and the sums of each query change, pairs not formed.

Rows of two sides *move*: they arrive or leave, in the order of time. A row that moves adds, or
takes away, the totals of its partners that are alive at that moment. Partners are one sorted run
with a Fenwick tree over it, so the totals of an interval are differences of prefix sums. The
partners nearest to the points of stabbing groups tell which queries are affected (Agarwal et al.
2009, §3.1.2); queries without a group are looked at one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.alive import (
    LOW,
    LOW_BITS,
    SUM_WORDS,
    Alive,
    add_between,
    count_before,
    move_entry,
    nth_alive,
)
from penstock.kernels.pairs.data import Probes
from penstock.kernels.pairs.near import LEFT, RIGHT
from penstock.kernels.pairs.search import (
    Parts,
    View,
    find_parts,
    first_gap_above,
    first_gap_from,
    gap_of,
    new_parts,
    own_holds,
    view_of,
)
from penstock.kernels.pairs.ssi import Lists, prefix_of

TS, SLOT, PAIRS, SUMS = range(4)
"""Words of a change: its instant, the query, how many pairs more, then the words of each sum."""
_MANY = 1 << 30  # pairs after which merged totals are written, before a word may overflow
_AT_ONCE = 64  # moves that are merged at once


class Asked(NamedTuple):
    """The conditions of queries on the partners of a side's rows, and on these rows, by slot."""

    low: I64
    high: I64
    own_low: I64  # [own condition, slot]
    own_high: I64
    each: I64  # slots that are looked at one by one
    lists: Lists  # the slots of stabbing groups


class MovingRows(NamedTuple):
    """Rows of a side that move: as probes, with their sums and their entries (−1 for none)."""

    probes: Probes
    amounts: I64
    entries: I64


class MovingSide(NamedTuple):
    """A side: the rows that move, its rows as partners, and what the queries ask."""

    rows: MovingRows
    alive: Alive
    asked: Asked


class Moves(NamedTuple):
    """Arrivals (+1) and departures (−1) in the order in which they happen."""

    ts: I64
    side: I8
    row: I64  # among the moving rows of the side
    sign: I8


# ---- which queries -------------------------------------------------------------------
@inlined
def _nearest(
    tree: I64, values: I64, stretches: I64, count: int, point: int, view: View, gaps: I64
) -> int:
    """Write the gaps nearest to a point that are alive; bit 0: there is one at or below it."""
    sides = 0
    for s in range(count):
        begin, end = stretches[s, 0], stretches[s, 1]
        at = first_gap_above(values, begin, end, point, view)
        before = count_before(tree, at)
        if before > count_before(tree, begin):
            gap = gap_of(values[nth_alive(tree, before)], view)
            if sides & 1 == 0 or gap > gaps[LEFT]:
                gaps[LEFT] = gap
            sides |= 1
        if count_before(tree, end) > before:
            gap = gap_of(values[nth_alive(tree, before + 1)], view)
            if sides & 2 == 0 or gap < gaps[RIGHT]:
                gaps[RIGHT] = gap
            sides |= 2
    return sides


@kernel
def _affected(
    row: int, side: MovingSide, alive: Alive, view: View, parts: Parts, slots: I64
) -> int:
    """Write the queries with own conditions that the row meets, and a partner in their interval.

    Queries that are looked at one by one are written whether they have a partner or not.
    """
    tree, values, asked, lists = alive.tree, alive.entries.values, side.asked, side.asked.lists
    own, points, bounds, low = side.rows.probes.own, lists.groups.points, lists.bounds, asked.low
    stretches, count, n, gaps = parts.stretches, parts.books[1], 0, np.zeros(2, np.int64)
    for i in range(asked.each.shape[0]):
        slot = asked.each[i]
        if own_holds(own, asked.own_low, asked.own_high, row, slot):
            slots[n] = slot
            n += 1
    for g in range(points.shape[0]):
        sides = _nearest(tree, values, stretches, count, points[g], view, gaps)
        first, after = lists.starts[g], lists.starts[g + 1]
        for way in range(2):
            length = 0
            if (sides >> way) & 1:
                length = prefix_of(bounds, way, first, after, gaps[way])
            for k in range(first, first + length):
                slot = lists.slots[way, k]
                if way == RIGHT and sides & 1 and low[slot] <= gaps[LEFT]:
                    continue
                if own_holds(own, asked.own_low, asked.own_high, row, slot):
                    slots[n] = slot
                    n += 1
    return n


@inlined
def _follow(side: MovingSide, row: int, sign: int) -> None:
    """Move a row of a side."""
    entry = side.rows.entries[row]
    if entry >= 0:
        move_entry(side.alive.tree, side.alive.amounts, entry, sign)


# ---- changes -------------------------------------------------------------------------
@kernel
def _wider(table: I64) -> I64:
    """A copy with room for twice as many rows."""
    new = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    for i in range(table.shape[0]):
        for c in range(table.shape[1]):
            new[i, c] = table[i, c]
    return new


@inlined
def _write(
    out: I64, n: int, sign: int, row: int, amounts: I64, own_at: int, total: I64, other_at: int
) -> None:
    """Write a change: the row's own sums once per partner, and the sums of its partners."""
    pairs = total[0]
    out[n, PAIRS] = sign * pairs
    for c in range(amounts.shape[1]):
        out[n, own_at + c] = sign * pairs * amounts[row, c]
    for c in range(1, total.shape[0]):
        out[n, other_at + c - 1] = sign * total[c]


@kernel
def _probe(
    ts: int, row: int, sign: int, side: MovingSide, alive: Alive, own_at: int, other_at: int,
    parts: Parts, slots: I64, total: I64, out: I64, n: int,
) -> tuple[I64, int]:  # fmt: skip
    """Append the changes that a moving row brings to each affected query."""
    view, values, tree, asked = (
        view_of(side.rows.probes, row), alive.entries.values, alive.tree, side.asked
    )  # fmt: skip
    if find_parts(alive.entries, view, parts) == 0:
        return out, n
    stretches, count, low, high = parts.stretches, parts.books[1], asked.low, asked.high
    amounts = side.rows.amounts
    for i in range(_affected(row, side, alive, view, parts, slots)):
        slot = slots[i]
        for c in range(total.shape[0]):
            total[c] = 0
        for s in range(count):
            end = stretches[s, 1]
            begin = first_gap_from(values, stretches[s, 0], end, low[slot], view)
            add_between(tree, begin, first_gap_above(values, begin, end, high[slot], view), total)
        if total[0]:
            if n == out.shape[0]:
                out = _wider(out)
            out[n, TS], out[n, SLOT] = ts, slot
            _write(out, n, sign, row, amounts, own_at, total, other_at)
            n += 1
    return out, n


@inlined
def _merge(out: I64, i: int, sums: I64, pairs: I64) -> bool:
    """Add change i to the totals of its query; whether these should be written now."""
    slot, width = out[i, SLOT], out.shape[1]
    pairs[slot] += abs(out[i, PAIRS])
    for c in range(PAIRS, width):
        sums[slot, c] += out[i, c]
    for c in range(SUMS + 1, width, SUM_WORDS):
        sums[slot, c] += sums[slot, c + 1] >> LOW_BITS
        sums[slot, c + 1] &= LOW
    return bool(pairs[slot] >= _MANY)


@inlined
def _flush(ts: int, slot: int, sums: I64, pairs: I64, out: I64, n: int) -> int:
    """Write the totals of a query, unless they are 0, and begin again."""
    some, pairs[slot] = 0, 0
    out[n, TS], out[n, SLOT] = ts, slot
    for c in range(PAIRS, out.shape[1]):
        out[n, c] = sums[slot, c]
        some |= sums[slot, c]
        sums[slot, c] = 0
    return n + (some != 0)


@kernel
def run_totals(moves: Moves, left: MovingSide, right: MovingSide) -> I64:
    """The changes of all moves, in order; the trees follow the moves."""
    width = left.rows.amounts.shape[1], right.rows.amounts.shape[1]
    out, n = np.empty((256, SUMS + width[0] + width[1]), np.int64), 0
    parts = new_parts(right.alive.entries), new_parts(left.alive.entries)
    slots = np.empty(left.asked.low.shape[0], np.int64)
    totals = np.empty(1 + width[1], np.int64), np.empty(1 + width[0], np.int64)
    for e in range(moves.ts.shape[0]):
        ts, row, sign = moves.ts[e], moves.row[e], moves.sign[e]
        if moves.side[e] == 0:
            out, n = _probe(
                ts, row, sign, left, right.alive, SUMS, SUMS + width[0], parts[0], slots,
                totals[0], out, n,
            )  # fmt: skip
            _follow(left, row, sign)
        else:
            out, n = _probe(
                ts, row, sign, right, left.alive, SUMS + width[0], SUMS, parts[1], slots,
                totals[1], out, n,
            )  # fmt: skip
            _follow(right, row, sign)
    return out[:n].copy()


@kernel
def merge_totals(moves: Moves, left: MovingSide, right: MovingSide, ts: int) -> I64:
    """The net changes of all moves, as changes of one instant."""
    width = left.rows.amounts.shape[1], right.rows.amounts.shape[1]
    queries, words = left.asked.low.shape[0], SUMS + width[0] + width[1]
    merged, n = np.empty((max(queries, 1), words), np.int64), 0
    sums, pairs = np.zeros((queries, words), np.int64), np.zeros(queries, np.int64)
    for e in range(0, moves.ts.shape[0], _AT_ONCE):
        end = e + _AT_ONCE
        some = Moves(moves.ts[e:end], moves.side[e:end], moves.row[e:end], moves.sign[e:end])
        found = run_totals(some, left, right)
        for i in range(found.shape[0]):
            if _merge(found, i, sums, pairs):
                if n == merged.shape[0]:
                    merged = _wider(merged)
                n = _flush(ts, found[i, SLOT], sums, pairs, merged, n)
    for slot in range(queries):
        if n == merged.shape[0]:
            merged = _wider(merged)
        n = _flush(ts, slot, sums, pairs, merged, n)
    return merged[:n].copy()


@kernel
def _more(table: I64) -> I64:
    """A copy with room for twice as many columns."""
    new = np.empty((table.shape[0], 2 * table.shape[1]), np.int64)
    for i in range(table.shape[0]):
        for c in range(table.shape[1]):
            new[i, c] = table[i, c]
    return new


@inlined
def _take_alive(
    e: int, slot: int, low: int, high: int, alive: Alive, view: View, parts: Parts, out: I64, n: int
) -> tuple[I64, int]:
    """Append the partners in an interval that are alive."""
    tree, values, positions = alive.tree, alive.entries.values, alive.entries.positions
    for s in range(parts.books[1]):
        end = parts.stretches[s, 1]
        begin = first_gap_from(values, parts.stretches[s, 0], end, low, view)
        end = first_gap_above(values, begin, end, high, view)
        for rank in range(count_before(tree, begin), count_before(tree, end)):
            if n == out.shape[1]:
                out = _more(out)
            out[0, n], out[1, n], out[2, n] = e, positions[nth_alive(tree, rank + 1)], slot
            n += 1
    return out, n


@kernel
def _list(
    e: int, row: int, side: MovingSide, alive: Alive, slots: I64, parts: Parts, out: I64, n: int
) -> tuple[I64, int]:
    """Append the partners that some queries may take, and are alive as a row moves."""
    view, asked = view_of(side.rows.probes, row), side.asked
    if find_parts(alive.entries, view, parts) == 0:
        return out, n
    for i in range(slots.shape[0]):
        slot = slots[i]
        if own_holds(side.rows.probes.own, asked.own_low, asked.own_high, row, slot):
            low, high = asked.low[slot], asked.high[slot]
            out, n = _take_alive(e, slot, low, high, alive, view, parts, out, n)
    return out, n


@kernel
def list_partners(
    moves: Moves, left: MovingSide, right: MovingSide, slots: I64
) -> tuple[I64, I64, I64]:
    """For some queries: the number of a move, the position of a partner, and the query.

    The trees follow the moves.
    """
    out, n = np.empty((3, 256), np.int64), 0
    parts = new_parts(right.alive.entries), new_parts(left.alive.entries)
    for e in range(moves.ts.shape[0]):
        row = moves.row[e]
        if moves.side[e] == 0:
            out, n = _list(e, row, left, right.alive, slots, parts[0], out, n)
            _follow(left, row, moves.sign[e])
        else:
            out, n = _list(e, row, right, left.alive, slots, parts[1], out, n)
            _follow(right, row, moves.sign[e])
    return out[0, :n].copy(), out[1, :n].copy(), out[2, :n].copy()
