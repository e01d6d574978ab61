"""How a SteM finds the rows of a stream by some of its columns."""

from __future__ import annotations

import enum


class StemKind(enum.Enum):
    """The values are in the names of arrays and in what a session reports."""

    HASH = "hash"
    """Finds rows by equality of all columns."""
    ORDERED = "ordered"
    """Finds rows by a range of its one column; a NaN is in no range."""
    KEYED = "keyed"
    """Finds rows by equality of all columns but the last, in order of the last; NaN is largest."""


StemKey = tuple[tuple[int, ...], StemKind]
"""The columns of a stream by which rows are found, and how."""
