"""The bitmap index of a lineage group: conditions on one value that are sets of intervals.

Comparisons, lists, prefixes and NULL tests of all templates share it (CACQ §3.2.6-3.2.7): the value
of a row is computed once and looked up once, for any number of queries.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hidden
from penstock.indexes.bitmap.regions import CONJUNCT, RegionBitmaps
from penstock.indexes.contract import IndexKind, QueryRows, SlotIndex, SlotPredicate, SlotRows
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import columns_of
from penstock.logical.failing import hides
from penstock.predicates.clauses import Attribute

_LOOK_UP = 10.0  # ns


class BitmapIndex:
    """Finds the slots that take a row by one of its values."""

    is_costly = False

    def __init__(self, alias: int, attribute: Attribute, ctx: Context, words: int = 1) -> None:
        self.inputs: tuple[int, ...] = (alias,)
        self._alias, self._attribute, self._ctx = alias, attribute, ctx
        self.hides = hides(attribute.value)
        self._value = attribute.compiled(ctx)
        self._columns = np.array(sorted(columns_of(attribute.value)), np.int64)
        self._regions = RegionBitmaps(words)

    # ---- membership ------------------------------------------------------------------
    @property
    def uses(self) -> U64:
        """The slots that have a predicate here, as a bitmap."""
        return self._regions.uses

    @property
    def predicates(self) -> int:
        """The number of predicates."""
        return self._regions.predicates

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._regions.nbytes

    def exact(self, queries: QueryRows) -> Bool:
        """Which of these queries the intervals represent exactly."""
        return queries.intervals(self._ctx).exact

    def add(self, queries: QueryRows) -> None:
        """Add the intervals of queries."""
        clauses = queries.clauses
        if clauses is None:
            clauses = np.full(queries.ids.shape[0], CONJUNCT)
        self._regions.add(queries.ids, queries.intervals(self._ctx), clauses)

    def remove(self, ids: I64) -> None:
        """Remove the predicates of these slots."""
        self._regions.remove(ids)

    def widen(self, words: int) -> None:
        """Make room for ``64 * words`` slots."""
        self._regions.widen(words)

    # ---- matching --------------------------------------------------------------------
    def match(self, batch: SlotRows) -> U64:
        """Clear from the bitmaps of rows the slots that do not take their values."""
        columns = batch.columns(self._alias, batch.rows, self._columns)
        rows, values, null = self._values(batch, batch.rows, columns)
        self._regions.narrow(values, null, rows, batch.bits, batch.satisfied)
        return batch.bits

    def _values(self, batch: SlotRows, rows: I64, columns: I64) -> tuple[I64, I64, Bool | None]:
        """The rows with a value, the values, and which of them are NULL."""
        hidden = Hidden()
        try:
            values, null = self._value(columns, hidden)
        except EvaluationError as error:
            self._pass(batch, rows[error.bad])
            good = ~error.bad
            return self._values(batch, rows[good], columns[:, good])
        for hid in hidden.found:
            batch.hide(hid, rows[hid.rows], self.uses)
        return rows, values, null

    def _pass(self, batch: SlotRows, rows: I64) -> None:
        """Blame rows for which the value cannot be computed.

        For them, terms of ORs count as true.
        """
        batch.blame(rows, self.uses)
        here = self._regions.clauses
        batch.satisfied[rows, : here.shape[0]] |= here

    def explain(self) -> str:
        """For EXPLAIN: the value that is looked up."""
        return f"filter {self._attribute.value}"


def _attribute(wanted: SlotPredicate) -> Attribute:
    assert wanted.term is not None
    return wanted.term.attribute


def _cost(wanted: SlotPredicate) -> float | None:
    """The cost of one look-up, which serves the predicates of all queries."""
    return None if wanted.term is None or len(wanted.inputs) > 1 else _LOOK_UP


def _key(wanted: SlotPredicate) -> Hashable:
    return wanted.inputs, _attribute(wanted)


def _make(wanted: SlotPredicate, ctx: Context) -> BitmapIndex:
    return BitmapIndex(wanted.inputs[0], _attribute(wanted), ctx)


BITMAP: IndexKind[SlotPredicate, SlotIndex] = IndexKind("bitmap", _cost, _make, _key)
