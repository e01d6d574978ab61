"""How long the rows of a window live, as far as the plan knows it."""

from __future__ import annotations

from penstock.arrays import NEVER
from penstock.logical.expr import Param
from penstock.logical.nodes import Now, Range, Scan, Unbounded

Length = int | Param
"""The length of a window: one that all queries of a template have, or a parameter."""


def window_length(scan: Scan) -> Length | None:
    """The length of a window that starts with its row; None for SLIDE and ROWS windows."""
    match scan.window:
        case Range(length=length, slide=0):
            return length
        case Now():
            return 1
        case Unbounded():
            return NEVER
    return None
