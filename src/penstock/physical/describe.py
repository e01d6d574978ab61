"""The text of windows and bands in EXPLAIN, written in the SQL dialect."""

from __future__ import annotations

from penstock.logical.expr import Column, Expr, Param, transform
from penstock.logical.nodes import Now, Range, Scan
from penstock.optimizer.flow_block import PLACES
from penstock.optimizer.query_band import QueryBand
from penstock.sql.units import written


def describe_window(node: Scan) -> str:
    """The window of a scan, written in the SQL dialect."""
    window = node.window
    if isinstance(window, Range):
        slide = f" SLIDE {_length(window.slide, window)}" if window.slide else ""
        return f"[RANGE {_length(window.length, window)}{slide}]"
    return "[NOW]" if isinstance(window, Now) else "[UNBOUNDED]"


def _length(length: int | Param, window: Range) -> str:
    return written(length) if window.micros and isinstance(length, int) else str(length)


def describe_band(band: QueryBand, streams: tuple[str, ...], names: list[tuple[str, ...]]) -> str:
    """The conditions of a band; `names` are the columns of each stream."""
    places = [divmod(number, PLACES) for number in (band.minuend, band.subtrahend)]
    shown = [f"{streams[alias]}.{names[alias][column]}" for alias, column in places]

    def named(expr: Expr) -> Expr:
        return (
            Column(expr.type, expr.index, shown[expr.index]) if isinstance(expr, Column) else expr
        )

    return " AND ".join(str(transform(condition, named)) for condition in band.conditions)
