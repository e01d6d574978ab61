"""Lineage batches: rows on their way through an eddy, with the queries that may still take them.

A row of a batch is a tuple of places in source logs, one for each alias it has been joined with so
far (CACQ §3.3.1: an intermediate tuple). Only places and lineage are copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import gather_columns, gather_key
from penstock.stems.log_view import LogView


@dataclass(frozen=True, slots=True)
class Entrants:
    """Rows that enter: positions of one alias, and the instant at which partners must be alive.

    `limits` gives for each alias the position before which a partner must lie, because partners are
    earlier rows (the sequence numbers of CACQ §3.3.1). No relevant partner lies before `floors`.
    """

    alias: int
    positions: I64
    instants: I64
    limits: list[I64]
    floors: list[int]
    views: list[LogView]


@dataclass(slots=True)
class LineageBatch:
    """Rows on their way; `root` gives for each the row of the entry that it comes from."""

    entry: Entrants
    root: I64
    positions: dict[int, I64]
    bits: U64
    satisfied: U64
    faults: U64 | None = None

    @staticmethod
    def enter(entry: Entrants, mask: U64, clause_words: int) -> LineageBatch:
        """All rows of an entry, each with the queries of `mask`."""
        n = entry.positions.shape[0]
        bits = np.empty((n, mask.shape[0]), np.uint64)
        bits[:] = mask
        satisfied = np.zeros((n, clause_words), np.uint64)
        return LineageBatch(entry, np.arange(n), {entry.alias: entry.positions}, bits, satisfied)

    def __len__(self) -> int:
        return int(self.root.shape[0])

    def take(self, index: I64) -> LineageBatch:
        """The rows at `index`, which may name a row several times."""
        return LineageBatch(
            self.entry,
            self.root[index],
            {alias: places[index] for alias, places in self.positions.items()},
            self.bits[index],
            self.satisfied[index],
            None if self.faults is None else self.faults[index],
        )

    def part(self, start: int, end: int) -> LineageBatch:
        """Neighbouring rows."""
        return LineageBatch(
            self.entry,
            self.root[start:end],
            {alias: places[start:end] for alias, places in self.positions.items()},
            self.bits[start:end],
            self.satisfied[start:end],
            None if self.faults is None else self.faults[start:end],
        )

    def instants(self) -> I64:
        """The instant at which each row's tuple is complete."""
        return np.asarray(self.entry.instants[self.root])

    def places(self, alias: int) -> I64 | slice:
        """The places of an alias's rows in its view; a slice if they are consecutive."""
        base, positions = self.entry.views[alias].base, self.positions[alias]
        first, n = int(positions[0]) - base, len(self)
        if len(self.positions) == 1 and int(positions[-1]) - base - first == n - 1:
            return slice(first, first + n)  # rows of a single alias ascend
        return positions - base

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        """Chosen columns of the alias's stream for some rows, at their positions in the schema."""
        view = self.entry.views[alias]
        if rows.shape[0] == len(self) > 0 and view.rows.flags.f_contiguous:
            places = self.places(alias)
            if isinstance(places, slice):
                return view.rows.T[:, places]
        return gather_columns(view.rows, self.positions[alias][rows] - view.base, columns)

    def values(self, alias: int, column: int) -> tuple[I64, Bool]:
        """One column of the alias's stream and where it is NULL."""
        values, null = np.empty(len(self), np.int64), np.zeros(len(self), np.bool_)
        self.read(alias, column, values, null)
        return values, null

    def read(self, alias: int, column: int, values: I64, null: Bool) -> None:
        """Read one column of the alias's stream; set `null` where it is NULL."""
        view = self.entry.views[alias]
        gather_key(view.rows, self.positions[alias], view.base, column, values, null)

    def enters(self, alias: int) -> bool:
        """Whether the rows have just entered as rows of this alias, without partners."""
        return alias == self.entry.alias and len(self.positions) == 1

    def blame(self, rows: I64, slots: U64) -> None:
        """Mark pairs of rows and slots: the query fails unless another step rejects the row."""
        if self.faults is None:
            self.faults = np.zeros_like(self.bits)
        self.faults[rows] |= slots & self.bits[rows]
