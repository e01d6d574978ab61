"""Match: stream ⋈ Q (DESIGN §2). It tags the rows of an EPOCH or COHORT edge with their queries.

Predicates on values of the row use an index of the template's queries; if there is little to
compare, one compiled scan does all comparisons. Predicates that neither can decide are evaluated on
the remaining pairs. If such a value cannot be evaluated for a row, all pairs of that row are
tested, conjunct by conjunct (`condition.py`). At the clock, new queries also get the live rows
below that they may see: with history all of them, without history only rows of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.delta import Clock, Delta, Lineage, Sets, merge, start_offsets
from penstock.expressions.condition import Condition
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hidden, Totals
from penstock.indexes.contract import AttributeRows, TemplateQueryIndex
from penstock.indexes.factory import template_index
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.indexes.template.template_index import FEWEST_QUERIES, TemplateQueries
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.match import match_queries
from penstock.logical.expr import conjunction
from penstock.physical.explode import with_sets
from penstock.physical.operator import Operator
from penstock.physical.replacements import other_half
from penstock.physical.specs import MatchSpec

if TYPE_CHECKING:
    from penstock.expressions.context import Context
    from penstock.queries.query_table import QueryTable
    from penstock.state.arena import Scope
    from penstock.state.sets import SetTable

_MOST_PAIRS = 1 << 20  # largest number of pairs that a general predicate evaluates at once


class QueryPairs(NamedTuple):
    """Pairs of a row and a query that takes it, in row order, with the sign of each."""

    rows: I64
    qids: I64
    signs: I8

    def without(self, rows: Bool) -> QueryPairs:
        """The pairs of the other rows.

        `rows` must contain both halves of a replacement or neither.
        """
        keep = ~rows[self.rows]
        return QueryPairs(self.rows[keep], self.qids[keep], self.signs[keep])

    def and_also(self, other: QueryPairs) -> QueryPairs:
        """Merge in the pairs of other rows, in row order; halves of replacements stay adjacent."""
        rows = np.concatenate([self.rows, other.rows])
        qids = np.concatenate([self.qids, other.qids])
        signs = np.concatenate([self.signs, other.signs])
        order = np.argsort(rows - (signs == 2), kind="stable")
        return QueryPairs(rows[order], qids[order], signs[order])


NO_PAIRS = QueryPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))


class MatchOp(Operator):
    """Joins rows with the queries (or cohorts) that see them and take them."""

    def __init__(
        self, spec: MatchSpec, source: Operator, scope: Scope, ctx: Context, queries: QueryTable,
        sets: SetTable | None = None, counting: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        level = spec.edge.lineage
        self.queries = queries
        self._ids = min(level, Lineage.QUERY)  # the level that rows are matched with
        self._sets = sets if level is Lineage.SET else None
        self._ctx = ctx
        self._over_tables = spec.over_tables
        self._predicates = parts = TemplatePredicates(list(spec.predicates), counting)
        self._words = [attribute.words(ctx) for attribute in parts.attributes]
        self.attributes = len(parts.attributes)
        self.string_attributes = tuple(
            i for i, a in enumerate(parts.attributes) if a.value.type.is_string and not a.by_text
        )
        self._verified, self._called, self._scanned = (
            None if part is None else Condition.of(part, ctx)
            for part in (parts.verified, parts.called, parts.scanned)
        )
        self._hidden: Totals | None = None  # collects hidden failures inside `counting`, else None

    @cached_property
    def _whole(self) -> Condition | None:
        """All conjuncts, for rows that the index cannot decide."""
        whole = conjunction(self._predicates.conjuncts)
        return None if whole is None else Condition.of(whole, self._ctx)

    @cached_property
    def _index(self) -> TemplateQueryIndex:
        """The index, built on first use: a flow with few queries never needs it."""
        return _make_index(self._predicates, self.inputs[0].edge.lineage, self.queries, self._ctx)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Match new rows with all queries, and existing rows with new queries that have history."""
        with self.counting():
            found = self.match_live(inputs[0])
        newcomers = self._newcomers()
        if newcomers.shape[0] == 0:
            return found
        below = self.match(self.inputs[0].contents(clock), newcomers)
        return merge([below, found], len(self.edge.schema))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count hidden failures within the block; use it for new rows only."""
        self._hidden = self._ctx.hidden
        try:
            yield
        finally:
            self._hidden = None

    def _live(self) -> I64:
        if self._ids is Lineage.QUERY:
            return self._index.queries()
        return self.queries.live(self._ids)

    def _newcomers(self) -> I64:
        table = self.queries
        new = table.new_cohorts if self._ids is Lineage.COHORT else table.newcomers
        if new.shape[0] == 0:
            return new
        new = table.alive(self._ids, new)  # some may have been dropped in the same step
        if self.inputs[0].edge.lineage is Lineage.COHORT:
            return new[~np.isin(table.cohort()[new], table.new_cohorts)]  # the input delivers those
        return new if self._over_tables else new[table.since(self._ids)[new] == 0]

    def match_live(self, delta: Delta) -> Delta:
        """Match rows with all live queries; a SET edge gets one row with the set of its queries."""
        if len(delta) == 0:
            return Delta.empty(len(self.edge.schema))
        return self.match(delta, self._live(), indexed=self._ids is Lineage.QUERY)

    def match(self, delta: Delta, queries: I64, indexed: bool = False) -> Delta:
        """Match rows with `queries`; a SET edge gets one row with the set of its queries.

        Pass `indexed` only if `queries` are all live queries: the index may then answer.
        """
        if len(delta) == 0 or queries.shape[0] == 0:
            return Delta.empty(len(self.edge.schema))
        if queries.shape[0] == 1 and not self._predicates.conjuncts:
            return self._all_to_one(delta, int(queries[0]))
        indexed = indexed and self._index.pays(len(delta), queries.shape[0])
        if self._sets is not None:
            return with_sets(
                delta, self._taken(delta, queries, indexed), self._sets, self.edge.keyed
            )
        found = self._found(delta, queries, indexed, self.edge.keyed)
        return delta.take(found.rows).with_(lin=found.qids, sign=found.signs)

    def _found(self, delta: Delta, queries: I64, indexed: bool, keyed: bool) -> QueryPairs:
        """The rows and the queries that take them."""
        simple = len(self._predicates.simple_attributes)
        values, bad = self._evaluate(delta, self.attributes if indexed else simple)
        if indexed:
            found = self._look_up(delta, values, keyed)
        else:
            found = QueryPairs(*self._scan(delta, values, self._predicates.preds, queries, keyed))
        if bad is not None:
            bad = bad | bad[other_half(delta.sign)] if keyed else bad
            found = found.without(bad)
        found = self._checked(delta, found, indexed)
        if bad is None:
            return found
        return found.and_also(self._judged(delta, np.flatnonzero(bad), queries, keyed))

    def _checked(self, delta: Delta, found: QueryPairs, indexed: bool) -> QueryPairs:
        """Drop the pairs that fail the predicates which neither index nor scan can decide."""
        if not indexed:
            return self._narrowed(delta, found, self._scanned)
        if self._verified is not None:
            inexact = ~self._index.exact(found.qids)
            if inexact.any():
                found = self._narrowed(delta, found, self._verified, inexact)
        return self._narrowed(delta, found, self._called)

    def _judged(self, delta: Delta, rows: I64, queries: I64, keyed: bool) -> QueryPairs:
        """Test some rows against all queries that see them, with all conjuncts."""
        parts, step = [NO_PAIRS], max(2, _MOST_PAIRS // max(1, queries.shape[0]))
        start = 0
        while start < rows.shape[0]:
            end = min(start + step, rows.shape[0])
            end -= keyed and end < rows.shape[0] and delta.sign[rows[end]] == 2
            some, nothing = delta.take(rows[start:end]), np.zeros((1, end - start), np.int64)
            seen = QueryPairs(
                *self._scan(some, nothing, self._predicates.preds[:0], queries, keyed)
            )
            seen = seen._replace(rows=rows[start + seen.rows])
            parts.append(self._narrowed(delta, seen, self._whole))
            start = end
        return reduce(QueryPairs.and_also, parts)

    def _look_up(self, delta: Delta, values: I64, keyed: bool) -> QueryPairs:
        """Find by the index which queries take which rows."""
        found = self._index.match(AttributeRows(values, delta.lin))
        return QueryPairs(*signed_pairs(found, delta.sign, keyed))

    def _taken(self, delta: Delta, queries: I64, indexed: bool) -> Sets:
        """The queries that take each row."""
        if indexed and self._verified is None and self._called is None:
            values, bad = self._evaluate(delta, self.attributes)
            if bad is None:
                return self._index.match(AttributeRows(values, delta.lin))
        plain = delta.with_(sign=np.ones(len(delta), np.int8))
        found = self._found(plain, queries, indexed, keyed=False)
        return Sets(start_offsets(np.bincount(found.rows, minlength=len(delta))), found.qids)

    def _scan(
        self, delta: Delta, values: I64, preds: I64, queries: I64, keyed: bool
    ) -> tuple[I64, I64, I8]:
        table = self.queries
        by_cohort = self.inputs[0].edge.lineage is Lineage.COHORT
        return match_queries(
            delta.lin, delta.sign, by_cohort, keyed, values, preds,
            table.matrix(), queries, table.since(self._ids), table.cohort(),
        )  # fmt: skip

    def _all_to_one(self, delta: Delta, query: int) -> Delta:
        if self.inputs[0].edge.lineage is Lineage.COHORT:
            seen = delta.lin == self.queries.cohort()[query]
        else:
            seen = delta.lin >= self.queries.since(self._ids)[query]
        if not seen.all():
            delta = delta.take(np.flatnonzero(seen))
        if self._sets is not None:
            query = int(self._sets.intern(np.array([0, 1]), np.array([query]))[0])
        return delta.with_(lin=np.full(len(delta), query))

    def values(self, delta: Delta) -> I64:
        """The attribute values that the index reads: a row of NULL words, then a row per attribute.

        Use it only for attributes that can always be evaluated.
        """
        return self._evaluate(delta, self.attributes)[0]

    def count(self, values: I64, lin: I64) -> tuple[I64, I64]:
        """The live queries, and how many of the rows each takes.

        Needs an index that is always exact.
        """
        return self._index.count(AttributeRows(values, lin))

    def _evaluate(self, delta: Delta, attributes: int) -> tuple[I64, Bool | None]:
        """Evaluate the first attributes of all rows; also return the rows where one failed."""
        values = np.zeros((1 + attributes, len(delta)), np.int64)
        every, bad = np.arange(len(delta)), None
        for p in range(attributes):
            bad = self._fill(values, p, delta, every, bad)
        return values, bad

    def _fill(self, values: I64, p: int, delta: Delta, rows: I64, bad: Bool | None) -> Bool | None:
        """Evaluate attribute `p` of `rows` into `values`.

        Return `bad` plus the rows where it failed.
        """
        whole = rows.shape[0] == len(delta)
        columns = delta.rows if whole else np.ascontiguousarray(delta.rows[:, rows])
        hidden = Hidden()
        try:
            words, null = self._words[p](columns, hidden)
        except EvaluationError as error:
            bad = np.zeros(len(delta), np.bool_) if bad is None else bad
            bad[rows[error.bad]] = True
            return self._fill(values, p, delta, rows[~error.bad], bad)
        if self._hidden is not None:
            self._hidden.count(hidden, delta.sign[rows])
        values[1 + p, rows] = words
        if null is not None:
            values[0, rows] |= null.astype(np.int64) << p
        return bad

    def _narrowed(
        self, delta: Delta, found: QueryPairs, predicate: Condition | None, only: Bool | None = None
    ) -> QueryPairs:
        """Drop the pairs that fail a predicate; `only` limits the pairs that are tested."""
        if predicate is None:
            return found
        keep = np.ones(found.rows.shape[0], np.bool_)
        asked = np.arange(keep.shape[0]) if only is None else np.flatnonzero(only)
        for start in range(0, asked.shape[0], _MOST_PAIRS):
            part = asked[start : start + _MOST_PAIRS]
            keep[part] = self._holds(predicate, delta, found.rows[part], found.qids[part])
        return QueryPairs(found.rows[keep], found.qids[keep], _unpair(found.signs, keep))

    def _holds(self, predicate: Condition, delta: Delta, rows: I64, qids: I64) -> Bool:
        alike = qids.shape[0] > 0 and bool((qids == qids[0]).all())  # one row of constants
        params, hidden = self.queries.params_of(qids[:1] if alike else qids), Hidden()
        try:
            taken = predicate.mask(delta.rows[:, rows], params, hidden)
            if self._hidden is not None:
                self._hidden.count(hidden, delta.sign[rows])
            return taken
        except EvaluationError as error:
            self._ctx.failures.add(self._ids, qids[error.bad], error.reason)
            keep = np.zeros(qids.shape[0], np.bool_)
            good = np.flatnonzero(~error.bad)
            keep[good] = self._holds(predicate, delta, rows[good], qids[good])
            return keep

    def contents(self, clock: Clock) -> Delta:
        """The live rows of the input, matched."""
        return self.match_live(self.inputs[0].contents(clock))

    def how(self) -> str:
        """For EXPLAIN: the number of queries and how they are matched."""
        count = self._live().shape[0]
        return _describe(self._predicates, self._ids, count, lambda: self._index)


def how_matched(spec: MatchSpec, queries: QueryTable, ctx: Context, counting: bool = False) -> str:
    """For EXPLAIN: how an operator of this spec would match these queries.

    Builds an index to tell.
    """
    parts, level = TemplatePredicates(list(spec.predicates), counting), spec.inputs[0].edge.lineage
    ids = min(spec.edge.lineage, Lineage.QUERY)
    count = queries.live(ids).shape[0]
    return _describe(parts, ids, count, lambda: _make_index(parts, level, queries, ctx))


class Descriptions:
    """Texts of `how_matched` by table of queries, kept until a query comes or goes."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[QueryTable, dict[Hashable, tuple[int, str]]]
        self._known = WeakKeyDictionary()

    def of(self, spec: MatchSpec, queries: QueryTable, ctx: Context, counting: bool = False) -> str:
        """The text of `how_matched`."""
        known = self._known.setdefault(queries, {})
        levels = spec.edge.lineage, spec.inputs[0].edge.lineage
        key = spec.predicates, levels, counting
        version, text = known.get(key, (-1, ""))
        if version != queries.version:
            text = how_matched(spec, queries, ctx, counting)
            known[key] = queries.version, text
        return text


def _make_index(
    parts: TemplatePredicates, level: Lineage, queries: QueryTable, ctx: Context
) -> TemplateQueryIndex:
    """Build the index of a template's queries for rows with this level of lineage."""
    wanted = TemplateQueries(queries, parts, level is Lineage.COHORT)
    return template_index(wanted).make(wanted, ctx)


def _describe(
    parts: TemplatePredicates, ids: Lineage, count: int, index: Callable[[], TemplateQueryIndex]
) -> str:
    """For EXPLAIN: the number of queries or cohorts and how they are matched."""
    unit = "cohorts" if ids is Lineage.COHORT else "queries"
    indexed = ids is Lineage.QUERY and bool(parts.conjuncts)
    if not indexed or count < FEWEST_QUERIES:
        return f"× {count} {unit}"
    rest = "" if parts.called is None else f", then {parts.called} on what is left"
    return f"× {count} {unit} ({index().explain()}{rest})"


def _unpair(signs: I8, keep: Bool) -> I8:
    """Signs of the kept rows; the remaining half of a broken replacement becomes ±1."""
    signs = signs.copy()
    first = np.flatnonzero(signs == -2)
    broken = first[keep[first] != keep[first + 1]]
    signs[broken] = -1
    signs[broken + 1] = 1
    return signs[keep]
