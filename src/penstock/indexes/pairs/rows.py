"""The input and output of an index over pairs of streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.kernels.pairs.data import Entries, Partner


@dataclass(frozen=True, slots=True)
class ProbingRows:
    """Rows of one side, and the rows of the other side that they probe.

    Row i probes partners at positions from `floor` up to `limits[i]`. `words` are stored rows,
    row-major, with the NULL word first.
    """

    side: int
    words: I64
    instants: I64
    epochs: I64
    floor: int
    limits: I64
    entries: Entries
    partner: Partner

    def __len__(self) -> int:
        return int(self.limits.shape[0])

    def keys(self, columns: tuple[int, ...]) -> I64:
        """One word per row for its key: the value of a single column, or a hash of several."""
        return key_words(self.words, columns)


def key_words(words: I64, columns: tuple[int, ...]) -> I64:
    """A word per row that is equal for equal keys; an empty array if there are no columns."""
    if len(columns) < 2:
        return np.ascontiguousarray(words[:, 1 + columns[0]]) if columns else np.empty(0, np.int64)
    mixed = np.zeros(words.shape[0], np.uint64)
    for column in columns:
        mixed = (mixed ^ words[:, 1 + column].astype(np.uint64)) * np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    return mixed.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Takers:
    """Queries that take pairs of a probing row (by number) and a partner (by position)."""

    rows: I64
    positions: I64
    qids: I64

    @staticmethod
    def none() -> Takers:
        """No pairs."""
        return Takers(*np.empty((3, 0), np.int64))

    def __len__(self) -> int:
        return int(self.qids.shape[0])

    def __getitem__(self, chosen: I64) -> Takers:
        """Some of the pairs."""
        return Takers(self.rows[chosen], self.positions[chosen], self.qids[chosen])
