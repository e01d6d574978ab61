"""Modules of an eddy that test rows: the grouped filter of a value, and calls (CACQ §3.2.6).

A visit takes queries from the lineage of rows. A row at which an expression has no value keeps
its queries and is blamed: these are judged once more if nothing else rejects the row, in whatever
order it visits. Failures that ON ERROR hides count when the row enters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from penstock.arrays import I64, Bool
from penstock.eddy.lineage_batch import LineageBatch
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hid, Hidden
from penstock.indexes.bitmap_index import BitmapIndex
from penstock.indexes.call_index import CallIndex, Tell
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Expr, columns_of
from penstock.logical.failing import hides
from penstock.predicates.clauses import Term

TellChunk = Callable[[LineageBatch, Hid, I64, U64], None]
"""Takes note of a failure of a chunk's rows that was hidden from slots."""


class FilterStep:
    """All predicates on one value of one alias."""

    def __init__(self, alias: int, term: Term, words: int, ctx: Context, tell: TellChunk) -> None:
        self.alias = alias
        self.name = f"filter {term.value}"
        self.filter = BitmapIndex(words)
        self.hides = hides(term.value)
        self._value, self._tell = term.attribute.compiled(ctx), tell
        self._columns = np.array(sorted(columns_of(term.value)), np.int64)

    @staticmethod
    def key(alias: int, term: Term) -> Hashable:
        """What predicates must have in common to be one module."""
        return (alias, term.attribute)

    @property
    def uses(self) -> U64:
        """Slots with a predicate here."""
        return self.filter.uses

    @property
    def predicates(self) -> int:
        """How many predicates there are."""
        return self.filter.predicates

    def visit(self, chunk: LineageBatch, rows: I64) -> None:
        """Let the rows pass the filter."""
        columns = chunk.columns(self.alias, rows, self._columns)
        good, (values, null) = self._values(chunk, rows, columns)
        rows = rows if good is None else rows[good]
        self.filter.take(values, null, rows, chunk.bits, chunk.satisfied)

    def _values(
        self, chunk: LineageBatch, rows: I64, columns: I64
    ) -> tuple[Bool | None, tuple[I64, Bool | None]]:
        hidden = Hidden()
        try:
            found = self._value(columns, hidden)
            for hid in hidden.found if chunk.enters(self.alias) else ():
                self._tell(chunk, hid, rows[hid.rows], self.uses)
            return None, found
        except EvaluationError as error:
            chunk.blame(rows[error.bad], self.uses)
            self._pass(chunk, rows[error.bad])
            good = ~error.bad
            inner, found = self._values(chunk, rows[good], columns[:, good])
            if inner is not None:
                good[np.flatnonzero(good)[~inner]] = False
            return good, found

    def _pass(self, chunk: LineageBatch, rows: I64) -> None:
        """Terms of clauses count as true where they have no value."""
        here = self.filter.clauses
        chunk.satisfied[rows, : here.shape[0]] |= here


class CallStep:
    """A conjunct that is no test of one value: evaluated once for each distinct call and row."""

    def __init__(
        self, alias: int, predicate: Expr, words: int, ctx: Context, tell: TellChunk
    ) -> None:
        self.alias = alias
        self.name = f"call {predicate}"
        self.filter = CallIndex(predicate, ctx, words)
        self.hides = hides(predicate)
        self._tell = tell
        self._columns = np.array(sorted(columns_of(predicate)), np.int64)

    @staticmethod
    def key(alias: int, predicate: Expr) -> Hashable:
        """What predicates must have in common to be one module."""
        return (alias, "call", predicate)

    @property
    def uses(self) -> U64:
        """Slots with a predicate here."""
        return self.filter.uses

    @property
    def predicates(self) -> int:
        """How many predicates there are."""
        return self.filter.predicates

    def visit(self, chunk: LineageBatch, rows: I64) -> None:
        """Let the rows pass the calls; a stream's row that occurs several times is judged once."""
        if len(chunk.positions) == 1:
            columns = chunk.columns(self.alias, np.arange(len(chunk)), self._columns)
            for fault in self.filter.take(columns, rows, chunk.bits, self._teller(chunk)):
                chunk.blame(fault.rows, fault.slots)
            return
        places = chunk.positions[self.alias][rows]
        _, first, of = np.unique(places, return_index=True, return_inverse=True)
        bits: U64 = np.zeros((first.shape[0], chunk.bits.shape[1]), np.uint64)
        np.bitwise_or.at(bits, of, chunk.bits[rows])
        asked = bits.copy()
        columns = chunk.columns(self.alias, rows[first], self._columns)
        faults = self.filter.take(columns, np.arange(first.shape[0]), bits)
        chunk.bits[rows] &= ~(asked & ~bits)[of]
        for fault in faults:
            chunk.blame(rows[np.isin(of, fault.rows)], fault.slots)

    def _teller(self, chunk: LineageBatch) -> Tell | None:
        return partial(self._tell, chunk) if self.hides and chunk.enters(self.alias) else None


TestStep = FilterStep | CallStep
