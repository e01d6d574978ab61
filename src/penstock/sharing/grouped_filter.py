"""The grouped filter: which queries of a template take which rows (CACQ §3.2.6, DESIGN §5.7).

A pure function of the parameter relation Q, kept as a cache beside it: nothing is in the arena,
so snapshots stay small and a restored arena has no index that could be stale. It follows Q by
its change number, and starts anew when the arena's content was replaced. There are two ways to
answer, with equal results: looking each row up in an index, which pays when rows meet few
queries, and a bit-sliced scan, which pays when they meet many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from weakref import ref

import numpy as np

from penstock.delta import I8, I64, Level
from penstock.kernels.grouped_filter import list_queries, pair_up
from penstock.kernels.grouped_filter_probe import Probe
from penstock.kernels.grouped_filter_rank import ranked
from penstock.kernels.grouped_filter_scan import Intervals, count_rows
from penstock.sharing.grouped_filter_index import ClusterIndex
from penstock.sharing.grouped_filter_terms import MOST, Terms
from penstock.sharing.query_table import QueryTable

Method = Literal["index", "bits"]

FEWEST_QUERIES = 8
_LEAST_PAIRS = 1 << 13  # fewer are compared one by one before a filter has started
_MOST_ROWS = 1 << 14  # of a chunk: larger ones outgrow the second-level cache
_MATRIX_BITS = 1 << 26
_SAMPLE = 64


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
    """The live queries of a template by what they ask of a row.

    `preds` rows are (operator, is_float, parameter, attribute). Rows come as `values`, the NULL
    word first and then one matrix row per attribute, and their lineage `lin`.
    """

    def __init__(self, table: QueryTable, preds: I64, by_cohort: bool) -> None:
        self.table = table
        self.preds = preds
        self._terms = Terms(preds)
        self._by_cohort = by_cohort
        self._identity: Callable[[], I64 | None] = lambda: None
        self._forget()

    def _forget(self) -> None:
        self._version = 0  # up to which change of Q the queries are known
        self._queries: I64 = np.empty(0, np.int64)
        self._newest = 0
        self._indexed = 0  # the same of the index, which is built when it is first asked
        self._index = ClusterIndex(self._terms, self._by_cohort)
        self._intervals: Intervals | None = None

    # ---- membership ------------------------------------------------------------------
    def queries(self) -> I64:
        """The live queries, ascending."""
        table = self.table
        if table.identity is not self._identity():
            self._forget()
            self._identity = ref(table.identity)  # weak: the arena decides when it goes
        if table.version != self._version:
            self._version = table.version
            self._queries = table.live(Level.QUERY)
            self._newest = int(table.since(Level.QUERY)[self._queries].max(initial=0))
            self._intervals = None
        return self._queries

    def add(self, qids: I64) -> None:
        """Take queries of Q (ascending, not yet in) into the index."""
        self._index.add(qids, self.table.matrix(), self.table.cohort())

    def remove(self, qids: I64) -> None:
        """Take queries out of the index."""
        self._index.remove(qids)

    def _follow(self) -> None:
        """Let the index take over what changed in Q."""
        live = self.queries()
        if self._indexed == self._version:
            return
        table = self.table
        members = self._index.members()
        stale = (table.cohort()[members] < 0) | (table.born()[members] > self._indexed)
        self.remove(members[stale])
        self.add(live[table.born()[live] > self._indexed])
        self._index.tidy(table.matrix(), table.cohort())
        self._indexed = self._version

    # ---- matching --------------------------------------------------------------------
    @staticmethod
    def pays(rows: int, queries: int) -> bool:
        """Whether the filter is expected to take less time than comparing all pairs."""
        return queries >= FEWEST_QUERIES and rows * queries >= _LEAST_PAIRS

    def match(
        self, values: I64, lin: I64, sign: I8, keyed: bool, method: Method | None = None
    ) -> tuple[I64, I64, I8]:
        """All (row, query) pairs that match with their signs, as `match_queries` gives them."""
        return self.take(values, lin, method).pairs(sign, keyed)

    def take(self, values: I64, lin: I64, method: Method | None = None) -> Taken:
        """The queries that take each row."""
        self._follow()
        rows = np.flatnonzero(values[0] == 0)
        if rows.shape[0] == 0 or self._queries.shape[0] == 0:
            return Taken(np.zeros(lin.shape[0] + 1, np.int64), np.empty(0, np.int64))
        ordered = self._terms.values(values, lin)
        if (method or self._choose(ordered, rows)) == "index":
            return self._look_up(ordered, rows)
        return self._scan_bits(ordered, rows)

    def choice(self, values: I64, lin: I64) -> Method:
        """The method that `take` chooses for these rows."""
        self._follow()
        return self._choose(self._terms.values(values, lin), np.flatnonzero(values[0] == 0))

    def count(self, values: I64, lin: I64) -> tuple[I64, I64]:
        """The live queries, and how many of the rows each takes: no pair is ever formed."""
        self.queries()
        rows = np.flatnonzero(values[0] == 0)
        counts = np.zeros(self._queries.shape[0], np.int64)
        chunk = ranked(self._terms.attributes + 1, _chunk_rows(rows.shape[0]))
        count_rows(self._terms.values(values, lin), rows, chunk, self._asked(), counts)
        return self._queries, counts

    def _look_up(self, values: I64, rows: I64) -> Taken:
        n = values.shape[1]
        some = values if rows.shape[0] == n else values[:, rows]
        offsets, qids = self._index.find(self._probe(some))
        if rows.shape[0] < n:
            spread = np.zeros(n + 1, np.int64)
            spread[1 + rows] = np.diff(offsets)
            offsets = np.cumsum(spread)
        return Taken(offsets, qids)

    def _probe(self, values: I64) -> Probe:
        since = self.table.since(Level.QUERY)
        return self._index.probe(values, since, 0 if self._by_cohort else self._newest)

    def _scan_bits(self, values: I64, rows: I64) -> Taken:
        counts = np.zeros(values.shape[1], np.int64)
        chunk = ranked(self._terms.attributes + 1, self._bits_rows(rows.shape[0]))
        qids = list_queries(values, rows, chunk, self._asked(), self._queries, counts)
        return Taken(np.concatenate([[0], np.cumsum(counts)]), qids)

    def _bits_rows(self, rows: int) -> int:
        """Rows in a chunk whose bit matrix is not too large."""
        return _chunk_rows(min(rows, _MATRIX_BITS // self._queries.shape[0]))

    # ---- choosing --------------------------------------------------------------------
    def _choose(self, values: I64, rows: I64) -> Method:
        """The method of the smaller cost (about ns), by a sample of rows."""
        n, queries = rows.shape[0], self._queries.shape[0]
        size = min(max(n // 64, 1), _SAMPLE)
        sample = values[:, rows[np.linspace(0, n - 1, size).astype(np.int64)]]
        compared = self._index.survey(self._probe(sample)) / size
        look_up = n * (100 + compared * (2 + self._terms.preds.shape[0]))
        chunk = self._bits_rows(n)
        attributes = self._terms.attributes + 1
        per_query = 60 + 10 * attributes + chunk / 32 * min(attributes, 3)
        scan = -(-n // chunk) * queries * per_query + 40 * n * attributes
        return "index" if look_up <= scan else "bits"

    def _asked(self) -> Intervals:
        """What the live queries ask, in their order; lineage is one more attribute."""
        if self._intervals is None:
            table = self.table
            asked = self._terms.asked(table.matrix()[self._queries])
            lows = table.since(Level.QUERY)[self._queries]
            highs = np.full(lows.shape, MOST)
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

    @property
    def nbytes(self) -> int:
        """Bytes beside Q."""
        return self._index.nbytes + sum(a.nbytes for a in self._intervals or ())

    @property
    def parts(self) -> int:
        """Parts of the index, each of which a row is looked up in."""
        return self._index.parts

    def explain(self) -> str:
        """How the queries lie in the index."""
        self._follow()
        return f"grouped filter, {self._index.clusters} clusters"


def _chunk_rows(rows: int) -> int:
    """A power of two that is a multiple of 64 and not much more than `rows`."""
    return min(max(64, 1 << (rows - 1).bit_length()), _MOST_ROWS) if rows else 64
