"""Subscribers: the queries that each row of Q serves on a shard (DESIGN §2).

The driver numbers queries; a shard runs each distinct row once. Queries are identical if they
have the same parameters and see rows from the same epoch on (0 with history; if the template has
no answer for later queries, each query with history has its own row). Row numbers depend only on
the log, so all shards of both levels number them equally. A shard sends changes of a row as
changes of its queries. A query that joins an existing row gets its answer, and a query that
leaves a shared row gets deletions.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.delta import PrefixSets, QuerySets, Sets, start_offsets
from penstock.kernels.subscribers import (
    link_queries,
    link_to_fresh,
    queries_of_rows,
    unlink_queries,
)
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_BY_QUERY, _ENDS = ("row", "after", "before"), ("head", "tail")
_LISTS = (*_BY_QUERY, *_ENDS, "size")
_BY_ROW = ("size", "fresh", "failed")  # number of queries; whether it is new; whether it failed
_NONE = np.empty(0, np.int64)


class Subscribers:
    """The queries of one template by row of Q, in the arena.

    Queries join and leave existing rows at the end of the step (`settle`).
    """

    def __init__(self, scope: Scope, params: int) -> None:
        self.scope = scope
        self._keys = KeyTable(scope.scope("keys"), 2 + params)
        for name in (*_BY_QUERY, *_ENDS):
            scope.array(name, 8, fill=-1)
        for name in _BY_ROW:
            scope.array(name, 8)
        self._fresh: list[I64] = []  # rows of this step
        self._joining: list[tuple[I64, I64]] = []  # queries and their rows
        self._leaving: list[I64] = []

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    def _lists(self) -> list[I64]:
        return [self._arr(name) for name in _LISTS]

    # ---- coming and going ------------------------------------------------------------
    def add(self, queries: I64, params: I64, since: int | I64) -> tuple[I64, I64]:
        """Add queries (column-major parameters, NULL word first) that see rows from `since` on.

        Returns the new rows of Q, and the place in `queries` of the first query of each.
        """
        keys = np.empty((queries.shape[0], 1 + params.shape[0]), np.int64)
        keys[:, 0], keys[:, 1:] = since, params.T
        rows = self._keys.assign(keys)
        self._reserve(queries, rows)
        first, others = link_to_fresh(queries, rows, self._arr("fresh"), *self._lists())
        first = first[np.argsort(rows[first])]
        new = rows[first]
        self._fresh.append(new)
        if others.shape[0]:
            self._joining.append((queries[others], rows[others]))
        return new, first

    def _reserve(self, queries: I64, rows: I64) -> None:
        for names, ids, fill in ((_BY_QUERY, queries, -1), (_ENDS, rows, -1), (_BY_ROW, rows, 0)):
            length = int(ids.max(initial=-1)) + 1
            for name in names:
                self.scope.reserve(name, length, fill)

    def drop(self, queries: I64) -> I64:
        """Remove queries (those that exist); returns the rows of Q without queries."""
        row = self._arr("row")
        queries = np.unique(queries[queries < row.shape[0]])
        queries = queries[row[queries] >= 0]
        self._leaving.append(queries)
        rows, leaving = np.unique(row[queries], return_counts=True)
        return np.asarray(rows[self._arr("size")[rows] == leaving])

    @property
    def joining(self) -> tuple[I64, I64]:
        """Queries that join existing rows, and these rows."""
        if not self._joining:
            return _NONE, _NONE
        queries, rows = zip(*self._joining, strict=True)
        return np.concatenate(queries), np.concatenate(rows)

    def staying(self) -> tuple[I64, I64]:
        """Queries that leave shared rows, and these rows."""
        queries = self._gone()
        if not queries.shape[0]:
            return _NONE, _NONE
        rows = self._arr("row")[queries]
        _, which, leaving = np.unique(rows, return_inverse=True, return_counts=True)
        stay = self._arr("size")[rows] > leaving[which]
        return queries[stay], rows[stay]

    def _gone(self) -> I64:
        return np.concatenate(self._leaving) if self._leaving else _NONE

    def settle(self) -> None:
        """End of a step: complete all joins and leaves."""
        leaving, (joining, theirs) = self._gone(), self.joining
        if leaving.shape[0]:
            rows = np.unique(self._arr("row")[leaving])
            unlink_queries(leaving, *self._lists())
            empty = rows[self._arr("size")[rows] == 0]
            self._arr("failed")[empty] = 0
            self._keys.release(empty)
        link_queries(joining, theirs, *self._lists())
        for new in self._fresh:
            self._arr("fresh")[new] = 0
        self._fresh, self._leaving, self._joining = [], [], []

    # ---- failures --------------------------------------------------------------------
    def fail(self, row: int) -> list[int]:
        """Mark a row of Q as failed and return its queries. Queries that join it later fail too."""
        self._arr("failed")[row] = 1
        _, queries = queries_of_rows(np.array([row]), *self._by_row())
        return sorted(queries.tolist())

    def failing(self) -> list[int]:
        """Queries that join failed rows."""
        queries, rows = self.joining
        return sorted(queries[self._arr("failed")[rows] == 1].tolist())

    # ---- answers ---------------------------------------------------------------------
    def rows_of(self, queries: I64) -> I64:
        """The rows of Q of some queries, ascending; unknown queries are skipped."""
        row = self._arr("row")
        found = row[queries[queries < row.shape[0]]]
        return np.unique(found[found >= 0])

    def row_of(self, query: int) -> int | None:
        """The row of Q of one query, also if it joins in this step; None if unknown."""
        row = self._arr("row")
        if query < row.shape[0] and row[query] >= 0:
            return int(row[query])
        queries, rows = self.joining
        return next(iter(rows[queries == query].tolist()), None)

    def shown(self, changes: Changes, only: I64 | None = None) -> Changes:
        """Changes of rows of Q as changes of their queries, or of some of them."""
        owners = changes.qid if changes.sets is None else changes.sets.items
        offsets, queries = queries_of_rows(owners, *self._by_row())
        theirs = Sets(offsets, queries)
        if only is not None:
            theirs = theirs.keep(np.isin(queries, only))
        if changes.sets is None:
            places = theirs.owners
            if np.array_equal(places, np.arange(len(changes))):
                return changes.with_(qid=theirs.items)
            return changes.take(places).with_(qid=theirs.items)
        return _of_sets(changes, changes.sets, theirs)

    def _by_row(self) -> tuple[I64, I64, I64]:
        return self._arr("after"), self._arr("head"), self._arr("size")

    def __len__(self) -> int:
        return int(self._arr("size").sum())

    @property
    def rows(self) -> int:
        """How many rows of Q there are."""
        return len(self._keys)


def _of_sets(changes: Changes, sets: QuerySets, theirs: Sets) -> Changes:
    """Changes with sets of rows replaced by sets of queries, ascending; empty sets are dropped."""
    if isinstance(sets, PrefixSets):
        spread = sets.spread(theirs.items, theirs.sizes)
        return _not_empty(changes.with_(sets=spread), spread.sizes)
    sizes = np.bincount(np.repeat(sets.owners, theirs.sizes), minlength=len(sets))
    found = Sets(start_offsets(sizes), theirs.items).ascending()
    return _not_empty(changes.with_(sets=found), sizes)


def _not_empty(shown: Changes, sizes: I64) -> Changes:
    kept = np.flatnonzero(sizes[shown.qid])
    return shown if kept.shape[0] == len(shown) else shown.take(kept)
