"""The grouped filter's index: queries in clusters, in a few parts of growing size (CACQ §3.2.6).

Equality constants partition the queries before ranges are looked at. Added queries become a part
of their own; parts of similar size are merged, so that adding costs little and looking a row up
visits few parts. Removed queries leave an empty slot until their part is built again.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I32, I64
from penstock.kernels.grouped_filter import append_rows, sort_rows
from penstock.kernels.grouped_filter_build import BLOCK, Part, build_part
from penstock.kernels.grouped_filter_probe import Probe, probe_part, survey_part
from penstock.kernels.match import GE, GT, LE, LT
from penstock.sharing.grouped_filter_terms import Terms

_GROWTH = 4  # a part is at least so many times as large as the next


class ClusterIndex:
    """Queries of one template, found by the values of a row."""

    def __init__(self, terms: Terms, by_cohort: bool) -> None:
        self._terms = terms
        self._keys = [*terms.equal.tolist(), *([terms.attributes] if by_cohort else [])]
        preds = terms.preds.tolist()
        open_ = [p for p in preds if p[3] not in terms.equal]
        self._lows = sorted({a for op, _, _, a in open_ if op in (GE, GT)})
        self._highs = sorted({a for op, _, _, a in open_ if op in (LE, LT)})
        self._parts: list[Part] = []
        self._live: list[int] = []  # queries of each part that were not removed
        self._slots: I32 = np.full(0, -1, np.int32)  # by qid: slot in its part
        self._part_of: I32 = np.full(0, -1, np.int32)

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    @property
    def clusters(self) -> int:
        """Groups of queries that a row is compared with, or spared, together."""
        sizes = [np.diff(part.starts) for part in self._parts]
        return sum(int(((size + BLOCK - 1) // BLOCK).sum()) for size in sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [a for part in self._parts for a in part]
        return sum(a.nbytes for a in (*arrays, self._slots, self._part_of))

    # ---- membership ------------------------------------------------------------------
    def members(self) -> I64:
        """The queries in the index, ascending."""
        return np.flatnonzero(self._slots >= 0)

    def add(self, qids: I64, params: I64, cohort: I64) -> None:
        """Add queries (ascending); `params` and `cohort` are indexed by qid."""
        if qids.shape[0] == 0:
            return
        self._reserve(int(qids[-1]) + 1)
        self._append(qids, params, cohort)
        while len(self._parts) > 1 and self._live[-1] * _GROWTH >= self._live[-2]:
            both = np.concatenate([self._members_of(-2), self._members_of(-1)])
            del self._parts[-2:], self._live[-2:]
            self._append(np.sort(both), params, cohort)

    def remove(self, qids: I64) -> None:
        """Remove queries; those that are not in the index are passed over."""
        qids = qids[qids < self._slots.shape[0]]
        for p, part in enumerate(self._parts):
            here = qids[(self._part_of[qids] == p) & (self._slots[qids] >= 0)]
            part.qids[self._slots[here]] = -1
            self._slots[here] = -1
            self._live[p] -= here.shape[0]

    def tidy(self, params: I64, cohort: I64) -> None:
        """Build parts again of which most queries were removed."""
        for p in reversed(range(len(self._parts))):
            if self._live[p] * 2 < self._parts[p].qids.shape[0]:
                left = self._members_of(p)
                del self._parts[p], self._live[p]
                self._part_of[self._part_of > p] -= 1
                if left.shape[0]:
                    self._append(left, params, cohort)

    def _members_of(self, p: int) -> I64:
        qids = self._parts[p].qids
        return np.sort(qids[qids >= 0]).astype(np.int64)

    def _reserve(self, size: int) -> None:
        more = max(size, 2 * self._slots.shape[0]) - self._slots.shape[0]
        if size > self._slots.shape[0]:
            none = np.full(more, -1, np.int32)
            self._slots = np.concatenate([self._slots, none])
            self._part_of = np.concatenate([self._part_of, none])

    def _append(self, qids: I64, params: I64, cohort: I64) -> None:
        asked = self._terms.asked(params[qids])
        lows = np.vstack([asked.lows, cohort[qids]])
        keys = lows[self._keys]
        bounds = np.vstack([asked.lows[self._lows], ~asked.highs[self._highs]])
        differs = asked.differs
        if not asked.possible.all():
            good = asked.possible
            qids, keys, bounds, differs = (
                qids[good],
                keys[:, good],
                bounds[:, good],
                differs[:, good],
            )
        if qids.shape[0] == 0:
            return
        part = build_part(keys, bounds, differs, qids)
        self._slots[part.qids] = np.arange(part.qids.shape[0])
        self._part_of[part.qids] = len(self._parts)
        self._parts.append(part)
        self._live.append(part.qids.shape[0])

    # ---- looking up ------------------------------------------------------------------
    def probe(self, values: I64, since: I64, newest: int) -> Probe:
        """Rows as the index takes them: `values` has a matrix row per attribute, lineage last."""
        return Probe(
            values[self._keys],
            np.vstack([values[self._lows], ~values[self._highs]]),
            values[self._terms.unequal],
            values[-1],
            since,
            newest,
        )

    def survey(self, probe: Probe) -> int:
        """How many queries the rows would be compared with."""
        return sum(survey_part(part, probe) for part in self._parts)

    def find(self, probe: Probe) -> tuple[I64, I64]:
        """Where the queries of each row begin (and the end), and these queries, ascending."""
        n = probe.lin.shape[0]
        found: list[tuple[I64, I64]] = []
        for part in self._parts:
            counts = np.zeros(n, np.int64)
            found.append((counts, probe_part(part, probe, counts)))
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(sum((counts for counts, _ in found), np.zeros(n, np.int64)), out=offsets[1:])
        qids = found[0][1] if len(found) == 1 else _merged(offsets, found)
        sort_rows(offsets, qids, self._slots.shape[0])
        return offsets, qids


def _merged(offsets: I64, found: list[tuple[I64, I64]]) -> I64:
    """The queries of several parts, row by row."""
    qids = np.empty(int(offsets[-1]), np.int64)
    ends = offsets[:-1].copy()
    for counts, some in found:
        append_rows(counts, some, ends, qids)
    return qids
