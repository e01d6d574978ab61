"""The index of all queries of a template: it finds the queries of a row (CACQ §3.2.6, DESIGN §5.7).

It follows Q by its change number and is rebuilt when the arena's content is replaced. It has two
methods with equal results: look-up of each row in clusters, which is fast if rows match few
queries, and a bit-sliced scan, which is fast if they match many. Predicates with alternatives (ORs
of conditions on several values) have one index per alternative; the results are united.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from weakref import ref

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage, Sets
from penstock.expressions.context import Context
from penstock.indexes.contract import AttributeRows, IndexKind, QueryRows, TemplateQueryIndex
from penstock.indexes.template.alternative_index import (
    AlternativeIndex,
    LiveQueries,
    Method,
    OrderedRows,
)
from penstock.indexes.template.entries import AlternativeEntries
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.kernels.grouped_filter import unite
from penstock.predicates.alternatives import takes_null
from penstock.predicates.clauses import Attribute, Term
from penstock.predicates.terms import ordered
from penstock.queries.query_table import QueryTable

FEWEST_QUERIES = 8
_LEAST_PAIRS = 1 << 13  # fewer pairs are compared directly, before an index has started
_MOST_PAIRS = 1 << 24  # most pairs formed at once if they are only counted
_LOOK_UP = 100.0  # ns


class TemplateIndex:
    """Finds the live queries of a template that take a row.

    `preds` rows are (operator, is_float, parameter, attribute). In addition, the terms of one of
    the `alternatives` must hold.
    """

    def __init__(
        self, table: QueryTable, preds: I64, by_cohort: bool,
        attributes: tuple[Attribute, ...] = (), alternatives: tuple[tuple[Term, ...], ...] = ((),),
        ctx: Context | None = None,
    ) -> None:  # fmt: skip
        self.inputs: tuple[int, ...] = (0,)
        self.table = table
        self.preds = preds
        self._by_cohort = by_cohort
        terms = [t for some in alternatives for t in some]
        nullable = {attributes.index(t.attribute) for t in terms if takes_null(t.condition)}
        self._nullable = tuple(sorted(nullable))
        floats = {a for a, attribute in enumerate(attributes) if attribute.value.type.is_float}
        self._floats = sorted({*preds[preds[:, 1] == 1, 3].tolist(), *floats})
        self._entries = [
            AlternativeEntries(preds, some, attributes, self._nullable, ctx)
            for some in alternatives
        ]
        self._identity: Callable[[], I64 | None] = lambda: None
        self._forget()

    def _forget(self) -> None:
        none = np.empty(0, np.int64)
        self._version = 0  # the version of Q of the known live queries
        self._live = LiveQueries(none, 0)
        self._indexed = 0  # the version of Q of the indexes
        self._members = none  # the queries in the indexes
        self._alternatives = [
            AlternativeIndex(self.table, entries, self._by_cohort) for entries in self._entries
        ]

    # ---- membership ------------------------------------------------------------------
    def queries(self) -> I64:
        """The live queries, ascending."""
        table = self.table
        if table.identity is not self._identity():
            self._forget()
            self._identity = ref(table.identity)  # weak: the arena decides when it goes
        if table.version != self._version:
            self._version = table.version
            live = table.live(Lineage.QUERY)
            self._live = LiveQueries(live, int(table.since(Lineage.QUERY)[live].max(initial=0)))
        return self._live.qids

    def _follow(self) -> None:
        """Apply the changes of Q."""
        live = self.queries()
        if self._indexed == self._version:
            return
        table, known = self.table, self._members
        stale = (table.cohort()[known] < 0) | (table.born()[known] > self._indexed)
        new = live[table.born()[live] > self._indexed]
        self.remove(known[stale])
        self.add(QueryRows(new, table.matrix()[new]))
        self._indexed, self._members = self._version, live

    def add(self, queries: QueryRows) -> None:
        """Add queries (ascending)."""
        for index in self._alternatives:
            index.follow(self._live)
            index.add(queries)

    def remove(self, ids: I64) -> None:
        """Remove queries."""
        for index in self._alternatives:
            index.remove(ids)

    # ---- matching --------------------------------------------------------------------
    @staticmethod
    def pays(rows: int, queries: int) -> bool:
        """Whether the index is expected to be faster than comparing all pairs."""
        return queries >= FEWEST_QUERIES and rows * queries >= _LEAST_PAIRS

    def match(self, batch: AttributeRows, method: Method | None = None) -> Sets:
        """The queries that take each row; for queries that are not `exact`, maybe too many rows."""
        self._follow()
        rows = self._ordered(batch)
        return reduce(unite, [index.match(rows, method) for index in self._alternatives])

    def exact(self, qids: I64) -> Bool:
        """Whether `match` is exact for each of these queries."""
        found = [index.clusters.exact(qids) for index in self._alternatives]
        return reduce(np.logical_and, found)

    def choice(self, batch: AttributeRows) -> Method:
        """The method that `match` chooses for these rows in the first alternative."""
        self._follow()
        return self._alternatives[0].choice(self._ordered(batch))

    def count(self, batch: AttributeRows) -> tuple[I64, I64]:
        """The live queries, and the number of rows that each takes.

        Pairs are formed only if alternatives overlap.
        """
        live = self.queries()
        if len(self._alternatives) == 1:
            (index,) = self._alternatives
            index.follow(self._live)
            return live, index.count(self._ordered(batch))
        step = max(1, _MOST_PAIRS // max(1, live.shape[0]))
        counts = np.zeros(int(live.max(initial=-1)) + 1, np.int64)
        for i in range(0, batch.lin.shape[0], step):
            values = np.ascontiguousarray(batch.values[:, i : i + step])
            found = self.match(AttributeRows(values, batch.lin[i : i + step]))
            counts += np.bincount(found.items, minlength=counts.shape[0])
        return live, counts[live]

    def _ordered(self, batch: AttributeRows) -> OrderedRows:
        """The values as ordered integers, which of them are NULL, and lineage last."""
        values, lin = batch.values, batch.lin
        named = values.shape[0] - 1
        out = np.empty((named + len(self._nullable) + 1, lin.shape[0]), np.int64)
        out[:named] = values[1:]
        for a in self._floats:
            out[a] = ordered(values[1 + a])
        for i, a in enumerate(self._nullable):
            out[named + i] = values[0] >> a & 1
        out[-1] = lin
        return OrderedRows(values[0], out)

    # ---- facts -----------------------------------------------------------------------
    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without Q."""
        return sum(index.nbytes for index in self._alternatives)

    @property
    def parts(self) -> int:
        """The number of parts of the indexes; a row is looked up in each."""
        return sum(index.clusters.parts for index in self._alternatives)

    def explain(self) -> str:
        """For EXPLAIN: how the queries are stored."""
        self._follow()
        clusters = sum(index.clusters.clusters for index in self._alternatives)
        some = len(self._alternatives)
        ways = f" in {some} alternatives" if some > 1 else ""
        unsure = int((~self.exact(self._live.qids)).sum())
        rest = f", {unsure} queries verified" if unsure else ""
        return f"grouped filter, {clusters} clusters{ways}{rest}"


# ---- the kind ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TemplateQueries:
    """The input of a template's index: its Q, and the predicates that its queries share."""

    table: QueryTable
    predicates: TemplatePredicates
    by_cohort: bool


def _cost(wanted: TemplateQueries) -> float | None:
    return _LOOK_UP


def _make(wanted: TemplateQueries, ctx: Context) -> TemplateIndex:
    parts = wanted.predicates
    return TemplateIndex(
        wanted.table, parts.preds, wanted.by_cohort, parts.attributes, parts.alternatives, ctx
    )


TEMPLATE: IndexKind[TemplateQueries, TemplateQueryIndex] = IndexKind("template", _cost, _make)
