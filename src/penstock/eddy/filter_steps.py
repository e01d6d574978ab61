"""The routing step that filters rows with a predicate index (CACQ §3.2.6).

The index removes queries from the lineage of rows. If its predicate cannot be evaluated for a row,
the row keeps its queries and is blamed: unless another step rejects it, `verdict` evaluates the
queries' conditions once more. So the order of visits does not matter. Failures that ON ERROR hides
are counted once, when the row enters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64
from penstock.eddy.lineage_batch import LineageBatch
from penstock.expressions.hidden import Hid
from penstock.indexes.contract import SlotIndex
from penstock.kernels.grouped_filter_bits import U64

CountHidden = Callable[[LineageBatch, Hid, I64, U64], None]
"""Counts a hidden failure at rows of a batch, for the queries in some slots."""


@dataclass(frozen=True, slots=True)
class VisitingRows:
    """Rows of a batch in the form that an index reads (`SlotRows`)."""

    batch: LineageBatch
    rows: I64
    inputs: tuple[int, ...]
    count_hidden: CountHidden

    @property
    def bits(self) -> U64:
        """A bitmap of slots per row."""
        return self.batch.bits

    @property
    def satisfied(self) -> U64:
        """A bitmap of satisfied ORs per row."""
        return self.batch.satisfied

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        """Chosen columns of an alias for some rows."""
        return self.batch.columns(alias, rows, columns)

    def blame(self, rows: I64, slots: U64) -> None:
        """Mark the pairs of these rows and slots as undecided."""
        self.batch.blame(rows, slots)

    def hide(self, hid: Hid, rows: I64, slots: U64) -> None:
        """Count a hidden failure, unless these rows were counted before they were joined."""
        first = len(self.batch.positions) == len(self.inputs)
        if first and self.batch.entry.alias in self.inputs:
            self.count_hidden(self.batch, hid, rows, slots)


@dataclass(slots=True)
class DistinctRows:
    """The distinct rows of some inputs in a batch of joined rows, in the form that an index reads.

    The lineage of a distinct row is the union over all joined rows that contain it.
    """

    batch: LineageBatch
    joined: I64  # places of the joined rows in the batch
    first: I64  # one joined row for each distinct row
    of: I64  # the distinct row of each joined row
    bits: U64
    satisfied: U64
    faults: list[tuple[I64, U64]] = field(default_factory=list)

    @staticmethod
    def among(batch: LineageBatch, joined: I64, inputs: tuple[int, ...]) -> DistinctRows:
        """Collect the distinct rows of `inputs` among some rows of a batch."""
        places = np.stack([batch.positions[alias][joined] for alias in inputs])
        one, axis = (places[0], None) if len(inputs) == 1 else (places, 1)
        _, first, of = np.unique(one, return_index=True, return_inverse=True, axis=axis)
        bits, satisfied = (
            np.zeros((first.shape[0], words.shape[1]), np.uint64)
            for words in (batch.bits, batch.satisfied)
        )
        np.bitwise_or.at(bits, of, batch.bits[joined])
        return DistinctRows(batch, joined, first, of, bits, satisfied)

    @property
    def rows(self) -> I64:
        """The numbers of all distinct rows."""
        return np.arange(self.first.shape[0])

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        """Chosen columns of an alias for some rows."""
        return self.batch.columns(alias, self.joined[self.first[rows]], columns)

    def blame(self, rows: I64, slots: U64) -> None:
        """Record the pairs of rows and slots as undecided."""
        self.faults.append((rows, slots))

    def hide(self, hid: Hid, rows: I64, slots: U64) -> None:
        """Do nothing: hidden failures were counted before the rows were joined."""

    def hand_back(self, before: U64) -> None:
        """Remove from the joined rows the queries that the index removed from the distinct rows."""
        self.batch.bits[self.joined] &= ~(before & ~self.bits)[self.of]
        self.batch.satisfied[self.joined] |= self.satisfied[self.of]
        for rows, slots in self.faults:
            self.batch.blame(self.joined[np.isin(self.of, rows)], slots)


class FilterStep:
    """A routing step with one predicate index."""

    def __init__(self, index: SlotIndex, count_hidden: CountHidden) -> None:
        self.index = index
        self._inputs = frozenset(index.inputs)
        self._count_hidden = count_hidden

    @property
    def uses(self) -> U64:
        """The slots with a predicate in this index."""
        return self.index.uses

    def ready(self, batch: LineageBatch) -> bool:
        """Whether the rows contain all inputs that the predicates read."""
        return batch.positions.keys() >= self._inputs

    def visit(self, batch: LineageBatch, rows: I64) -> None:
        """Remove queries from the lineage of these rows."""
        index = self.index
        if index.is_costly and len(batch.positions) > len(index.inputs):
            distinct = DistinctRows.among(batch, rows, index.inputs)
            before = distinct.bits.copy()
            index.match(distinct)
            distinct.hand_back(before)
        else:
            index.match(VisitingRows(batch, rows, index.inputs, self._count_hidden))
