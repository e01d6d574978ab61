"""Repairs (−2, +2) replacements when an operator drops rows (`delta.py`)."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.delta import Delta


def other_half(sign: I8) -> I64:
    """Position of the other half of each row's replacement.

    The row's own position if it has none.
    """
    here = np.arange(sign.shape[0])
    return here - np.where(np.abs(sign) == 2, sign // 2, 0)


def select_rows(delta: Delta, keep: Bool) -> Delta:
    """The rows of `keep`; the remaining half of a broken replacement becomes a plain ±1 row."""
    if keep.all():
        return delta
    kept = delta.take(keep)
    if not (np.abs(kept.sign) == 2).any():
        return kept
    lone = (np.abs(delta.sign) == 2) & ~keep[other_half(delta.sign)]
    return kept.with_(sign=np.where(lone, delta.sign // 2, delta.sign)[keep])


def drop_unchanged(delta: Delta) -> Delta:
    """Drop the replacements of a row by an equal row."""
    first = np.flatnonzero(delta.sign == -2)
    if not first.shape[0]:
        return delta
    same = (delta.rows[:, first] == delta.rows[:, first + 1]).all(axis=0)
    same &= delta.exp[first] == delta.exp[first + 1]
    if not same.any():
        return delta
    keep = np.ones(len(delta), np.bool_)
    keep[first[same]] = False
    keep[first[same] + 1] = False
    return delta.take(keep)
