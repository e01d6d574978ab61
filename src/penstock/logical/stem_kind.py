"""The ways in which a SteM looks up rows of a stream by some of its columns."""

from __future__ import annotations

import enum


class StemKind(enum.Enum):
    """The values occur in the names of arrays and in reports of a session."""

    HASH = "hash"
    """Rows with all columns equal to given values."""
    ORDERED = "ordered"
    """Rows with the single column in a range; a NaN is in no range."""
    KEYED = "keyed"
    """Rows with equal values in all columns but the last, sorted by the last; NaN is largest."""


StemKey = tuple[tuple[int, ...], StemKind]
"""The columns of a stream that look rows up, and the way."""
