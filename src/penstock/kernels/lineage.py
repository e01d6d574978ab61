"""Lineage bitmaps: bit s of word s // 64 of a row says that query slot s may still take it.

CACQ §3.2.2 keeps with each tuple which queries have rejected it; here a chunk of rows has one
matrix of words, and a row leaves when its words are zero.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I64
from penstock.kernels.grouped_filter_bits import U64, lowest_bit, popcount
from penstock.kernels.jit import kernel


@kernel
def alive_rows(bits: U64) -> I64:
    """Rows that some query may still take."""
    n, words = bits.shape
    out = np.empty(n, np.int64)
    found = 0
    if words == 1:  # no branch that a processor could only guess
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
def rows_using(bits: U64, uses: U64) -> I64:
    """Rows that some query of the set `uses` may still take."""
    n, words = bits.shape
    out = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        for w in range(words):
            if bits[i, w] & uses[w]:
                out[found] = i
                found += 1
                break
    return out[:found]


@kernel
def count_bits(bits: U64, uses: U64) -> int:
    """Pairs of a row and a query of the set `uses` that are still possible."""
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
    """The least epoch of the rows at these positions, and the greatest age at their instants."""
    least, oldest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for i in range(positions.shape[0]):
        at = positions[i] - base
        least = min(least, epoch[at])
        oldest = max(oldest, instants[root[i]] - ts[at])
    return least, oldest


@kernel
def places_among(ts: I64, instants: I64, after: bool) -> I64:
    """Of each instant, in order, the place of the first time ≥ it (`after`: > it)."""
    out = np.empty(instants.shape[0], np.int64)
    if not instants.shape[0]:
        return out
    at = np.searchsorted(ts, instants[0])
    for i in range(instants.shape[0]):
        instant = instants[i]
        while at < ts.shape[0] and (ts[at] < instant or (after and ts[at] == instant)):
            at += 1
        out[i] = at
    return out


@kernel
def count_queries(bits: U64, rows: I64, uses: U64) -> I64:
    """By row of `rows`, how many queries of the set `uses` may still take it."""
    out = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        total = 0
        for w in range(bits.shape[1]):
            total += popcount(bits[rows[i], w] & uses[w])
        out[i] = total
    return out


@kernel
def count_rejected(bits: U64, rows: I64, before: I64, uses: U64, ahead: U64) -> tuple[int, int]:
    """Pairs that `rows` had `before` and have no more; of those, the ones of rows that go on.

    A row goes on if a query of the set `ahead` may still take it.
    """
    rejected = of_rows_that_go_on = 0
    for i in range(rows.shape[0]):
        lost = before[i]
        goes_on = False
        for w in range(bits.shape[1]):
            word = bits[rows[i], w]
            lost -= popcount(word & uses[w])
            goes_on |= (word & ahead[w]) != 0
        rejected += lost
        if goes_on:
            of_rows_that_go_on += lost
    return rejected, of_rows_that_go_on


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
    """Take from each row the slots whose `least` is more than the row's value."""
    for i in range(bits.shape[0]):
        for w in range(bits.shape[1]):
            word = bits[i, w]
            while word:
                low = lowest_bit(word)
                word &= word - np.uint64(1)
                if values[i] < least[64 * w + low]:
                    bits[i, w] &= ~(np.uint64(1) << low)


@kernel
def enforce(bits: U64, satisfied: U64, clauses: I64, slots: I64) -> None:
    """Take from each row the slots of which a clause has no term that holds (CACQ §3.2.7)."""
    for i in range(bits.shape[0]):
        for c in range(clauses.shape[0]):
            clause, slot = clauses[c], slots[c]
            holds = (satisfied[i, clause >> 6] >> np.uint64(clause & 63)) & np.uint64(1)
            if not holds:
                bits[i, slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))


@kernel
def gather_columns(rows: I64, at: I64, columns: I64) -> I64:
    """Rows at `at` as a column-major matrix; of the columns only the chosen ones are filled."""
    n = at.shape[0]
    out = np.empty((rows.shape[1], n), np.int64)
    for i in range(n):
        row = at[i]
        out[0, i] = rows[row, 0]
        for c in range(columns.shape[0]):
            out[1 + columns[c], i] = rows[row, 1 + columns[c]]
    return out


@kernel
def join_rows(out: I64, rows: I64, at: I64, columns: I64, first: int) -> None:
    """Write columns of the rows at `at` into `out` from column `first` on, NULL bits too."""
    for i in range(at.shape[0]):
        row = at[i]
        nulls = rows[row, 0]
        for c in range(columns.shape[0]):
            out[1 + first + c, i] = rows[row, 1 + columns[c]]
            if nulls:
                out[0, i] |= ((nulls >> columns[c]) & 1) << (first + c)


@kernel
def is_sorted(keys: I64) -> bool:
    """Whether the columns of a matrix ascend, the first matrix row deciding first."""
    for i in range(1, keys.shape[1]):
        for j in range(keys.shape[0]):
            if keys[j, i - 1] < keys[j, i]:
                break
            if keys[j, i - 1] > keys[j, i]:
                return False
    return True


def full(slots: I64, words: int) -> U64:
    """The set of these slots as words."""
    out = np.zeros(words, np.uint64)
    np.bitwise_or.at(out, slots >> 6, np.uint64(1) << (slots & 63).astype(np.uint64))
    return out
