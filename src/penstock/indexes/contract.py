"""The contract of predicate indexes, which find the queries that take a row (DESIGN §5.7).

An index is a cache over rows of Q: it can be dropped and rebuilt at any step, and no part of it is
in the arena. It names the inputs that its predicates read. So an index over rows of one stream and
an index over pairs of rows of two streams have the same contract. Indexes differ in the form of the
rows they get and of the lineage they return: bitmaps of slots in a lineage group (`SlotIndex`),
lists of qids for a whole template (`TemplateQueryIndex`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from penstock.arrays import I64, Bool
from penstock.delta import Sets
from penstock.expressions.context import Context
from penstock.expressions.hidden import Hid
from penstock.indexes.pairs.axes import IsThere, Rows
from penstock.indexes.pairs.rows import Prefixes, ProbingRows, Takers
from penstock.indexes.pairs.sides import Names
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Expr
from penstock.predicates.clauses import Conjunct, Term
from penstock.predicates.interval_sets import IntervalSets

BatchT = TypeVar("BatchT", contravariant=True)
LineageT = TypeVar("LineageT", covariant=True)


@dataclass(frozen=True, slots=True)
class SlotPredicate:
    """A predicate that a lineage group wants indexed: a conjunct, or one term of it."""

    inputs: tuple[int, ...]
    condition: Expr
    term: Term | None  # None: not a condition on a single value

    @staticmethod
    def whole(conjunct: Conjunct) -> SlotPredicate:
        """A conjunct as a single predicate."""
        terms = conjunct.terms
        term = terms[0] if terms is not None and len(terms) == 1 else None
        return SlotPredicate((conjunct.alias,), conjunct.predicate, term)

    @staticmethod
    def parts(conjunct: Conjunct) -> list[SlotPredicate]:
        """The terms of a conjunct; one of them must hold."""
        return [SlotPredicate((conjunct.alias,), t.condition, t) for t in conjunct.terms or ()]


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of Q: for each query the number by which the index knows it, and its parameters.

    The number is a slot in an index of a lineage group and a qid in an index of a template.
    `params` has a row per query, NULL word first. An index that serves several templates also needs
    their `predicate`. If the predicate is a term of an OR, `clauses` has the bit of each query's
    OR: the index sets the bit at rows that satisfy the term, and removes no query from them.
    """

    ids: I64
    params: I64
    predicate: SlotPredicate | None = None
    clauses: I64 | None = None
    _intervals: list[IntervalSets] = field(default_factory=list, compare=False)

    def intervals(self, ctx: Context) -> IntervalSets:
        """The values that each query accepts, by the predicate's term; computed once."""
        if not self._intervals:
            term = None if self.predicate is None else self.predicate.term
            assert term is not None
            self._intervals.append(term.intervals(self.params, ctx))
        return self._intervals[0]

    def with_clauses(self, clauses: I64) -> QueryRows:
        """The same queries with the bit of each query's OR."""
        return QueryRows(self.ids, self.params, self.predicate, clauses, self._intervals)


@runtime_checkable
class PredicateIndex(Protocol[BatchT, LineageT]):
    """Finds queries by what they require of a row, or of a pair of rows."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs that the predicates read: one stream, or two."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without Q."""

    def add(self, queries: QueryRows) -> None:
        """Add queries."""

    def remove(self, ids: I64) -> None:
        """Remove the queries with these numbers."""

    def match(self, batch: BatchT) -> LineageT:
        """Find the queries that take each row of the batch."""

    def explain(self) -> str:
        """The line about the index in EXPLAIN."""


# ---- indexes of a lineage group ------------------------------------------------------
class SlotRows(Protocol):
    """Rows on their way through a lineage group, with the slots that may still take each."""

    @property
    def rows(self) -> I64:
        """The rows that the index must test."""

    @property
    def bits(self) -> U64:
        """A bitmap of slots per row."""

    @property
    def satisfied(self) -> U64:
        """A bitmap of satisfied ORs per row."""

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        """Chosen columns of an input for some rows: NULL word first, columns at their positions."""

    def blame(self, rows: I64, slots: U64) -> None:
        """Record that the predicate cannot be evaluated at these rows.

        Their slots are decided later.
        """

    def hide(self, hid: Hid, rows: I64, slots: U64) -> None:
        """Count a failure at these rows that ON ERROR hides from these slots."""


class SlotIndex(PredicateIndex[SlotRows, U64], Protocol):
    """An index of queries in slots. `match` narrows the bitmaps in place and returns them.

    If the predicate cannot be evaluated for a row, the row keeps its slots and is blamed.
    """

    @property
    def uses(self) -> U64:
        """The slots that have a predicate here, as a bitmap."""

    @property
    def predicates(self) -> int:
        """The number of predicates."""

    @property
    def is_costly(self) -> bool:
        """Whether a row that occurs several times in a batch should be tested only once."""

    @property
    def hides(self) -> bool:
        """Whether matching can hide failures (ON ERROR); such steps have a fixed order."""

    def exact(self, queries: QueryRows) -> Bool:
        """Which of these queries the index decides exactly; the others are verified elsewhere."""

    def widen(self, words: int) -> None:
        """Make room for ``64 * words`` slots."""


# ---- indexes of a template -----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AttributeRows:
    """Rows as values that predicates compare: one array row per attribute, NULL word first."""

    values: I64
    lin: I64  # the lineage of each row: its epoch or its cohort


class TemplateQueryIndex(PredicateIndex[AttributeRows, Sets], Protocol):
    """An index of the queries of a template; it follows Q by itself.

    `match` returns the qids that take each row, ascending. For queries that are not exact, it may
    return too many rows.
    """

    def queries(self) -> I64:
        """The live queries, ascending."""

    def pays(self, rows: int, queries: int) -> bool:
        """Whether the index is expected to be faster than comparing all pairs."""

    def exact(self, qids: I64) -> Bool:
        """Whether `match` is exact for each of these queries."""

    def count(self, batch: AttributeRows) -> tuple[I64, I64]:
        """The live queries, and the number of rows that each takes."""


# ---- indexes of pairs of rows --------------------------------------------------------
class PairQueryIndex(PredicateIndex[ProbingRows, Takers], Protocol):
    """An index of the queries of a template over two streams; `match` is about pairs of rows."""

    def follow(self) -> None:
        """Take in what has changed in Q."""

    def match_coded(self, batch: ProbingRows) -> tuple[Takers, list[Prefixes]]:
        """Like `match`, with some queries of pairs as prefixes of lists; none is in both."""

    def among(self, qids: I64) -> PairQueryIndex:
        """An index of some of the queries alone."""

    def exact(self, qids: I64) -> Bool:
        """Whether each of these queries takes exactly what `match` says."""

    def value_column(self, side: int) -> int:
        """The column of a side by which its rows must be sorted, below the key of the join."""

    def value_columns(self, side: int) -> tuple[int, ...]:
        """All columns that `value_column` may come to be."""

    def settle(self, rows: Rows, is_there: IsThere) -> None:
        """Choose again by which columns rows are sorted, if queries or rows have changed much."""

    def report(self, names: Names) -> dict[str, object]:
        """Numbers for stats()."""

    def notes(self, streams: tuple[str, ...], names: Names) -> list[str]:
        """Lines for EXPLAIN about rows of each of the streams."""


# ---- kinds ---------------------------------------------------------------------------
Wanted = TypeVar("Wanted")
Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True, slots=True)
class IndexKind(Generic[Wanted, Made]):
    """A kind of index, as the factory lists it.

    `cost` is the approximate time per row in ns, or None if the kind cannot decide the predicate.
    Predicates with equal keys share one index. `decides` says whether every query is exact.
    """

    name: str
    cost: Callable[[Wanted], float | None]
    make: Callable[[Wanted, Context], Made]
    key: Callable[[Wanted], Hashable] = lambda wanted: wanted
    decides: bool = False
