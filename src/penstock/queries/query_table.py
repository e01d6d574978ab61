"""The parameter relation Q(qid, p1, …, pk) of a template (DESIGN §2), in the arena.

A qid is a recycled row number. `since` is the step from which a query sees rows (0 with
history); queries with equal `since` form a cohort, with a recycled id. Every change has a number,
`version`, and `born` is the number of a row's registration; indexes over Q follow these numbers.
The cost of registering and dropping does not depend on the number of queries: the count of live
rows, a bound below which no row is vacant, and the last cohort are stored beside the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from weakref import ref

import numpy as np

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.kernels.rows import gather_rows
from penstock.queries.recent_changes import RecentChanges
from penstock.state.arena import Scope

_QUERIES, _COHORTS, _VERSION, _LIVE, _LOWEST, _RECENT = 0, 1, 2, 3, 4, 5
_FREE, _LEAVING = -1, -2
_LOOK = 1_024  # rows of Q searched first for a vacant one


class QueryTable:
    """Parameter rows, visibility and cohorts of one template's queries."""

    def __init__(self, scope: Scope, params: int) -> None:
        self.scope = scope
        self.params = params
        scope.array("params", (8, 1 + params))
        scope.array("since", 8)
        scope.array("cohort", 8, fill=-1)
        scope.array("cohort_since", 8)
        scope.array("cohort_refs", 8)
        scope.array("born", 8)
        scope.array("regs", 6)
        self.newcomers: I64 = np.empty(0, np.int64)
        self.new_cohorts: I64 = np.empty(0, np.int64)
        self._identity: Callable[[], I64 | None] = lambda: None
        self._live: dict[tuple[int, Lineage], I64] = {}
        self._recent = RecentChanges()

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    def add(self, params: I64, since: int, qids: I64 | None = None) -> I64:
        """Register rows (column-major, NULL word first) that see rows from epoch `since` on."""
        n = params.shape[1]
        qids = self._free_rows(n) if qids is None else self._take_rows(qids)
        size = int(self._arr("regs")[_QUERIES])
        if size > self._arr("born").shape[0]:
            for name, fill in (("params", 0), ("since", 0), ("cohort", -1), ("born", 0)):
                self.scope.reserve(name, size, fill)
        self._arr("params")[qids] = params.T
        self._arr("since")[qids] = since
        self._arr("born")[qids] = self._count_change(qids)
        cohort, is_new = self._cohort_of(since)
        self._arr("cohort")[qids] = cohort
        self._arr("cohort_refs")[cohort] += n
        self._arr("regs")[_LIVE] += n
        self.newcomers = np.concatenate([self.newcomers, qids]) if len(self.newcomers) else qids
        if is_new:
            self.new_cohorts = np.array([*self.new_cohorts, cohort])
        return qids

    def _free_rows(self, n: int) -> I64:
        return self._take_rows(self.vacant(n))

    def vacant(self, n: int) -> I64:
        """The numbers of `n` new queries."""
        regs, cohort = self._arr("regs"), self._arr("cohort")
        used, at, look = int(regs[_QUERIES]), int(regs[_LOWEST]), max(_LOOK, n)
        if at >= used:
            return np.arange(used, used + n)
        found: list[I64] = []
        missing = n
        while missing and at < used:
            free = at + np.flatnonzero(cohort[at : min(at + look, used)] == _FREE)[:missing]
            if missing == n:
                regs[_LOWEST] = free[0] if free.shape[0] else min(at + look, used)
            found.append(free)
            missing -= free.shape[0]
            at, look = at + look, 4 * look
        return np.concatenate([*found, np.arange(used, used + missing)])

    def _take_rows(self, qids: I64) -> I64:
        """Reserve rows that the caller has chosen."""
        regs = self._arr("regs")
        regs[_QUERIES] = max(int(regs[_QUERIES]), int(qids.max(initial=-1)) + 1)
        return qids

    def _cohort_of(self, since: int) -> tuple[int, bool]:
        regs = self._arr("regs")
        used, recent = int(regs[_COHORTS]), int(regs[_RECENT])
        refs = self._arr("cohort_refs")
        if refs[recent] > 0 and self._arr("cohort_since")[recent] == since:
            return recent, False
        cohort = 0
        if used:
            same = np.flatnonzero((self._arr("cohort_since")[:used] == since) & (refs[:used] > 0))
            if same.shape[0]:
                regs[_RECENT] = same[0]
                return int(same[0]), False
            free = np.flatnonzero(refs[:used] == 0)
            cohort = int(free[0]) if free.shape[0] else used
        regs[_COHORTS], regs[_RECENT] = max(used, cohort + 1), cohort
        self.scope.reserve("cohort_since", cohort + 1)
        self.scope.reserve("cohort_refs", cohort + 1)
        self._arr("cohort_since")[cohort] = since
        return cohort, True

    def drop(self, qids: I64) -> I64:
        """Forget queries (those that exist); returns the cohorts that have no query left."""
        qids = qids[qids < int(self._arr("regs")[_QUERIES])]
        qids = qids[self._arr("cohort")[qids] >= 0]
        cohorts = self._arr("cohort")[qids]
        refs = self._arr("cohort_refs")
        np.subtract.at(refs, cohorts, 1)
        self._vacate(qids)
        self._arr("regs")[_LIVE] -= qids.shape[0]
        self._count_change(qids)
        gone = np.unique(cohorts)
        return np.asarray(gone[refs[gone] == 0])

    def _vacate(self, qids: I64) -> None:
        self._arr("cohort")[qids] = _FREE
        regs = self._arr("regs")
        regs[_LOWEST] = min(int(regs[_LOWEST]), int(qids.min(initial=regs[_QUERIES])))

    def _count_change(self, qids: I64) -> int:
        self._arr("regs")[_VERSION] += 1
        self._look_at_identity()
        self._recent.note(self.version, qids)
        return self.version

    def _look_at_identity(self) -> None:
        """Forget what is known of another content of the arena."""
        if self._identity() is not self.identity:
            self._identity = ref(self.identity)  # weak: the arena decides when it goes
            self._live.clear()
            self._recent = RecentChanges()

    def touched_since(self, version: int) -> I64 | None:
        """The queries that came or went after a version, ascending; None if not known any more."""
        self._look_at_identity()
        return self._recent.since(version)

    @property
    def version(self) -> int:
        """Number of the last change."""
        return int(self._arr("regs")[_VERSION])

    @property
    def identity(self) -> I64:
        """An array that changes its identity when the arena's content is replaced."""
        return self._arr("regs")

    def born(self) -> I64:
        """By qid, the change that registered it."""
        return self._arr("born")

    def hold(self, qids: I64) -> None:
        """Do not reuse the numbers of dropped queries until `release`."""
        self._arr("cohort")[qids] = _LEAVING

    def release(self, qids: I64) -> None:
        """Allow reuse of the numbers of dropped queries."""
        self._vacate(qids[self._arr("cohort")[qids] == _LEAVING])

    def settle(self) -> None:
        """End of a step: no query is new any more."""
        self.newcomers = np.empty(0, np.int64)
        self.new_cohorts = np.empty(0, np.int64)

    def live(self, level: Lineage) -> I64:
        """Ids in use at a level, ascending; the same array until the queries change."""
        known = (self.version, level)
        self._look_at_identity()
        if known not in self._live:
            self._live = {k: ids for k, ids in self._live.items() if k[0] == self.version}
            self._live[known] = self._find_live(level)
        return self._live[known]

    def _find_live(self, level: Lineage) -> I64:
        regs = self._arr("regs")
        if level is Lineage.COHORT:
            return np.flatnonzero(self._arr("cohort_refs")[: regs[_COHORTS]] > 0)
        return np.flatnonzero(self._arr("cohort")[: regs[_QUERIES]] >= 0)

    def alive(self, level: Lineage, ids: I64) -> I64:
        """The members of `ids` that are in use, ascending."""
        by_cohort = level is Lineage.COHORT
        used = self._arr("cohort_refs")[ids] > 0 if by_cohort else self._arr("cohort")[ids] >= 0
        return np.unique(ids[used])

    def only(self) -> int:
        """The query, if there is exactly one; else −1."""
        return int(self.live(Lineage.QUERY)[0]) if len(self) == 1 else -1

    def since(self, level: Lineage) -> I64:
        """The first visible step by id."""
        return self._arr("cohort_since" if level is Lineage.COHORT else "since")

    def cohort(self) -> I64:
        """Cohort by qid (−1: not in use)."""
        return self._arr("cohort")

    def matrix(self) -> I64:
        """Parameters by qid, row-major, NULL word first."""
        return self._arr("params")

    def params_of(self, qids: I64) -> I64:
        """Parameters of each row's query, column-major."""
        return gather_rows(self._arr("params"), qids)

    def __len__(self) -> int:
        return int(self._arr("regs")[_LIVE])
