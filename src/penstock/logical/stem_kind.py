"""How a SteM finds the rows of a stream by some of its columns."""

from __future__ import annotations

import enum


class StemKind(enum.Enum):
    """The values are in the names of arrays and in what a session reports."""

    HASH = "hash"
    """Rows whose columns all equal given values."""
    ORDERED = "ordered"
    """Rows with the one column in a range; rows with NaN are in no range."""
    KEYED = "keyed"
    """Rows whose columns but the last equal given values, in order of the last; NaN is largest."""


StemKey = tuple[tuple[int, ...], StemKind]
"""The columns of a stream by which rows are found, and how."""
