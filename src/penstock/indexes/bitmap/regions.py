"""Regions of one value, each with a bitmap of the slots that take it (CACQ §3.2.6-3.2.7).

The constants of all queries cut the values into regions. Each region, and NULL, has a bitmap of the
slots that take its values. Slots without a term take everything. A term that is part of an OR
removes no slot: it marks its clause as satisfied. Adding a query cuts a few regions in two and
changes the query's column of bits. Removing a query changes its column; if there are many regions,
equal neighbours are joined.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.kernels.attribute_filter import add_bits, cut_regions, find_places, keep_bits, paint
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import full
from penstock.predicates.interval_sets import IntervalSets
from penstock.predicates.terms import LEAST

CONJUNCT = -1
"""Stands for a clause number if the term is a whole conjunct."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DIRECT = 1 << 16  # largest range of constants for a table by value
_SEARCHED = 4  # with fewer regions, a table by value does not pay
_FEW_REGIONS = 64
_NONE: Bool = np.empty(0, np.bool_)


class RegionBitmaps:
    """Finds which of up to ``64 * words`` slots take a row by one of its values."""

    def __init__(self, words: int) -> None:
        self.words = words
        self._starts: I64 = np.array([LEAST])
        self._places: I32 = np.array([0, 1], np.int32)  # rows of the tables: each region, then NULL
        self._table: U64 = np.full((8, words), _ALL)
        self._clauses: U64 = np.zeros((8, 0), np.uint64)
        self._used = 2  # rows of the tables in use
        self._slots: I64 = np.empty(0, np.int64)  # of each term
        self._of: I64 = np.empty(0, np.int64)  # its clause
        self._sizes: I64 = np.empty(0, np.int64)  # its intervals
        self._direct: I32 | None = None
        self._changed()

    # ---- membership ------------------------------------------------------------------
    @property
    def predicates(self) -> int:
        """The number of terms."""
        return int(self._slots.shape[0])

    @property
    def regions(self) -> int:
        """The number of regions without NULL."""
        return int(self._starts.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        direct = 0 if self._direct is None else self._direct.nbytes
        arrays = (self._starts, self._places, self._table, self._clauses)
        return direct + sum(a.nbytes for a in (*arrays, self._slots, self._of, self._sizes))

    def add(self, slots: I64, intervals: IntervalSets, clauses: I64) -> None:
        """Add a term per slot: a conjunct if clauses[i] is CONJUNCT, else part of that clause."""
        self._cut(intervals)
        is_part = clauses != CONJUNCT
        if not is_part.all():
            self._paint(self._table, slots, intervals, np.flatnonzero(~is_part), True)
        if is_part.any():
            self._widen_clauses(int(clauses.max()) // 64 + 1)
            self._paint(self._clauses, clauses, intervals, np.flatnonzero(is_part), False)
        self._slots = np.concatenate([self._slots, slots])
        self._of = np.concatenate([self._of, clauses])
        self._sizes = np.concatenate([self._sizes, np.diff(intervals.offsets)])
        self._sum_up(slots, clauses)

    def remove(self, slots: I64) -> None:
        """Remove the terms of these slots."""
        leaving = np.zeros(64 * self.words, np.bool_)
        leaving[slots] = True
        gone = leaving[self._slots]
        whole = gone & (self._of == CONJUNCT)
        mask = full(self._slots[whole], self.words)
        for w in np.flatnonzero(mask):
            self._table[: self._used, w] |= mask[w]
        mask = full(self._of[gone & ~whole], self._clauses.shape[1])
        for w in np.flatnonzero(mask):
            self._clauses[: self._used, w] &= ~mask[w]
        self._slots, self._of, self._sizes = (
            a[~gone] for a in (self._slots, self._of, self._sizes)
        )
        self._changed()
        if self.regions > _FEW_REGIONS + 4 * int(self._sizes.sum()):
            self._join()

    def _changed(self) -> None:
        """Recompute the summaries: slots and clauses with terms here, words of whole conjuncts."""
        self.uses: U64 = np.zeros(self.words, np.uint64)
        self.clauses: U64 = np.zeros(0, np.uint64)
        self._from, self._until = self.words, 0
        self._sum_up(self._slots, self._of)

    def _sum_up(self, slots: I64, clauses: I64) -> None:
        """Add some terms to the summaries."""
        self.uses = self.uses | full(slots, self.words)
        part = clauses != CONJUNCT
        if part.any() or self.clauses.shape[0] < self._clauses.shape[1]:
            found = full(clauses[part], self._clauses.shape[1])
            found[: self.clauses.shape[0]] |= self.clauses
            self.clauses, slots = found, slots[~part]
        if slots.shape[0]:
            self._from = min(self._from, int(slots.min()) >> 6)
            self._until = max(self._until, (int(slots.max()) >> 6) + 1)

    def _cut(self, intervals: IntervalSets) -> None:
        """Cut regions so that every interval consists of whole regions."""
        starts, places, copied = cut_regions(
            self._starts, self._places, intervals.lows, intervals.highs, self._used
        )
        if copied.shape[0] == 0:
            return
        first = self._reserve(copied.shape[0])
        for matrix in (self._table, self._clauses):
            matrix[first : self._used] = matrix[copied]
        self._starts, self._places, self._direct = starts, places, None

    def _reserve(self, more: int) -> int:
        """Reserve this many rows of the tables; returns the first."""
        first, self._used = self._used, self._used + more
        if self._used > self._table.shape[0]:
            size = max(self._used, 2 * self._table.shape[0])
            self._table, self._clauses = (
                np.concatenate([m[:first], np.zeros((size - first, m.shape[1]), np.uint64)])
                for m in (self._table, self._clauses)
            )
        return first

    def widen(self, words: int) -> None:
        """Make room for more slots, which take everything."""
        more = np.full((self._table.shape[0], words - self.words), _ALL)
        self._table, self.words = np.hstack([self._table, more]), words
        self._changed()

    def _widen_clauses(self, words: int) -> None:
        """Make room for more clauses."""
        have = self._clauses.shape[1]
        if words > have:
            wider = np.zeros((self._clauses.shape[0], max(words, 2 * have)), np.uint64)
            wider[:, :have] = self._clauses
            self._clauses = wider

    def _paint(
        self, matrix: U64, bits: I64, intervals: IntervalSets, chosen: I64, narrow: bool
    ) -> None:
        """Set or clear the bits of the chosen terms, in ascending order."""
        if len(intervals) > 1:
            chosen = chosen[np.argsort(bits[chosen], kind="stable")]
            bits, intervals = bits[chosen], intervals[chosen]
        paint(
            self._starts, self._places, matrix, bits, intervals.offsets, intervals.lows,
            intervals.highs, intervals.null, narrow,
        )  # fmt: skip

    def _join(self) -> None:
        """Join equal neighbouring regions and remove gaps from the tables."""
        both = np.hstack([self._table[self._places[:-1]], self._clauses[self._places[:-1]]])
        differ = np.concatenate([[True], (both[1:] != both[:-1]).any(axis=1)])
        kept = self._places[np.append(differ, True)]
        self._starts = self._starts[differ]
        self._table, self._clauses = self._table[kept], self._clauses[kept]
        self._places = np.arange(kept.shape[0], dtype=np.int32)
        self._used = kept.shape[0]
        self._direct = None

    # ---- matching --------------------------------------------------------------------
    def narrow(self, values: I64, null: Bool | None, rows: I64, bits: U64, satisfied: U64) -> None:
        """Narrow ``bits[rows[i]]`` to the slots that take values[i]; mark satisfied clauses.

        ``satisfied`` has a bitmap per row with a bit for every clause that has a term here.
        """
        found = find_places(
            values, _NONE if null is None else null, self._starts, self._places, self._by_value()
        )
        if self._from < self._until:
            keep_bits(found, rows, self._table, self._from, self._until, bits)
        if np.count_nonzero(self.clauses):
            add_bits(found, rows, self._clauses, satisfied)

    def _by_value(self) -> I32:
        """The region of each value from the end of region 0 on; empty if the range is too large.

        With few regions, a search is as fast.
        """
        if self._direct is None:
            starts = self._starts
            self._direct = np.empty(0, np.int32)
            if self.regions > _SEARCHED and int(starts[-1]) - int(starts[1]) + 1 < _DIRECT:
                sizes = np.concatenate([[1], np.diff(starts[1:]), [1]])
                self._direct = np.repeat(self._places[:-1], sizes)
        return self._direct
