"""The grouped filter: which queries of a template take which rows (CACQ §3.2.6, DESIGN §5.7).

A pure function of the parameter relation Q, kept as a cache beside it: nothing is in the arena,
so snapshots stay small and a restored arena has no index that could be stale. It follows Q by
its change number, and starts anew when the arena's content was replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.delta import I8, I64, Level
from penstock.kernels.grouped_filter import list_queries, pair_up
from penstock.kernels.grouped_filter_rank import ranked
from penstock.kernels.grouped_filter_scan import Intervals, count_rows
from penstock.sharing.grouped_filter_terms import Terms
from penstock.sharing.query_table import QueryTable

_MOST_ROWS = 8192  # of a chunk: the bitmaps of a few attributes fit a second-level cache
_FEWEST = 32
_MATRIX_BITS = 1 << 26


@dataclass(frozen=True, slots=True)
class Taken:
    """Queries by row: row i is taken by ``qids[offsets[i]:offsets[i + 1]]``, ascending."""

    offsets: I64
    qids: I64

    def pairs(self, sign: I8, keyed: bool) -> tuple[I64, I64, I8]:
        """(row, query) pairs with signs, in the order and with the signs of `match_queries`."""
        if keyed and (sign == -2).any():
            return pair_up(self.offsets, self.qids, sign)
        per_row = np.diff(self.offsets)
        rows = np.repeat(np.arange(sign.shape[0]), per_row)
        return rows, self.qids, np.repeat(sign, per_row)


class GroupedFilter:
    """The live queries of a template by what they ask of a row."""

    def __init__(self, table: QueryTable, preds: I64, by_cohort: bool) -> None:
        self._table = table
        self._terms = Terms(preds)
        self._by_cohort = by_cohort
        self._identity: I64 | None = None
        self._version = -1
        self._queries: I64 = np.empty(0, np.int64)
        self._intervals: Intervals | None = None

    @staticmethod
    def pays(rows: int, queries: int) -> bool:
        """Whether the filter is expected to take less time than a scan of all pairs."""
        return queries >= _FEWEST and rows >= _FEWEST

    def match(self, values: I64, lin: I64, sign: I8, keyed: bool) -> tuple[I64, I64, I8]:
        """All (row, query) pairs that match with their signs, as `match_queries` gives them."""
        return self.take(values, lin).pairs(sign, keyed)

    def take(self, values: I64, lin: I64) -> Taken:
        """The queries that take each row; `values` holds the NULL word, then the attributes."""
        self._follow()
        asked = self._asked()
        rows = np.flatnonzero(values[0] == 0)
        counts = np.zeros(lin.shape[0], np.int64)
        most = _MATRIX_BITS // max(self._queries.shape[0], 1)
        chunk = ranked(self._terms.attributes + 1, _chunk_rows(min(most, rows.shape[0])))
        ordered = self._terms.values(values, lin)
        qids = list_queries(ordered, rows, chunk, asked, self._queries, counts)
        return Taken(np.concatenate([[0], np.cumsum(counts)]), qids)

    def count(self, values: I64, lin: I64) -> tuple[I64, I64]:
        """The live queries, and how many of the rows each takes: no pair is ever formed."""
        self._follow()
        asked = self._asked()
        rows = np.flatnonzero(values[0] == 0)
        counts = np.zeros(self._queries.shape[0], np.int64)
        chunk = ranked(self._terms.attributes + 1, _chunk_rows(rows.shape[0]))
        count_rows(self._terms.values(values, lin), rows, chunk, asked, counts)
        return self._queries, counts

    def _follow(self) -> None:
        """Take over what changed in Q."""
        table = self._table
        if table.identity is self._identity and table.version == self._version:
            return
        self._identity, self._version = table.identity, table.version
        self._queries = table.live(Level.QUERY)
        self._intervals = None

    def _asked(self) -> Intervals:
        """What the live queries ask, in their order; lineage is one more attribute."""
        if self._intervals is None:
            table = self._table
            asked = self._terms.asked(table.matrix()[self._queries])
            since = table.since(Level.QUERY)[self._queries]
            lows, highs = since, np.full(since.shape, np.iinfo(np.int64).max)
            if self._by_cohort:
                lows = highs = table.cohort()[self._queries]
            # a query that cannot hold asks for an empty interval of lineage
            lows = np.where(asked.possible, lows, 1)
            highs = np.where(asked.possible, highs, 0)
            self._intervals = Intervals(
                np.vstack([asked.lows, lows]),
                np.vstack([asked.highs, highs]),
                self._terms.unequal,
                asked.differs,
            )
        return self._intervals


def _chunk_rows(rows: int) -> int:
    """A power of two that is a multiple of 64 and not much more than `rows`."""
    return min(max(64, 1 << (rows - 1).bit_length()), _MOST_ROWS) if rows else 64
