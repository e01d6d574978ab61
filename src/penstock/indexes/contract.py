"""What every predicate index offers: which queries take which rows (DESIGN §5.7).

An index is a cache over rows of Q: it can be dropped and built again at any step, and nothing of
it is in the arena. It says which inputs its predicates read, so an index over the rows of one
stream and one over pairs of rows of two streams are the same kind of thing. Indexes differ in the
rows they are asked about and in how they code the answer: bitmaps of slots in a lineage group
(`SlotIndex`), lists of qids for a whole template (`TemplateQueryIndex`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from penstock.arrays import I64, Bool
from penstock.delta import Sets
from penstock.expressions.context import Context
from penstock.expressions.hidden import Hid
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Expr
from penstock.predicates.clauses import Conjunct, Term
from penstock.predicates.interval_sets import IntervalSets

BatchT = TypeVar("BatchT", contravariant=True)
LineageT = TypeVar("LineageT", covariant=True)


@dataclass(frozen=True, slots=True)
class SlotPredicate:
    """What a lineage group wants indexed: a conjunct, or one term of it."""

    inputs: tuple[int, ...]
    condition: Expr
    term: Term | None  # None: it is no condition on a single value

    @staticmethod
    def whole(conjunct: Conjunct) -> SlotPredicate:
        """A conjunct as one predicate."""
        terms = conjunct.terms
        term = terms[0] if terms is not None and len(terms) == 1 else None
        return SlotPredicate((conjunct.alias,), conjunct.predicate, term)

    @staticmethod
    def parts(conjunct: Conjunct) -> list[SlotPredicate]:
        """The terms of a conjunct, of which one must hold."""
        return [SlotPredicate((conjunct.alias,), t.condition, t) for t in conjunct.terms or ()]


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of Q: the number by which an index knows each query, and its parameters.

    The number is a slot in an index of a lineage group and a qid in one of a template. `params`
    has a row per query, NULL word first. An index that serves several templates is told their
    `predicate`. Where that is one of several of an OR, `clauses` has the bit of each query's OR:
    the index sets it at rows that satisfy the predicate, and removes no query from them.
    """

    ids: I64
    params: I64
    predicate: SlotPredicate | None = None
    clauses: I64 | None = None
    _intervals: list[IntervalSets] = field(default_factory=list, compare=False)

    def intervals(self, ctx: Context) -> IntervalSets:
        """The values that each query takes by the term of the predicate; computed once."""
        if not self._intervals:
            term = None if self.predicate is None else self.predicate.term
            assert term is not None
            self._intervals.append(term.intervals(self.params, ctx))
        return self._intervals[0]

    def with_clauses(self, clauses: I64) -> QueryRows:
        """The same queries, each with the bit of its OR."""
        return QueryRows(self.ids, self.params, self.predicate, clauses, self._intervals)


@runtime_checkable
class PredicateIndex(Protocol[BatchT, LineageT]):
    """Queries by what they ask of a row, or of a pair of rows."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs of which the predicates read rows: one stream, or two."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, Q aside."""

    def add(self, queries: QueryRows) -> None:
        """Add queries."""

    def remove(self, ids: I64) -> None:
        """Remove the queries of these numbers."""

    def match(self, batch: BatchT) -> LineageT:
        """The queries that take each row of the batch."""

    def explain(self) -> str:
        """What EXPLAIN says of the index."""


# ---- indexes of a lineage group ------------------------------------------------------
class SlotRows(Protocol):
    """Rows on their way through a lineage group, with the slots that may still take each."""

    @property
    def rows(self) -> I64:
        """The rows that the index is asked about."""

    @property
    def bits(self) -> U64:
        """By row, a bitmap of slots."""

    @property
    def satisfied(self) -> U64:
        """By row, a bitmap of the ORs that hold."""

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        """Chosen columns of an input for some rows, NULL word first, in their place."""

    def blame(self, rows: I64, slots: U64) -> None:
        """The predicate has no value at these rows: their slots are judged at the end."""

    def hide(self, hid: Hid, rows: I64, slots: U64) -> None:
        """Count a failure at these rows that ON ERROR hides from these slots."""


class SlotIndex(PredicateIndex[SlotRows, U64], Protocol):
    """An index of queries in slots. `match` narrows the bitmaps in place and returns them.

    A row at which the predicate has no value keeps its slots and is blamed.
    """

    @property
    def uses(self) -> U64:
        """The slots that have a predicate here, as a bitmap."""

    @property
    def predicates(self) -> int:
        """How many predicates there are."""

    @property
    def is_costly(self) -> bool:
        """Whether a row that occurs several times in a batch is better judged once."""

    @property
    def hides(self) -> bool:
        """Whether matching can hide failures (ON ERROR): visits are then in a fixed order."""

    def exact(self, queries: QueryRows) -> Bool:
        """Which of these queries take no row but theirs; the others are verified elsewhere."""

    def widen(self, words: int) -> None:
        """Make room for ``64 * words`` slots."""


# ---- indexes of a template -----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AttributeRows:
    """Rows as the values that predicates compare: an attribute each, NULL word first."""

    values: I64
    lin: I64  # the lineage of each row: the step in which it came, or its cohort


class TemplateQueryIndex(PredicateIndex[AttributeRows, Sets], Protocol):
    """An index of the queries of a template, which follows Q by itself.

    `match` gives the qids that take each row, ascending, of queries that are not exact perhaps
    too many.
    """

    def queries(self) -> I64:
        """The live queries, ascending."""

    def pays(self, rows: int, queries: int) -> bool:
        """Whether the index is expected to take less time than comparing all pairs."""

    def exact(self, qids: I64) -> Bool:
        """Whether each of these queries takes exactly what `match` says."""

    def count(self, batch: AttributeRows) -> tuple[I64, I64]:
        """The live queries, and how many of the rows each takes."""


# ---- kinds ---------------------------------------------------------------------------
Wanted = TypeVar("Wanted")
Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True, slots=True)
class IndexKind(Generic[Wanted, Made]):
    """A kind of index, as the factory lists it.

    `cost` is about the time of a row in ns, None where the kind cannot decide what is wanted.
    Predicates with equal keys share one index. `decides` says that every query is exact.
    """

    name: str
    cost: Callable[[Wanted], float | None]
    make: Callable[[Wanted, Context], Made]
    key: Callable[[Wanted], Hashable] = lambda wanted: wanted
    decides: bool = False
