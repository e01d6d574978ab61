"""The specs of joins, and the words in which EXPLAIN says how they join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.logical.expr import Expr
from penstock.logical.nodes import Band, Join, JoinKind, Scan
from penstock.patterns import edges
from penstock.physical.describe import describe_window
from penstock.physical.specs import Spec
from penstock.stems.window_join import Window


@dataclass(frozen=True, slots=True)
class JoinSpec(Spec):
    """Inner join that stores the rows of both inputs.

    It yields `columns` of both.
    """

    equi: tuple[tuple[int, int], ...]
    band: Band | None
    residual: Expr | None
    columns: tuple[int, ...]
    tables: tuple[bool, bool]  # which sides read tables only
    name = "join"

    @classmethod
    def of(
        cls, left: Spec, right: Spec, equi: tuple[tuple[int, int], ...], band: Band | None,
        residual: Expr | None, tables: tuple[bool, bool],
        columns: tuple[int, ...] | None = None,
    ) -> Self:  # fmt: skip
        """With its edge."""
        edge = edges.join_edge(left.edge, right.edge, any(tables))
        if columns is None:
            columns = tuple(range(len(edge.schema)))
        edge = edges.narrowed(edge, columns)
        return cls(equi, band, residual, columns, tables, edge=edge, inputs=(left, right))

    def detail(self) -> str:
        """The join condition."""
        left, right = (list(source.edge.schema.names) for source in self.inputs)
        return _condition(left, right, self.equi, self.band, self.residual)


@dataclass(frozen=True, slots=True)
class WindowJoinSpec(Spec):
    """Inner join of two windows of streams; rows stay in the logs."""

    join: Join
    windows: tuple[Window, Window]
    residual: Expr | None
    columns: tuple[int, ...]
    name = "join"

    @classmethod
    def of(
        cls, join: Join, windows: tuple[Window, Window], residual: Expr | None,
        columns: tuple[int, ...] | None = None,
    ) -> Self:  # fmt: skip
        """With its edge."""
        left, right = (edges.scan_edge(scan) for scan in _scans(join))
        edge = edges.join_edge(left, right, with_table=False)
        if columns is None:
            columns = tuple(range(len(edge.schema)))
        return cls(join, windows, residual, columns, edge=edges.narrowed(edge, columns))

    @property
    def scans(self) -> tuple[Scan, Scan]:
        """Both windows."""
        return _scans(self.join)

    @property
    def band(self) -> Band | None:
        """The band, over the columns of the streams."""
        band, (left, right) = self.join.band, self.scans
        return band and replace(
            band,
            left_column=left.columns[band.left_column],
            right_column=right.columns[band.right_column],
        )

    def detail(self) -> str:
        """The windows and how they join."""
        windows = ", ".join(f"{scan.stream} {describe_window(scan)}" for scan in self.scans)
        left, right = ([f"{s.stream}.{n}" for n in s.schema.names] for s in self.scans)
        on = _condition(left, right, self.join.equi, self.join.band, self.residual)
        return f"{windows} on {on}" if on else windows


@dataclass(frozen=True, slots=True)
class NrrJoinSpec(Spec):
    """Inner join of a stream with a non-retroactive table."""

    equi: tuple[tuple[int, int], ...]
    residual: Expr | None
    name = "nrr-join"

    @classmethod
    def of(
        cls, stream: Spec, table: Spec, equi: tuple[tuple[int, int], ...], residual: Expr | None
    ) -> Self:
        """With its edge."""
        edge = edges.nrr_edge(stream.edge, table.edge)
        return cls(equi, residual, edge=edge, inputs=(stream, table))

    def detail(self) -> str:
        """The join condition."""
        left, right = (list(source.edge.schema.names) for source in self.inputs)
        return _condition(left, right, self.equi, None, self.residual)


@dataclass(frozen=True, slots=True)
class SemiJoinSpec(Spec):
    """Rows of the left input with a partner (semi join), or without one (anti join)."""

    kind: JoinKind
    keys: tuple[tuple[int, int], ...]
    null_safe: bool
    nets = True

    @classmethod
    def of(
        cls, left: Spec, right: Spec, kind: JoinKind, keys: tuple[tuple[int, int], ...],
        null_safe: bool = False,
    ) -> Self:  # fmt: skip
        """With its edge."""
        edge = edges.semi_edge(left.edge, right.edge, kind)
        return cls(kind, keys, null_safe, edge=edge, inputs=(left, right))

    @property
    def name(self) -> str:
        """Semi join or anti join."""
        return f"{self.kind.value} join"

    @property
    def label(self) -> str:
        """The same with a hyphen."""
        return f"{self.kind.value}-join"

    def detail(self) -> str:
        """Key columns and how rows end."""
        left, right = (source.edge.schema.names for source in self.inputs)
        sign = "is not distinct from" if self.null_safe else "="
        on = " and ".join(f"{left[a]} {sign} {right[b]}" for a, b in self.keys)
        return f"{on or 'any row'}, {self.expiry.emit}"


def _scans(join: Join) -> tuple[Scan, Scan]:
    assert isinstance(join.left, Scan)
    assert isinstance(join.right, Scan)
    return join.left, join.right


def _condition(
    left: list[str], right: list[str], equi: tuple[tuple[int, int], ...], band: Band | None,
    residual: Expr | None,
) -> str:  # fmt: skip
    parts = [f"{left[a]} = {right[b]}" for a, b in equi]
    if band is not None:
        low = "" if band.low is None else f"{band.low} <= "
        high = "" if band.high is None else f" <= {band.high}"
        parts.append(f"{low}{right[band.right_column]} - {left[band.left_column]}{high}")
    if residual is not None:
        parts.append(str(residual))
    return " AND ".join(parts)
