"""Match: stream ⋈ Q (DESIGN §2). Rows of an EPOCH or COHORT edge get the queries they belong to.

Comparisons of a row's value with a parameter go through the grouped filter, or through one
compiled scan when there is little to compare; other predicates with parameters are evaluated on
the pairs that are left. New queries also get those live rows below that they may see (with
history: all; without: what comes from tables), at the clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.delta import I8, I64, Bool, Clock, Delta, Level, merge
from penstock.kernels.match import match_queries
from penstock.logical.expr import COMPARISONS, Call, Expr, Param, conjunction, params_of
from penstock.physical.evaluate import Compiled, EvaluationError, compile_expr
from penstock.physical.operator import Operator
from penstock.sharing.grouped_filter import FEWEST_QUERIES, GroupedFilter

if TYPE_CHECKING:
    from penstock.physical.context import Context
    from penstock.sharing.query_table import QueryTable
    from penstock.state.arena import Scope

_MOST_PAIRS = 1 << 20  # pairs evaluated at once by a general predicate


def is_simple(part: Expr) -> bool:
    """Whether `part` is ``value <comparison> parameter`` as the compiled scan takes it."""
    if not (isinstance(part, Call) and part.fn in COMPARISONS):
        return False
    value, param = part.args
    comparable = not value.type.is_string or part.fn in ("eq", "ne")
    return isinstance(param, Param) and not params_of(value) and comparable


class MatchOp(Operator):
    """Pairs of rows and the queries (or cohorts) that see them and whose predicates hold."""

    name = "match"

    def __init__(
        self, source: Operator, level: Level, predicates: list[Expr], queries: QueryTable,
        ctx: Context, scope: Scope, over_tables: bool,
    ) -> None:  # fmt: skip
        super().__init__((source,), replace(source.edge, level=level), scope)
        self.queries = queries
        self._ctx = ctx
        self._over_tables = over_tables
        self._predicates = predicates
        simple = [p for p in predicates if isinstance(p, Call) and is_simple(p)]
        values = list(dict.fromkeys(p.args[0] for p in simple))
        self.attributes = len(values)
        self.string_attributes = tuple(i for i, v in enumerate(values) if v.type.is_string)
        self._values = [compile_expr(value, ctx) for value in values]
        rows = [
            (
                COMPARISONS.index(p.fn),
                p.args[0].type.is_float,
                p.args[1].index,
                values.index(p.args[0]),
            )
            for p in simple
            if isinstance(p.args[1], Param)
        ]
        self._preds = np.array(rows, np.int64).reshape(len(rows), 4)
        by_cohort = source.edge.level is Level.COHORT
        self._filter = GroupedFilter(queries, self._preds, by_cohort)
        general = conjunction([p for p in predicates if not is_simple(p)])
        self._general = None if general is None else compile_expr(general, ctx)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Match the new rows with all queries and the rows below with those new with history."""
        found = self.match_live(inputs[0])
        newcomers = self._newcomers()
        if newcomers.shape[0] == 0:
            return found
        below = self.match(self.inputs[0].contents(clock), newcomers)
        return merge([below, found], len(self.edge.schema))

    def _live(self) -> I64:
        if self.edge.level is Level.QUERY:
            return self._filter.queries()
        return self.queries.live(self.edge.level)

    def _newcomers(self) -> I64:
        table = self.queries
        new = table.new_cohorts if self.edge.level is Level.COHORT else table.newcomers
        if new.shape[0] == 0:
            return new
        new = table.alive(self.edge.level, new)  # some may have been dropped in the same step
        if self.inputs[0].edge.level is Level.COHORT:
            return new[~np.isin(table.cohort()[new], table.new_cohorts)]  # those come from below
        return new if self._over_tables else new[table.since(self.edge.level)[new] == 0]

    def match_live(self, delta: Delta) -> Delta:
        """The rows of `delta` once for each query that takes them."""
        if len(delta) == 0:
            return Delta.empty(len(self.edge.schema))
        return self.match(delta, self._live(), indexed=self.edge.level is Level.QUERY)

    def match(self, delta: Delta, queries: I64, indexed: bool = False) -> Delta:
        """The rows of `delta` once for each of `queries` that takes them.

        If `indexed`, `queries` are all that there are, so the grouped filter may answer.
        """
        if len(delta) == 0 or queries.shape[0] == 0:
            return Delta.empty(len(self.edge.schema))
        if queries.shape[0] == 1 and not self._predicates:
            return self._all_to_one(delta, int(queries[0]))
        values = self._evaluate(delta, queries)
        if indexed and self._filter.pays(len(delta), queries.shape[0]):
            rows, qids, signs = self._filter.match(values, delta.lin, delta.sign, self.edge.keyed)
        else:
            rows, qids, signs = self._scan(delta, values, queries)
        if self._general is not None:
            keep = self._general_mask(delta, rows, qids)
            rows, qids, signs = rows[keep], qids[keep], _unpair(signs, keep)
        return delta.take(rows).with_(lin=qids, sign=signs)

    def _scan(self, delta: Delta, values: I64, queries: I64) -> tuple[I64, I64, I8]:
        table = self.queries
        by_cohort = self.inputs[0].edge.level is Level.COHORT
        return match_queries(
            delta.lin, delta.sign, by_cohort, self.edge.keyed, values, self._preds,
            table.matrix(), queries, table.since(self.edge.level), table.cohort(),
        )  # fmt: skip

    def _all_to_one(self, delta: Delta, query: int) -> Delta:
        if self.inputs[0].edge.level is Level.COHORT:
            seen = delta.lin == self.queries.cohort()[query]
        else:
            seen = delta.lin >= self.queries.since(self.edge.level)[query]
        if not seen.all():
            delta = delta.take(np.flatnonzero(seen))
        return delta.with_(lin=np.full(len(delta), query))

    def values(self, delta: Delta, queries: I64) -> I64:
        """What of the rows is compared: an attribute each, the NULL word first."""
        return self._evaluate(delta, queries)

    def count(self, values: I64, lin: I64) -> tuple[I64, I64]:
        """The live queries and how many of the rows each takes (simple predicates only)."""
        return self._filter.count(values, lin)

    def _evaluate(self, delta: Delta, queries: I64) -> I64:
        """The compared values of the rows, NULL word first; NULL where there is none."""
        values = np.zeros((1 + len(self._values), len(delta)), np.int64)
        every = np.arange(len(delta))
        for p, compiled in enumerate(self._values):
            self._fill(values, p, compiled, delta, every, queries)
        return values

    def _fill(
        self, values: I64, p: int, compiled: Compiled, delta: Delta, rows: I64, queries: I64
    ) -> None:
        """One attribute of some rows; a row at which it fails is taken by nobody."""
        whole = rows.shape[0] == len(delta)
        try:
            column = compiled(delta.rows if whole else np.ascontiguousarray(delta.rows[:, rows]))
        except EvaluationError as error:
            bad = rows[error.bad]
            self._fail(delta.lin[bad], queries, error.reason)
            values[0, bad] |= 1 << p
            self._fill(values, p, compiled, delta, rows[~error.bad], queries)
            return
        values[1 + p, rows] = column.data
        if column.null is not None:
            values[0, rows] |= column.null.astype(np.int64) << p

    def _fail(self, lins: I64, queries: I64, reason: str) -> None:
        """Every query that sees a row of these lineages fails."""
        if self.inputs[0].edge.level is Level.COHORT:
            seen = np.isin(self.queries.cohort()[queries], lins)
        else:
            seen = self.queries.since(self.edge.level)[queries] <= lins.max()
        self._ctx.failures.add(self.edge.level, queries[seen], reason)

    def _general_mask(self, delta: Delta, rows: I64, qids: I64) -> Bool:
        keep = np.zeros(rows.shape[0], np.bool_)
        for start in range(0, rows.shape[0], _MOST_PAIRS):
            part = slice(start, start + _MOST_PAIRS)
            keep[part] = self._general_part(delta.rows[:, rows[part]], qids[part])
        return keep

    def _general_part(self, rows: I64, qids: I64) -> Bool:
        assert self._general is not None
        try:
            return self._general.mask(rows, self.queries.params_of(qids))
        except EvaluationError as error:
            self._ctx.failures.add(self.edge.level, qids[error.bad], error.reason)
            keep = np.zeros(qids.shape[0], np.bool_)
            good = np.flatnonzero(~error.bad)
            keep[good] = self._general_part(rows[:, good], qids[good])
            return keep

    def contents(self, clock: Clock) -> Delta:
        """The live rows below, matched."""
        return self.match_live(self.inputs[0].contents(clock))

    def detail(self) -> str:
        """The predicates with parameters, and how many queries there are."""
        what = " AND ".join(map(str, self._predicates))
        unit = "cohorts" if self.edge.level is Level.COHORT else "queries"
        count = self._live().shape[0]
        how = ""
        if self.edge.level is Level.QUERY and self._predicates and count >= FEWEST_QUERIES:
            how = f" ({self._filter.explain()})"
        return f"{what + ' ' if what else ''}× {count} {unit}{how}"


def _unpair(signs: I8, keep: Bool) -> I8:
    """Signs of the kept rows; what is left of a broken replacement pair becomes ±1."""
    signs = signs.copy()
    first = np.flatnonzero(signs == -2)
    broken = first[keep[first] != keep[first + 1]]
    signs[broken] = -1
    signs[broken + 1] = 1
    return signs[keep]
