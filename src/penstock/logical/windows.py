"""The lifetime of a window's rows, if the plan determines it."""

from __future__ import annotations

from penstock.logical.lifetime import Length, lifetime_of
from penstock.logical.nodes import Scan, Windowed

__all__ = ["Length", "window_length"]


def window_length(scan: Scan | Windowed) -> Length | None:
    """The length of a window that starts with its row; None for SLIDE and ROWS windows."""
    life = lifetime_of(scan.window)
    return None if life is None or life.slide else life.length
