"""The clusters of one alternative: its entries in a few parts of growing size (CACQ §3.2.6).

Equality constants partition the queries before ranges are tested; a query with a list has a slot
per value. Added queries form a new part, and parts of similar size are merged, so that adding is
cheap and a look-up visits few parts. Removed queries leave empty slots until their part is rebuilt.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.delta import Sets
from penstock.indexes.contract import QueryRows
from penstock.indexes.template.entries import AlternativeEntries
from penstock.kernels.grouped_filter import append_rows, sort_rows
from penstock.kernels.grouped_filter_build import BLOCK, Part, build_part
from penstock.kernels.grouped_filter_probe import Probe, probe_part, survey_part
from penstock.queries.query_table import QueryTable

_GROWTH = 4  # a part is at least this many times larger than the next


class ClusterIndex:
    """Finds the queries of one template by the values of a row."""

    def __init__(self, table: QueryTable, entries: AlternativeEntries, by_cohort: bool) -> None:
        self.inputs: tuple[int, ...] = (0,)
        self._table = table
        self._entries = entries
        self._keys = [*entries.keys, *([entries.terms.attributes] if by_cohort else [])]
        self._parts: list[Part] = []
        self._live: list[int] = []  # slots of each part that are in use
        self._slots: I32 = np.full((1, 0), -1, np.int32)  # by qid: its slots in its part
        self._part_of: I32 = np.full(0, -1, np.int32)
        self._exact: Bool = np.ones(0, np.bool_)  # by qid: whether its entries are exact

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self._parts)

    @property
    def slots(self) -> int:
        """The number of slots in use."""
        return sum(self._live)

    @property
    def clusters(self) -> int:
        """The number of groups of queries that are compared with a row, or skipped, together."""
        sizes = [np.diff(part.starts) for part in self._parts]
        return sum(int(((size + BLOCK - 1) // BLOCK).sum()) for size in sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [a for part in self._parts for a in part]
        return sum(a.nbytes for a in (*arrays, self._slots, self._part_of, self._exact))

    # ---- membership ------------------------------------------------------------------
    def add(self, queries: QueryRows) -> None:
        """Add queries (ascending)."""
        qids = queries.ids
        if qids.shape[0] == 0:
            return
        self._reserve(int(qids[-1]) + 1)
        self._append(qids, queries.params)
        while len(self._parts) > 1 and self._live[-1] * _GROWTH >= self._live[-2]:
            both = np.sort(np.concatenate([self._members_of(-2), self._members_of(-1)]))
            del self._parts[-2:], self._live[-2:]
            self._append(both, self._table.matrix()[both])

    def remove(self, ids: I64) -> None:
        """Remove queries; numbers that are not in the index are skipped."""
        qids = ids[ids < self._part_of.shape[0]]
        for p, part in enumerate(self._parts):
            here = qids[(self._part_of[qids] == p) & (self._slots[0, qids] >= 0)]
            for slots in self._slots:
                used = slots[here][slots[here] >= 0]
                part.qids[used] = -1
                slots[here] = -1
                self._live[p] -= used.shape[0]

    def tidy(self) -> None:
        """Rebuild parts that have lost most of their queries."""
        for p in reversed(range(len(self._parts))):
            if self._live[p] * 2 < self._parts[p].qids.shape[0]:
                left = self._members_of(p)
                del self._parts[p], self._live[p]
                self._part_of[self._part_of > p] -= 1
                if left.shape[0]:
                    self._append(left, self._table.matrix()[left])

    def _members_of(self, p: int) -> I64:
        qids = self._parts[p].qids
        live = qids[qids >= 0].astype(np.int64)
        return np.unique(live) if self._entries.several else np.sort(live)

    def _reserve(self, size: int) -> None:
        have = self._part_of.shape[0]
        if size > have:
            more = max(size, 2 * have) - have
            none = np.full((self._slots.shape[0], more), -1, np.int32)
            self._slots = np.concatenate([self._slots, none], axis=1)
            self._part_of = np.concatenate([self._part_of, none[0]])
            if not self._entries.is_plain:
                self._exact = np.concatenate([self._exact, np.ones(more, np.bool_)])

    def _append(self, qids: I64, params: I64) -> None:
        """Build a part from queries; `params` has a row for each."""
        entries = self._entries.entries(params)
        if not self._entries.is_plain:
            self._exact[qids] = entries.exact
        owners = qids[entries.owners]
        if owners.shape[0] == 0:
            return
        lows = np.vstack([entries.lows, self._table.cohort()[owners]])
        bounds = np.vstack([entries.lows[self._entries.lows], ~entries.highs[self._entries.highs]])
        part = build_part(lows[self._keys], bounds, entries.differs, owners)
        self._note_slots(part.qids)
        self._part_of[owners] = len(self._parts)
        self._parts.append(part)
        self._live.append(part.qids.shape[0])

    def _note_slots(self, qids: I32) -> None:
        """Record the slots of each query of a new part."""
        slots = np.arange(qids.shape[0], dtype=np.int32)
        if not self._entries.several:
            self._slots[0, qids] = slots
            return
        order = np.argsort(qids, kind="stable").astype(np.int32)
        grouped = qids[order]
        first = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
        nth = slots - np.repeat(first, np.diff([*first, grouped.shape[0]]))
        more = int(nth.max()) + 1 - self._slots.shape[0]
        if more > 0:
            none = np.full((more, self._slots.shape[1]), -1, np.int32)
            self._slots = np.concatenate([self._slots, none])
        self._slots[nth, grouped] = order

    # ---- looking up ------------------------------------------------------------------
    def probe(self, values: I64, since: I64, newest: int) -> Probe:
        """Convert rows for look-up: `values` has a matrix row per attribute, lineage last."""
        return Probe(
            values[self._keys],
            np.vstack([values[self._entries.lows], ~values[self._entries.highs]]),
            values[self._entries.terms.unequal],
            values[-1],
            since,
            newest,
        )

    def exact(self, qids: I64) -> Bool:
        """Which of these queries take every row that `match` finds for them."""
        plain = self._entries.is_plain
        return np.ones(qids.shape[0], np.bool_) if plain else self._exact[qids]

    def survey(self, probe: Probe) -> int:
        """The number of comparisons of rows with queries that `match` would make."""
        return sum(survey_part(part, probe) for part in self._parts)

    def match(self, batch: Probe) -> Sets:
        """The queries that take each row, ascending."""
        n = batch.lin.shape[0]
        found: list[tuple[I64, I64]] = []
        for part in self._parts:
            counts = np.zeros(n, np.int64)
            found.append((counts, probe_part(part, batch, counts)))
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(sum((counts for counts, _ in found), np.zeros(n, np.int64)), out=offsets[1:])
        qids = found[0][1] if len(found) == 1 else _merged(offsets, found)
        sort_rows(offsets, qids, self._part_of.shape[0])
        return Sets(offsets, qids)

    def explain(self) -> str:
        """For EXPLAIN: the number of clusters."""
        return f"{self.clusters} clusters"


def _merged(offsets: I64, found: list[tuple[I64, I64]]) -> I64:
    """Merge the queries found in several parts, row by row."""
    qids = np.empty(int(offsets[-1]), np.int64)
    ends = offsets[:-1].copy()
    for counts, some in found:
        append_rows(counts, some, ends, qids)
    return qids
