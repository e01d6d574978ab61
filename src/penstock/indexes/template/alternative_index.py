"""The index of one alternative of a template's predicates: look-up in clusters, or a scan.

Each call uses the cheaper of the two; their results are equal (see `template_index`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.arrays import I64
from penstock.delta import Lineage, Sets, start_offsets
from penstock.indexes.contract import QueryRows
from penstock.indexes.template.cluster_index import ClusterIndex
from penstock.indexes.template.entries import AlternativeEntries
from penstock.kernels.grouped_filter import list_queries
from penstock.kernels.grouped_filter_probe import Probe
from penstock.kernels.grouped_filter_rank import ranked
from penstock.kernels.grouped_filter_scan import Intervals, count_rows
from penstock.predicates.terms import MOST
from penstock.queries.query_table import QueryTable

Method = Literal["index", "bits"]
_MOST_ROWS = 1 << 14  # entries ranked at once: more do not fit the second-level cache
_MATRIX_BITS = 1 << 26
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class LiveQueries:
    """The live queries, ascending, and the latest epoch from which one of them sees rows."""

    qids: I64
    newest: int


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Rows as a NULL word and ordered integers by attribute; the last attribute is the lineage."""

    nulls: I64
    values: I64


@dataclass(frozen=True, slots=True)
class ScannedEntries:
    """Entries of the live queries: intervals by attribute (lineage last), and the query of each."""

    intervals: Intervals
    owners: I64  # indexes of live queries
    qids: I64

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (*self.intervals, self.owners, self.qids))


class AlternativeIndex:
    """Finds the queries that see rows by lineage and accept them by one alternative."""

    def __init__(self, table: QueryTable, entries: AlternativeEntries, by_cohort: bool) -> None:
        self.inputs: tuple[int, ...] = (0,)
        self._table = table
        self._entries = entries
        self._by_cohort = by_cohort
        self._live = LiveQueries(np.empty(0, np.int64), 0)
        self._known: ScannedEntries | None = None  # the live queries that the scan was built for
        self.clusters = ClusterIndex(table, entries, by_cohort)

    # ---- membership ------------------------------------------------------------------
    def follow(self, live: LiveQueries) -> None:
        """Set the live queries; the scan needs nothing else."""
        if live is not self._live:
            self._live, self._known = live, None

    def add(self, queries: QueryRows) -> None:
        """Add queries (ascending) to the clusters."""
        self.clusters.add(queries)
        self.clusters.tidy()

    def remove(self, ids: I64) -> None:
        """Remove queries from the clusters."""
        self.clusters.remove(ids)

    # ---- matching --------------------------------------------------------------------
    def match(self, batch: OrderedRows, method: Method | None = None) -> Sets:
        """Find the queries that take each row, ascending."""
        rows = self._entries.rows(batch.nulls)
        if rows.shape[0] == 0 or self._live.qids.shape[0] == 0:
            return Sets(np.zeros(batch.nulls.shape[0] + 1, np.int64), np.empty(0, np.int64))
        if (method or self._choose(batch.values, rows)) == "index":
            return self._look_up(batch.values, rows)
        return self._scan_bits(batch.values, rows)

    def count(self, batch: OrderedRows) -> I64:
        """The number of rows that each live query takes, without forming pairs."""
        rows, scanned = self._entries.rows(batch.nulls), self._scanned()
        found = np.zeros(scanned.qids.shape[0], np.int64)
        ranks = ranked(batch.values.shape[0], _rows_at_once(rows.shape[0]))
        count_rows(batch.values, rows, ranks, scanned.intervals, found)
        if found.shape[0] == self._live.qids.shape[0] and not self._entries.several:
            return found
        counts = np.zeros(self._live.qids.shape[0], np.int64)
        np.add.at(counts, scanned.owners, found)
        return counts

    def _look_up(self, values: I64, rows: I64) -> Sets:
        n = values.shape[1]
        some = values if rows.shape[0] == n else values[:, rows]
        found = self.clusters.match(self._probe(some))
        if rows.shape[0] == n:
            return found
        sizes = np.zeros(n, np.int64)
        sizes[rows] = found.sizes
        return Sets(start_offsets(sizes), found.items)

    def _probe(self, values: I64) -> Probe:
        since = self._table.since(Lineage.QUERY)
        return self.clusters.probe(values, since, 0 if self._by_cohort else self._live.newest)

    def _scan_bits(self, values: I64, rows: I64) -> Sets:
        scanned = self._scanned()
        sizes = np.zeros(values.shape[1], np.int64)
        if scanned.qids.shape[0] == 0:
            return Sets(start_offsets(sizes), scanned.qids)
        at_once = _matrix_rows(rows.shape[0], scanned.qids.shape[0])
        ranks = ranked(values.shape[0], at_once)
        qids = list_queries(values, rows, ranks, scanned.intervals, scanned.qids, sizes)
        return Sets(start_offsets(sizes), qids)

    # ---- choosing --------------------------------------------------------------------
    def choice(self, batch: OrderedRows) -> Method:
        """The method that `match` chooses for these rows."""
        return self._choose(batch.values, self._entries.rows(batch.nulls))

    def _choose(self, values: I64, rows: I64) -> Method:
        """The cheaper method (cost in ns, roughly), estimated from a sample of rows."""
        n, entries = rows.shape[0], max(self.clusters.slots, self._live.qids.shape[0])
        size = min(max(n // 64, 1), _SAMPLE)
        sample = values[:, rows[np.linspace(0, n - 1, size).astype(np.int64)]]
        compared = self.clusters.survey(self._probe(sample)) / size
        shape = self._entries
        tested = len(shape.keys) + len(shape.lows) + len(shape.highs)
        look_up = n * (100 + compared * (2 + tested + shape.terms.unequal.shape[0]))
        at_once = _matrix_rows(n, entries)
        attributes = values.shape[0]
        per_entry = 60 + 10 * attributes + at_once / 32 * min(attributes, 3)
        scan = -(-n // at_once) * entries * per_entry + 40 * n * attributes
        return "index" if look_up <= scan else "bits"

    def _scanned(self) -> ScannedEntries:
        """The entries of the live queries, in order of query."""
        if self._known is None:
            table, qids = self._table, self._live.qids
            entries = self._entries.entries(table.matrix()[qids])
            owners = qids[entries.owners]
            lows = table.since(Lineage.QUERY)[owners]
            highs = np.full(lows.shape, MOST)
            if self._by_cohort:
                lows = highs = table.cohort()[owners]
            intervals = Intervals(
                np.vstack([entries.lows, lows]),
                np.vstack([entries.highs, highs]),
                self._entries.terms.unequal,
                entries.differs,
            )
            self._known = ScannedEntries(intervals, entries.owners, owners)
        return self._known

    # ---- facts -----------------------------------------------------------------------
    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without Q."""
        return self.clusters.nbytes + (0 if self._known is None else self._known.nbytes)

    def explain(self) -> str:
        """For EXPLAIN: the number of clusters."""
        return self.clusters.explain()


def _matrix_rows(rows: int, entries: int) -> int:
    """The number of rows per matrix (one bit per entry) that keeps the matrix small enough."""
    return _rows_at_once(min(rows, _MATRIX_BITS // entries))


def _rows_at_once(rows: int) -> int:
    """A power of two that is a multiple of 64 and not much more than `rows`."""
    return min(max(64, 1 << (rows - 1).bit_length()), _MOST_ROWS) if rows else 64
