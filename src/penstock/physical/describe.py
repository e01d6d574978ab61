"""The text of a window in EXPLAIN, written in the SQL dialect."""

from __future__ import annotations

from penstock.logical.expr import Param
from penstock.logical.nodes import Now, Range, Scan
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
