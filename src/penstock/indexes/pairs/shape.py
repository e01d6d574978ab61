"""The conditions that a template puts on pairs of rows: a key, a band, ranges and the rest.

A range restricts a column of one side. The index looks up intervals of the band and the ranges; the
rest is evaluated on the pairs that the index finds.
"""

from __future__ import annotations

from penstock.frozen import record
from penstock.logical.expr import Expr

SideColumn = tuple[int, int]
"""A side (0 or 1) and a column of its stream."""


@record
class PairRange:
    """Conditions on one column of one side, each comparing `value` with constants of the query."""

    side: int
    column: int
    value: Expr
    conditions: tuple[Expr, ...]

    @property
    def is_float(self) -> bool:
        """Whether the column holds floats."""
        return self.value.type.is_float


@record
class PairBand:
    """Conditions on `value`: a column of side `minuend` minus a column of the other side."""

    columns: tuple[int, int]  # by side
    minuend: int
    value: Expr
    conditions: tuple[Expr, ...]

    @property
    def is_float(self) -> bool:
        """Whether the difference is of floats."""
        return self.value.type.is_float


@record
class Checked:
    """A condition that is evaluated on pairs; its columns are positions in `columns`."""

    condition: Expr
    columns: tuple[SideColumn, ...]


@record
class PairShape:
    """The conditions of a template over two streams.

    `rest` is checked on every pair that is found. `whole` is the condition that the intervals
    represent; it is checked for queries with an interval that is too large.
    """

    key: tuple[tuple[int, int], ...]  # columns of side 0 and of side 1 that are equal
    band: PairBand | None
    ranges: tuple[PairRange, ...]
    rest: Checked | None
    whole: Checked | None

    def of_side(self, side: int) -> tuple[PairRange, ...]:
        """The ranges of one side."""
        return tuple(r for r in self.ranges if r.side == side)
