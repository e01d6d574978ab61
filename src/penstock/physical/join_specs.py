"""The specs of joins, and the words in which EXPLAIN says how they join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.logical.expr import Expr
from penstock.logical.nodes import Band, Join, JoinKind, Scan
from penstock.patterns import edges
from penstock.patterns.edge import Edge, Emit
from penstock.physical.describe import describe_window
from penstock.physical.keyed_specs import signed_structure
from penstock.physical.specs import Spec
from penstock.stems.window_join import Window


@dataclass(frozen=True, slots=True)
class JoinSpec(Spec):
    """Inner join that stores the rows of both inputs.

    It yields `columns` of both. If it `tells`, it says by −1 rows which results leave.
    """

    equi: tuple[tuple[int, int], ...]
    band: Band | None
    residual: Expr | None
    columns: tuple[int, ...]
    tables: tuple[bool, bool]  # which sides read tables only
    tells: bool
    name = "join"

    @classmethod
    def of(
        cls, left: Spec, right: Spec, equi: tuple[tuple[int, int], ...], band: Band | None,
        residual: Expr | None, tables: tuple[bool, bool],
        columns: tuple[int, ...] | None = None, shown: bool = False,
    ) -> Self:  # fmt: skip
        """With its edge; one that is `shown` tells departures if it can."""
        edge = edges.join_edge(left.edge, right.edge, any(tables))
        tells = shown and residual is None and edges.tells_departures(left.edge, right.edge)
        edge, columns = _finished(edge, tells, columns)
        inputs = (left, right)
        return cls(equi, band, residual, columns, tables, tells, edge=edge, inputs=inputs)

    def structure(self) -> str:
        """FIFO when both sides die in order of arrival, hash when rows are retracted by key."""
        plain = all(s.edge.fifo and not s.edge.negatives for s in self.inputs)
        return "FIFO" if plain else "hash"

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
    tells: bool
    name = "join"

    @classmethod
    def of(
        cls, join: Join, windows: tuple[Window, Window], residual: Expr | None,
        columns: tuple[int, ...] | None = None, shown: bool = False,
    ) -> Self:  # fmt: skip
        """With its edge; one that is `shown` tells departures if rows leave at all."""
        left, right = (edges.scan_edge(scan) for scan in _scans(join))
        edge = edges.join_edge(left, right, with_table=False)
        tells = shown and residual is None and edges.tells_departures(left, right)
        edge, columns = _finished(edge, tells, columns)
        return cls(join, windows, residual, columns, tells, edge=edge)

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

    def structure(self) -> str:
        """Rows are found by SteMs, or all that are in the window are taken."""
        return "SteM" if self.windows[0].columns else "log"

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

    def structure(self) -> str:
        """The table is hashed on the join key."""
        return "hash"

    def detail(self) -> str:
        """The join condition."""
        left, right = (list(source.edge.schema.names) for source in self.inputs)
        return _condition(left, right, self.equi, None, self.residual)


@dataclass(frozen=True, slots=True)
class SemiJoinSpec(Spec):
    """Rows of the left input with a partner (semi join), or without one (anti join)."""

    kind: JoinKind
    keys: tuple[tuple[int, int], ...]
    emit: Emit
    null_safe: bool

    @classmethod
    def of(
        cls, left: Spec, right: Spec, kind: JoinKind, keys: tuple[tuple[int, int], ...],
        emit: Emit, null_safe: bool = False,
    ) -> Self:  # fmt: skip
        """With its edge."""
        edge = edges.semi_edge(left.edge, right.edge, kind, emit)
        return cls(kind, keys, emit, null_safe, edge=edge, inputs=(left, right))

    @property
    def name(self) -> str:
        """Semi join or anti join."""
        return f"{self.kind.value} join"

    @property
    def label(self) -> str:
        """The same with a hyphen."""
        return f"{self.kind.value}-join"

    def structure(self) -> str:
        """Hash of values and keys, and the store of each input."""
        return "hash + " + " / ".join(signed_structure(s.edge) for s in self.inputs)

    def detail(self) -> str:
        """Key columns and how rows end."""
        left, right = (source.edge.schema.names for source in self.inputs)
        sign = "is not distinct from" if self.null_safe else "="
        on = " and ".join(f"{left[a]} {sign} {right[b]}" for a, b in self.keys)
        return f"{on or 'any row'}, {self.emit}"


def _finished(
    edge: Edge, tells: bool, columns: tuple[int, ...] | None
) -> tuple[Edge, tuple[int, ...]]:
    """The edge of a join that perhaps tells departures, with the columns that it yields."""
    chosen = tuple(range(len(edge.schema))) if columns is None else columns
    return edges.narrowed(edges.told_edge(edge) if tells else edge, chosen), chosen


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
