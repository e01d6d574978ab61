"""Rows of one input with bitmaps of slots, as an index of a lineage group takes them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64
from penstock.expressions.hidden import Hid
from penstock.kernels.grouped_filter_bits import U64


@dataclass
class RowsInSlots:
    """All columns of the rows, NULL word first; what an index blames is kept."""

    data: I64
    rows: I64
    bits: U64
    satisfied: U64 = field(default_factory=lambda: np.zeros((0, 0), np.uint64))
    faults: list[tuple[I64, U64]] = field(default_factory=list)

    def columns(self, alias: int, rows: I64, columns: I64) -> I64:
        assert alias == 0
        return np.ascontiguousarray(self.data[:, rows])

    def blame(self, rows: I64, slots: U64) -> None:
        self.faults.append((rows, slots))

    def hide(self, hid: Hid, rows: I64, slots: U64) -> None:
        raise AssertionError("nothing is hidden here")
