"""Recognises joins of two stream windows: their rows stay in the logs (CACQ §3.3.1)."""

from __future__ import annotations

from penstock.logical.expr import Param
from penstock.logical.lifetime import Lifetime, lifetime_of
from penstock.logical.nodes import Join, JoinKind, Scan
from penstock.logical.stem_kind import StemKind
from penstock.stems.window_join import Window


def joined_windows(node: Join) -> tuple[Window, Window] | None:
    """The two windows of such a join; None for any other join."""
    left, right = node.left, node.right
    if node.kind is not JoinKind.INNER or node.null_safe:
        return None
    if not (isinstance(left, Scan) and isinstance(right, Scan)):
        return None
    lives = _lifetime(left), _lifetime(right)
    if lives[0] is None or lives[1] is None:
        return None
    by_band = not node.equi and node.band is not None
    kind = StemKind.ORDERED if by_band else StemKind.HASH
    keys = [(left.columns[a], right.columns[b]) for a, b in _keys(node)]
    keys.sort(key=lambda key: key if left.stream <= right.stream else key[::-1])
    return (
        Window(left.stream, tuple(a for a, _ in keys), lives[0], kind),
        Window(right.stream, tuple(b for _, b in keys), lives[1], kind),
    )


def _keys(node: Join) -> tuple[tuple[int, int], ...]:
    """The column pairs that look rows up: equality columns, else the band's, else none."""
    if node.equi or node.band is None:
        return node.equi
    return ((node.band.left_column, node.band.right_column),)


def _lifetime(scan: Scan) -> Lifetime | None:
    """The lifetime of a window if it is the same span of the log for all queries, else None."""
    life = lifetime_of(scan.window)
    return None if life is None or isinstance(life.length, Param) else life
