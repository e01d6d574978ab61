"""Evaluates conditions on pairs that an index cannot decide, on the pairs that it finds."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage
from penstock.eddy.results import Matches
from penstock.expressions.condition import Condition
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hidden, Totals
from penstock.indexes.pairs.shape import Checked, PairShape
from penstock.kernels.lineage import join_rows
from penstock.queries.query_table import QueryTable
from penstock.stems.log_view import LogView

_MOST_PAIRS = 1 << 20  # most pairs evaluated at once


class Exactness(Protocol):
    """Tells which queries an index decides alone."""

    def exact(self, qids: I64) -> Bool:
        """Whether each of these queries takes exactly the pairs that were found."""


class PairCheck:
    """Evaluates the remaining conditions; reports queries with a condition that fails."""

    def __init__(self, shape: PairShape, queries: QueryTable, ctx: Context) -> None:
        self._key, self._queries, self._ctx = shape.key, queries, ctx
        self._rest = None if shape.rest is None else _Prepared(shape.rest, ctx)
        self._whole = None if shape.whole is None else _Prepared(shape.whole, ctx)

    def passing(
        self, found: Matches, views: list[LogView], index: Exactness, totals: Totals
    ) -> Matches:
        """Keep the matches that satisfy all conditions."""
        found = self.of_one_key(found, views)
        if self._whole is not None and len(found):
            open_ = ~index.exact(found.qids)
            if open_.any():
                keep = ~open_
                keep[open_] = self._holds(
                    self._whole, found.take(np.flatnonzero(open_)), views, totals
                )
                found = found.take(np.flatnonzero(keep))
        if self._rest is not None and len(found):
            found = found.take(np.flatnonzero(self._holds(self._rest, found, views, totals)))
        return found

    @property
    def reads_queries(self) -> bool:
        """Whether there is a condition that no query leaves to the index."""
        return self._rest is not None

    def of_one_key(self, found: Matches, views: list[LogView]) -> Matches:
        """Keep the matches with equal keys; the index compares a hash of several columns."""
        if len(self._key) <= 1:
            return found
        return found.take(np.flatnonzero(self._same_key(found, views)))

    def _same_key(self, found: Matches, views: list[LogView]) -> Bool:
        places = [p - view.base for p, view in zip(found.positions, views, strict=True)]
        same = np.ones(len(found), np.bool_)
        for left, right in self._key:
            words = views[0].rows[places[0], 1 + left], views[1].rows[places[1], 1 + right]
            same &= words[0] == words[1]
        return same

    def _holds(
        self, asked: _Prepared, found: Matches, views: list[LogView], totals: Totals
    ) -> Bool:
        keep = np.empty(len(found), np.bool_)
        for start in range(0, len(found), _MOST_PAIRS):
            part = slice(start, start + _MOST_PAIRS)
            some = Matches(found.positions[:, part], found.instants[part], found.qids[part])
            keep[part] = self._evaluated(asked, asked.columns(some, views), some.qids, totals)
        return keep

    def _evaluated(self, asked: _Prepared, rows: I64, qids: I64, totals: Totals) -> Bool:
        hidden = Hidden()
        try:
            taken = asked.condition.mask(rows, self._queries.params_of(qids), hidden)
            totals.count(hidden, np.ones(qids.shape[0], np.int8))
            return taken
        except EvaluationError as error:
            self._ctx.failures.add(Lineage.QUERY, qids[error.bad], error.reason)
            keep, good = np.zeros(qids.shape[0], np.bool_), np.flatnonzero(~error.bad)
            if good.shape[0]:
                few = np.ascontiguousarray(rows[:, good])
                keep[good] = self._evaluated(asked, few, qids[good], totals)
            return keep


class _Prepared:
    """A condition ready for evaluation, and the places of its columns."""

    def __init__(self, checked: Checked, ctx: Context) -> None:
        self.condition = Condition.of(checked.condition, ctx)
        self._width = len(checked.columns)
        self._sides = []
        for side in (0, 1):
            places = [at for at, (s, _) in enumerate(checked.columns) if s == side]
            columns = np.array([checked.columns[at][1] for at in places], np.int64)
            self._sides.append((columns, places[0] if places else 0))

    def columns(self, found: Matches, views: list[LogView]) -> I64:
        """The columns of pairs that the condition reads, NULL word first."""
        rows = np.empty((1 + self._width, len(found)), np.int64)
        rows[0] = 0
        for side, (columns, first) in enumerate(self._sides):
            view = views[side]
            join_rows(rows, view.rows, found.positions[side], view.base, columns, first)
        return rows
