"""The grouped filter: which queries of a template take which rows (CACQ §3.2.6, DESIGN §5.7).

A pure function of the parameter relation Q, kept as a cache beside it: nothing is in the arena,
so snapshots stay small and a restored arena has no index that could be stale. It follows Q by
its change number, and starts anew when the arena's content was replaced. There are two ways to
answer, with equal results: looking each row up in an index, which pays when rows meet few
queries, and a bit-sliced scan, which pays when they meet many. Predicates with alternatives (ORs
of conditions on several values) are answered for each, and what is found is united.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from weakref import ref

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.delta import Lineage, Sets
from penstock.expressions.context import Context
from penstock.indexes.alternative_index import AlternativeIndex, Method, Queries
from penstock.indexes.entries import Disjunct
from penstock.kernels.grouped_filter import signed_pairs, unite
from penstock.predicates.alternatives import takes_null
from penstock.predicates.clauses import Attribute, Term
from penstock.predicates.terms import ordered
from penstock.queries.query_table import QueryTable

FEWEST_QUERIES = 8
_LEAST_PAIRS = 1 << 13  # fewer are compared one by one before a filter has started
_MOST_PAIRS = 1 << 24  # formed at once only to be counted


class TemplateIndex:
    """The live queries of a template by what they ask of a row.

    `preds` rows are (operator, is_float, parameter, attribute); beside them the terms of one of
    the `alternatives` must hold. Rows come as `values`, the NULL word first and then one matrix
    row per attribute, and their lineage `lin`.
    """

    def __init__(
        self, table: QueryTable, preds: I64, by_cohort: bool,
        attributes: tuple[Attribute, ...] = (), alternatives: tuple[tuple[Term, ...], ...] = ((),),
        ctx: Context | None = None,
    ) -> None:  # fmt: skip
        self.table = table
        self.preds = preds
        self._by_cohort = by_cohort
        terms = [t for some in alternatives for t in some]
        nullable = {attributes.index(t.attribute) for t in terms if takes_null(t.condition)}
        self._nullable = tuple(sorted(nullable))
        floats = {a for a, attribute in enumerate(attributes) if attribute.value.type.is_float}
        self._floats = sorted({*preds[preds[:, 1] == 1, 3].tolist(), *floats})
        self._disjuncts = [
            Disjunct(preds, some, attributes, self._nullable, ctx) for some in alternatives
        ]
        self._identity: Callable[[], I64 | None] = lambda: None
        self._forget()

    def _forget(self) -> None:
        self._version = 0  # up to which change of Q the queries are known
        self._live = Queries(np.empty(0, np.int64), 0)
        self._filters = [
            AlternativeIndex(self.table, disjunct, self._by_cohort) for disjunct in self._disjuncts
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
            self._live = Queries(live, int(table.since(Lineage.QUERY)[live].max(initial=0)))
        return self._live.qids

    def _follow(self) -> None:
        """Let the indexes take over what changed in Q."""
        self.queries()
        for filter_ in self._filters:
            filter_.follow(self._live, self._version)

    # ---- matching --------------------------------------------------------------------
    @staticmethod
    def pays(rows: int, queries: int) -> bool:
        """Whether the filter is expected to take less time than comparing all pairs."""
        return queries >= FEWEST_QUERIES and rows * queries >= _LEAST_PAIRS

    def match(
        self, values: I64, lin: I64, sign: I8, keyed: bool, method: Method | None = None
    ) -> tuple[I64, I64, I8]:
        """All (row, query) pairs that match with their signs, as `match_queries` gives them."""
        return signed_pairs(self.take(values, lin, method), sign, keyed)

    def take(self, values: I64, lin: I64, method: Method | None = None) -> Sets:
        """The queries that take each row, of those that are not `sure` perhaps too many."""
        self._follow()
        inside = self._values(values, lin)
        found = [Sets(*f.take(inside, values[0], method)) for f in self._filters]
        return reduce(unite, found)

    def sure(self, qids: I64) -> Bool:
        """Whether each of these queries takes exactly what `take` said."""
        return reduce(np.logical_and, [f.index.sure(qids) for f in self._filters])

    def choice(self, values: I64, lin: I64) -> Method:
        """The method that `take` chooses for these rows in the first alternative."""
        self._follow()
        return self._filters[0].choice(self._values(values, lin), values[0])

    def count(self, values: I64, lin: I64) -> tuple[I64, I64]:
        """The live queries, and how many of the rows each takes.

        No pair is ever formed, unless alternatives overlap.
        """
        live = self.queries()
        if len(self._filters) == 1:
            inside = self._values(values, lin)
            return live, self._filters[0].count(inside, values[0], self._live, self._version)
        step = max(1, _MOST_PAIRS // max(1, live.shape[0]))
        counts = np.zeros(int(live.max(initial=-1)) + 1, np.int64)
        for i in range(0, lin.shape[0], step):
            some = np.ascontiguousarray(values[:, i : i + step])
            counts += np.bincount(
                self.take(some, lin[i : i + step]).items, minlength=counts.shape[0]
            )
        return live, counts[live]

    def _values(self, values: I64, lin: I64) -> I64:
        """The values of rows as ordered integers, what of them is NULL, and lineage last."""
        named = values.shape[0] - 1
        out = np.empty((named + len(self._nullable) + 1, lin.shape[0]), np.int64)
        out[:named] = values[1:]
        for a in self._floats:
            out[a] = ordered(values[1 + a])
        for i, a in enumerate(self._nullable):
            out[named + i] = values[0] >> a & 1
        out[-1] = lin
        return out

    # ---- facts -----------------------------------------------------------------------
    @property
    def nbytes(self) -> int:
        """Bytes beside Q."""
        return sum(f.nbytes for f in self._filters)

    @property
    def parts(self) -> int:
        """Parts of the indexes, each of which a row is looked up in."""
        return sum(f.index.parts for f in self._filters)

    def explain(self) -> str:
        """How the queries lie in the indexes."""
        self._follow()
        clusters = sum(f.index.clusters for f in self._filters)
        some = len(self._filters)
        ways = f" in {some} alternatives" if some > 1 else ""
        unsure = int((~self.sure(self._live.qids)).sum())
        rest = f", {unsure} queries verified" if unsure else ""
        return f"grouped filter, {clusters} clusters{ways}{rest}"
