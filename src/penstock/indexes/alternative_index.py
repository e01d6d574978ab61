"""The grouped filter of one alternative of a template's predicates: an index and a scan.

Which of them answers is a matter of cost: see `grouped_filter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.indexes.cluster_index import ClusterIndex
from penstock.indexes.entries import Disjunct
from penstock.kernels.grouped_filter import list_queries
from penstock.kernels.grouped_filter_probe import Probe
from penstock.kernels.grouped_filter_rank import ranked
from penstock.kernels.grouped_filter_scan import Intervals, count_rows
from penstock.predicates.terms import MOST
from penstock.queries.query_table import QueryTable

Method = Literal["index", "bits"]
_MOST_ROWS = 1 << 14  # of a chunk: larger ones outgrow the second-level cache
_MATRIX_BITS = 1 << 26
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class Queries:
    """The live queries, ascending, and the largest step from which one of them sees rows."""

    qids: I64
    newest: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """What live queries ask, by entry: intervals (lineage is the last attribute), and whose."""

    intervals: Intervals
    owners: I64  # as numbers of live queries
    qids: I64


class AlternativeIndex:
    """Queries that see rows by their lineage and take them by one alternative."""

    def __init__(self, table: QueryTable, disjunct: Disjunct, by_cohort: bool) -> None:
        self._table = table
        self._disjunct = disjunct
        self._by_cohort = by_cohort
        self._live = Queries(np.empty(0, np.int64), 0)
        self._indexed = 0  # up to which change of Q the index is
        self._scanning = 0  # the same of what is scanned
        self._scanned: Scanned | None = None
        self.index = ClusterIndex(disjunct, by_cohort)

    def follow(self, live: Queries, version: int) -> None:
        """Let the index take over what changed in Q."""
        self._live = live
        if self._indexed == version:
            return
        table, index = self._table, self.index
        members = index.members()
        stale = (table.cohort()[members] < 0) | (table.born()[members] > self._indexed)
        index.remove(members[stale])
        new = live.qids[table.born()[live.qids] > self._indexed]
        index.add(new, table.matrix(), table.cohort())
        index.tidy(table.matrix(), table.cohort())
        self._indexed = version

    # ---- matching --------------------------------------------------------------------
    def take(self, values: I64, nulls: I64, method: Method | None) -> tuple[I64, I64]:
        """Where the queries of each row begin (and the end), and these queries, ascending."""
        rows = self._disjunct.rows(nulls)
        if rows.shape[0] == 0 or self._live.qids.shape[0] == 0:
            return np.zeros(nulls.shape[0] + 1, np.int64), np.empty(0, np.int64)
        if (method or self._choose(values, rows)) == "index":
            return self._look_up(values, rows)
        return self._scan_bits(values, rows)

    def count(self, values: I64, nulls: I64, live: Queries, version: int) -> I64:
        """How many of the rows each live query takes: no pair is formed."""
        self._live = live
        rows, asked = self._disjunct.rows(nulls), self._asked(version)
        found = np.zeros(asked.qids.shape[0], np.int64)
        chunk = ranked(values.shape[0], _chunk_rows(rows.shape[0]))
        count_rows(values, rows, chunk, asked.intervals, found)
        if found.shape[0] == live.qids.shape[0] and not self._disjunct.several:
            return found
        counts = np.zeros(live.qids.shape[0], np.int64)
        np.add.at(counts, asked.owners, found)
        return counts

    def _look_up(self, values: I64, rows: I64) -> tuple[I64, I64]:
        n = values.shape[1]
        some = values if rows.shape[0] == n else values[:, rows]
        offsets, qids = self.index.find(self._probe(some))
        if rows.shape[0] < n:
            spread = np.zeros(n + 1, np.int64)
            spread[1 + rows] = np.diff(offsets)
            offsets = np.cumsum(spread)
        return offsets, qids

    def _probe(self, values: I64) -> Probe:
        since = self._table.since(Lineage.QUERY)
        return self.index.probe(values, since, 0 if self._by_cohort else self._live.newest)

    def _scan_bits(self, values: I64, rows: I64) -> tuple[I64, I64]:
        asked = self._asked(self._indexed)
        counts = np.zeros(values.shape[1], np.int64)
        if asked.qids.shape[0] == 0:
            return np.zeros(values.shape[1] + 1, np.int64), asked.qids
        chunk = ranked(values.shape[0], self._bits_rows(rows.shape[0], asked.qids.shape[0]))
        qids = list_queries(values, rows, chunk, asked.intervals, asked.qids, counts)
        return np.concatenate([[0], np.cumsum(counts)]), qids

    def _bits_rows(self, rows: int, entries: int) -> int:
        """Rows in a chunk whose bit matrix is not too large."""
        return _chunk_rows(min(rows, _MATRIX_BITS // entries))

    # ---- choosing --------------------------------------------------------------------
    def choice(self, values: I64, nulls: I64) -> Method:
        """The method that `take` chooses for these rows."""
        return self._choose(values, self._disjunct.rows(nulls))

    def _choose(self, values: I64, rows: I64) -> Method:
        """The method of the smaller cost (about ns), by a sample of rows."""
        n, entries = rows.shape[0], max(self.index.slots, self._live.qids.shape[0])
        size = min(max(n // 64, 1), _SAMPLE)
        sample = values[:, rows[np.linspace(0, n - 1, size).astype(np.int64)]]
        compared = self.index.survey(self._probe(sample)) / size
        tested = len(self._disjunct.keys) + len(self._disjunct.lows) + len(self._disjunct.highs)
        look_up = n * (100 + compared * (2 + tested + self._disjunct.terms.unequal.shape[0]))
        chunk = self._bits_rows(n, entries)
        attributes = values.shape[0]
        per_entry = 60 + 10 * attributes + chunk / 32 * min(attributes, 3)
        scan = -(-n // chunk) * entries * per_entry + 40 * n * attributes
        return "index" if look_up <= scan else "bits"

    def _asked(self, version: int) -> Scanned:
        """What the live queries ask, in their order."""
        if self._scanned is None or self._scanning != version:
            table, qids = self._table, self._live.qids
            entries = self._disjunct.entries(table.matrix()[qids])
            whose = qids[entries.owners]
            lows = table.since(Lineage.QUERY)[whose]
            highs = np.full(lows.shape, MOST)
            if self._by_cohort:
                lows = highs = table.cohort()[whose]
            intervals = Intervals(
                np.vstack([entries.lows, lows]),
                np.vstack([entries.highs, highs]),
                self._disjunct.terms.unequal,
                entries.differs,
            )
            self._scanned, self._scanning = Scanned(intervals, entries.owners, whose), version
        return self._scanned

    @property
    def nbytes(self) -> int:
        """Bytes beside Q."""
        scanned = self._scanned
        arrays = () if scanned is None else (*scanned.intervals, scanned.owners, scanned.qids)
        return self.index.nbytes + sum(a.nbytes for a in arrays)


def _chunk_rows(rows: int) -> int:
    """A power of two that is a multiple of 64 and not much more than `rows`."""
    return min(max(64, 1 << (rows - 1).bit_length()), _MOST_ROWS) if rows else 64
