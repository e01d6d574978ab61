"""Running totals of pairs: how the count and the sums of each query change, pairs not formed.

Rows of two sides *move*: they arrive or leave, in the order of time. A row that moves adds, or
takes away, the totals of its partners that are alive at that moment. Partners are one sorted run
with a Fenwick tree over it, so the totals of an interval are differences of prefix sums. The
partners nearest to the points of stabbing groups tell which queries are affected (Agarwal et al.
2009, §3.1.2); queries without a group are looked at one by one.

A sum is held in two words, high · 2³² + low, so that neither overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import Entries, Probes
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
from penstock.kernels.stem_runs import part_of_key

TS, SLOT, PAIRS, SUMS = range(4)
"""Words of a change: its instant, the query, how many pairs more, then the words of each sum."""
SUM_WORDS = 3
"""Words of a sum: how many values, high, low."""
_LOW_BITS = 32
_LOW = (1 << _LOW_BITS) - 1
_MANY = 1 << 30  # pairs after which merged totals are written, before a word may overflow
_AT_ONCE = 64  # moves that are merged at once


class Alive(NamedTuple):
    """Rows of a side as partners: sorted entries, and the totals of those that are alive.

    Entry k stands for `amounts[k]`: 1, then the words of each sum. `tree` is a Fenwick tree.
    """

    entries: Entries
    amounts: I64
    tree: I64


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


# ---- entries -------------------------------------------------------------------------
@kernel
def gather_entries(
    keys: I64, values: I64, positions: I64, offsets: I64, wanted: I64, first: int, until: int
) -> tuple[I64, I64, I64, I64]:
    """Copy the entries at positions in [first, until) that have a wanted key, run by run.

    Without keys, all entries are wanted. Returns keys, values, positions and the starts of runs.
    """
    count = 0
    lookups = wanted.shape[0] if keys.shape[0] else 1
    for r in range(offsets.shape[0] - 1):
        for w in range(lookups):
            key = wanted[w] if keys.shape[0] else 0
            begin, end = part_of_key(keys, offsets[r], offsets[r + 1], key)
            count += end - begin
    out_keys = np.empty(count if keys.shape[0] else 0, np.int64)
    out_values, out_positions = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, n = np.zeros(offsets.shape[0], np.int64), 0
    for r in range(offsets.shape[0] - 1):
        for w in range(lookups):
            key = wanted[w] if keys.shape[0] else 0
            begin, end = part_of_key(keys, offsets[r], offsets[r + 1], key)
            for k in range(begin, end):
                if first <= positions[k] < until:
                    if keys.shape[0]:
                        out_keys[n] = key
                    out_values[n], out_positions[n] = values[k], positions[k]
                    n += 1
        starts[r + 1] = n
    return out_keys[: n if keys.shape[0] else 0], out_values[:n], out_positions[:n], starts


@kernel
def amounts_of(rows: I64, places: I64, columns: I64, first: int) -> I64:
    """The words of each sum for rows of a log (row-major, NULL word first), from word `first` on.

    The words before it are 1.
    """
    out = np.ones((places.shape[0], first + SUM_WORDS * columns.shape[0]), np.int64)
    for i in range(places.shape[0]):
        at = places[i]
        for c in range(columns.shape[0]):
            word, to = rows[at, 1 + columns[c]], first + SUM_WORDS * c
            if (rows[at, 0] >> columns[c]) & 1:
                out[i, to], word = 0, 0
            out[i, to + 1], out[i, to + 2] = word >> _LOW_BITS, word & _LOW
    return out


@kernel
def find_entries(positions: I64, moving: I64) -> I64:
    """The entry of each moving row, given its position; positions ascend. −1: it has none."""
    found = np.full(moving.shape[0], -1)
    if moving.shape[0] == 0:
        return found
    first = moving[0]
    places = np.full(moving[-1] - first + 1, -1)
    for i in range(moving.shape[0]):
        places[moving[i] - first] = i
    for k in range(positions.shape[0]):
        at = positions[k] - first
        if 0 <= at < places.shape[0] and places[at] >= 0:
            found[places[at]] = k
    return found


@kernel
def grow_tree(amounts: I64, alive: Bool) -> I64:
    """The Fenwick tree of the amounts of the entries that are alive."""
    n, width = amounts.shape
    tree = np.zeros((n + 1, width), np.int64)
    for k in range(1, n + 1):
        above = k + (k & -k)
        for c in range(width):
            if alive[k - 1]:
                tree[k, c] += amounts[k - 1, c]
            if above <= n:
                tree[above, c] += tree[k, c]
    return tree


# ---- the tree ------------------------------------------------------------------------
@inlined
def _move(tree: I64, amounts: I64, entry: int, sign: int) -> None:
    """Add or remove an entry."""
    k = entry + 1
    while k < tree.shape[0]:
        for c in range(tree.shape[1]):
            tree[k, c] += sign * amounts[entry, c]
        k += k & -k


@inlined
def _follow(side: MovingSide, row: int, sign: int) -> None:
    """Move a row of a side."""
    entry = side.rows.entries[row]
    if entry >= 0:
        _move(side.alive.tree, side.alive.amounts, entry, sign)


@inlined
def _count_before(tree: I64, entry: int) -> int:
    """How many entries before this one are alive."""
    found = 0
    while entry > 0:
        found += tree[entry, 0]
        entry &= entry - 1
    return found


@inlined
def _nth_alive(tree: I64, rank: int) -> int:
    """The entry that is alive and has `rank` − 1 such entries before it."""
    at, step = 0, 1
    while 2 * step < tree.shape[0]:
        step *= 2
    while step:
        if at + step < tree.shape[0] and tree[at + step, 0] < rank:
            at += step
            rank -= tree[at, 0]
        step >>= 1
    return at


@inlined
def _add_between(tree: I64, begin: int, end: int, total: I64) -> None:
    """Add the totals of the entries at [begin, end)."""
    while end > begin:
        for c in range(total.shape[0]):
            total[c] += tree[end, c]
        end &= end - 1
    while begin > end:
        for c in range(total.shape[0]):
            total[c] -= tree[begin, c]
        begin &= begin - 1


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
        before = _count_before(tree, at)
        if before > _count_before(tree, begin):
            gap = gap_of(values[_nth_alive(tree, before)], view)
            if sides & 1 == 0 or gap > gaps[LEFT]:
                gaps[LEFT] = gap
            sides |= 1
        if _count_before(tree, end) > before:
            gap = gap_of(values[_nth_alive(tree, before + 1)], view)
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
            _add_between(tree, begin, first_gap_above(values, begin, end, high[slot], view), total)
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
        sums[slot, c] += sums[slot, c + 1] >> _LOW_BITS
        sums[slot, c + 1] &= _LOW
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
        for rank in range(_count_before(tree, begin), _count_before(tree, end)):
            if n == out.shape[1]:
                out = _more(out)
            out[0, n], out[1, n], out[2, n] = e, positions[_nth_alive(tree, rank + 1)], slot
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
