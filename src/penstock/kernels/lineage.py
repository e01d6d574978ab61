"""Lineage bitmaps: bit s of word s // 64 of a row is set while query slot s may take the row.

CACQ §3.2.2 stores with each tuple the queries that have rejected it. Here a chunk of rows has one
matrix of words, and a row is dropped when its words are zero.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.grouped_filter_bits import U64, lowest_bit, popcount
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.lifetime import departure

_FEW = 32  # up to this many rows of an instant, insertion sort is used
_DIGIT = 12  # bits per pass of the radix sort
_MOST = (1 << _DIGIT) - 1


@kernel
def alive_rows(bits: U64) -> I64:
    """The rows that some query may still take."""
    n, words = bits.shape
    out = np.empty(n, np.int64)
    found = 0
    if words == 1:  # no branch: it would be unpredictable
        for i in range(n):
            out[found] = i
            found += bits[i, 0] != 0
        return out[:found]
    for i in range(n):
        for w in range(words):
            if bits[i, w]:
                out[found] = i
                found += 1
                break
    return out[:found]


@kernel
def rows_using(bits: U64, uses: U64) -> tuple[I64, I64]:
    """The rows that a query of the set `uses` may still take, and the number of such queries."""
    n, words = bits.shape
    rows, counts = np.empty(n, np.int64), np.empty(n, np.int64)
    found = 0
    for i in range(n):
        total = 0
        for w in range(words):
            total += popcount(bits[i, w] & uses[w])
        rows[found], counts[found] = i, total
        found += total != 0
    return rows[:found], counts[:found]


@kernel
def count_bits(bits: U64, uses: U64) -> int:
    """The number of pairs of a row and a query of the set `uses` that are still possible."""
    total = 0
    for i in range(bits.shape[0]):
        for w in range(bits.shape[1]):
            total += popcount(bits[i, w] & uses[w])
    return total


@kernel
def wanted_by(bits: U64) -> U64:
    """The queries that may still take some row."""
    out = np.zeros(bits.shape[1], np.uint64)
    for i in range(bits.shape[0]):
        for w in range(bits.shape[1]):
            out[w] |= bits[i, w]
    return out


@kernel
def extremes(
    positions: I64, base: int, epoch: I64, ts: I64, instants: I64, root: I64
) -> tuple[int, int]:
    """The least epoch of the rows at these positions, and their greatest age at their instants."""
    least, oldest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for i in range(positions.shape[0]):
        at = positions[i] - base
        least = min(least, epoch[at])
        oldest = max(oldest, instants[root[i]] - ts[at])
    return least, oldest


@kernel
def positions_among(ts: I64, base: int, instants: I64, after: bool, least: int) -> I64:
    """For each instant (ascending), the position of the first time ≥ it (`after`: > it).

    Times are stored from position `base` on; results below `least` become `least`.
    """
    out = np.empty(instants.shape[0], np.int64)
    if not instants.shape[0]:
        return out
    at = np.searchsorted(ts, instants[0])
    for i in range(instants.shape[0]):
        instant = instants[i]
        while at < ts.shape[0] and (ts[at] < instant or (after and ts[at] == instant)):
            at += 1
        out[i] = max(at + base, least)
    return out


@kernel
def count_rejected(
    bits: U64, rows: I64, before: I64, uses: U64, ahead: U64
) -> tuple[int, int, int]:
    """Counts of pairs that `rows` had `before`, of lost pairs, and of pairs lost too early.

    A pair is lost too early if the row goes on: a query of the set `ahead` may still take it.
    """
    tested = rejected = of_rows_that_go_on = 0
    for i in range(rows.shape[0]):
        lost = before[i]
        tested += lost
        goes_on = False
        for w in range(bits.shape[1]):
            word = bits[rows[i], w]
            lost -= popcount(word & uses[w])
            goes_on |= (word & ahead[w]) != 0
        rejected += lost
        if goes_on:
            of_rows_that_go_on += lost
    return tested, rejected, of_rows_that_go_on


@kernel
def explode(bits: U64) -> tuple[I64, I64]:
    """The pairs (row, slot), by row and then by slot."""
    n, words = bits.shape
    total = 0
    for i in range(n):
        for w in range(words):
            total += popcount(bits[i, w])
    rows, slots = np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for i in range(n):
        for w in range(words):
            word = bits[i, w]
            while word:
                rows[at] = i
                slots[at] = 64 * w + lowest_bit(word)
                at += 1
                word &= word - np.uint64(1)
    return rows, slots


@kernel
def clear_below(bits: U64, values: I64, least: I64) -> None:
    """Clear the slots with a `least` above the row's value."""
    for i in range(bits.shape[0]):
        for w in range(bits.shape[1]):
            word = bits[i, w]
            while word:
                low = lowest_bit(word)
                word &= word - np.uint64(1)
                if values[i] < least[64 * w + low]:
                    bits[i, w] &= ~(np.uint64(1) << low)


@kernel
def clear_departed(bits: U64, ts: I64, instants: I64, length: I64) -> None:
    """Clear the slots with a window that the row has left at its instant."""
    for i in range(bits.shape[0]):
        for w in range(bits.shape[1]):
            word = bits[i, w]
            while word:
                low = lowest_bit(word)
                word &= word - np.uint64(1)
                if departure(ts[i], length[64 * w + low], 0) <= instants[i]:
                    bits[i, w] &= ~(np.uint64(1) << low)


@kernel
def enforce(bits: U64, satisfied: U64, clauses: I64, slots: I64) -> None:
    """Clear the slots that have a clause without a satisfied term (CACQ §3.2.7)."""
    for i in range(bits.shape[0]):
        for c in range(clauses.shape[0]):
            clause, slot = clauses[c], slots[c]
            holds = (satisfied[i, clause >> 6] >> np.uint64(clause & 63)) & np.uint64(1)
            if not holds:
                bits[i, slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))


@kernel
def gather_columns(rows: I64, at: I64, columns: I64) -> I64:
    """The rows at `at` as a column-major matrix in which only the chosen columns are filled."""
    n = at.shape[0]
    out = np.empty((rows.shape[1], n), np.int64)
    for i in range(n):
        row = at[i]
        out[0, i] = rows[row, 0]
        for c in range(columns.shape[0]):
            out[1 + columns[c], i] = rows[row, 1 + columns[c]]
    return out


@kernel
def gather_key(rows: I64, at: I64, base: int, column: int, keys: I64, null: Bool) -> None:
    """Read one column of the rows at positions `at` into `keys`; set `null` where it is NULL.

    Rows already marked in `null` stay marked.
    """
    for i in range(at.shape[0]):
        row = at[i] - base
        keys[i] = rows[row, 1 + column]
        null[i] |= (rows[row, 0] >> column) & 1 != 0


@kernel
def join_rows(out: I64, rows: I64, at: I64, base: int, columns: I64, first: int) -> None:
    """Write columns of the rows at positions `at` to `out` from column `first` on.

    Also sets their NULL bits.
    """
    for i in range(at.shape[0]):
        row = at[i] - base
        nulls = rows[row, 0]
        for c in range(columns.shape[0]):
            out[1 + first + c, i] = rows[row, 1 + columns[c]]
            if nulls:
                out[0, i] |= ((nulls >> columns[c]) & 1) << (first + c)


# ---- order ---------------------------------------------------------------------------
@inlined
def _precedes(places: I64, a: int, b: int) -> bool:
    """Whether column a of a matrix is less than column b; the first matrix row counts most."""
    less = False
    for j in range(places.shape[0]):
        if places[j, a] != places[j, b]:
            less = places[j, a] < places[j, b]
            break
    return less


@kernel
def is_sorted(instants: I64, places: I64, last: I64) -> bool:
    """Whether rows ascend by instant, then by column of the matrix, then by `last`."""
    for i in range(1, instants.shape[0]):
        if instants[i - 1] != instants[i]:
            if instants[i - 1] > instants[i]:
                return False
        elif _precedes(places, i, i - 1):
            return False
        elif last[i - 1] > last[i] and not _precedes(places, i - 1, i):
            return False
    return True


@kernel
def order_rows(instants: I64, places: I64) -> tuple[bool, I64]:
    """Sort rows that ascend by instant by (instant, column of a matrix).

    Returns False and no order if they are sorted already.
    """
    n = instants.shape[0]
    order, moved, start = np.arange(n), False, 0
    while start < n:
        end, ascend = start + 1, True
        while end < n and instants[end] == instants[start]:
            ascend = ascend and not _precedes(places, end, end - 1)
            end += 1
        if not ascend:
            moved = True
            if end - start > _FEW:
                _sort_by_digits(order, start, end, places)
            else:
                _sort_few(order, start, end, places)
        start = end
    return moved, order


@kernel
def _sort_few(order: I64, start: int, end: int, places: I64) -> None:
    """Insertion sort of order[start:end]."""
    for i in range(start + 1, end):
        row, at = order[i], i
        while at > start and _precedes(places, row, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = row


@kernel
def _sort_by_digits(order: I64, start: int, end: int, places: I64) -> None:
    """Radix sort of order[start:end], from the lowest digit on."""
    n = end - start
    rows, other = order[start:end].copy(), np.empty(n, np.int64)
    ends = np.empty(1 << _DIGIT, np.int64)
    for j in range(places.shape[0] - 1, -1, -1):
        least = most = before = places[j, rows[0]]
        ascend = True
        for i in range(1, n):
            place = places[j, rows[i]]
            least, most, ascend = min(least, place), max(most, place), ascend and before <= place
            before = place
        shift = 0
        while not ascend and (most - least) >> shift:
            ends[:] = 0
            for i in range(n):
                ends[((places[j, rows[i]] - least) >> shift) & _MOST] += 1
            for d in range(1, 1 << _DIGIT):
                ends[d] += ends[d - 1]
            for i in range(n - 1, -1, -1):
                digit = ((places[j, rows[i]] - least) >> shift) & _MOST
                ends[digit] -= 1
                other[ends[digit]] = rows[i]
            rows, other = other, rows
            shift += _DIGIT
    order[start:end] = rows


# ---- sets ----------------------------------------------------------------------------


@kernel
def full(slots: I64, words: int) -> U64:
    """The set of these slots as words."""
    out = np.zeros(words, np.uint64)
    for slot in slots:
        out[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    return out
