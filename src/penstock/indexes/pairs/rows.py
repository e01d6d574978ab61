"""The input and output of an index over pairs of streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.delta import Ranked
from penstock.kernels.pairs.data import Entries, Partner
from penstock.kernels.pairs.takers import merge_takers
from penstock.kernels.stem_runs import key_words


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
        if not columns:
            return np.empty(0, np.int64)
        return key_words(np.ascontiguousarray(self.words[:, [1 + c for c in columns]].T))


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


def merged(found: Takers, more: Takers) -> Takers:
    """The pairs of both, in order of (row, position, query); they share none."""
    if not len(found) or not len(more):
        return more if len(more) else found
    return Takers(
        *merge_takers(found.rows, found.positions, found.qids, more.rows, more.positions, more.qids)
    )


@dataclass(frozen=True, slots=True, eq=False)
class QueryLists:
    """Lists of queries, ranked by their bounds: what codes of pairs are about.

    Queries that are gone are not in the lists. A code that counts n queries of list l stands for
    ``left[first + n] - left[first]`` of them, where ``first = firsts[l]``.
    """

    ranked: Ranked
    firsts: I64
    left: I64


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Queries that take pairs, as prefixes of lists, in order of (row, position)."""

    rows: I64
    positions: I64
    lists: I64
    lengths: I64
    of: QueryLists

    def __len__(self) -> int:
        return int(self.rows.shape[0])
