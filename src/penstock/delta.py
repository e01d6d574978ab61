"""Delta: the columnar batch of changes that flows along every plan edge (DESIGN §5.1).

`rows` is an int64 matrix of shape (1 + columns, n), one matrix row per column so that each column
is contiguous. Row 0 holds the NULL bits: if bit j is set, column j is NULL and its value is 0. Rows
are ordered by `ts`. A row with sign > 0 is in the answer on [ts, exp), unless a row with sign < 0
and the same values, `exp` and `lin` retracts it earlier.

Signs: +1/−1 are plain rows. An adjacent pair (−2, +2) with equal ts and lin replaces one keyed row
by another (shown as update_preimage/update_postimage). An operator that drops one half of such a
pair turns the other half into ±1.

`lin` is lineage; its meaning is fixed per edge (`Lineage`): EPOCH, the step that admitted the row
(visible to queries registered before it); COHORT, queries registered at one point; QUERY, one
query; SET, the code of a set of queries in the template's set table, so that a row is stored once
for all its queries (CACQ §2.2).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.frozen import record


class Lineage(enum.IntEnum):
    """The meaning of `lin` on an edge."""

    EPOCH = 0
    COHORT = 1
    QUERY = 2
    SET = 3


@record
class Emission:
    """How queries show their changes: every one, or (`at_commit`) the net change of a batch.

    With `per_row`, a result row is shown once with the set of its queries.
    """

    at_commit: bool = False
    per_row: bool = False


EVERY_CHANGE = Emission()


@dataclass(frozen=True, slots=True)
class Clock:
    """The event-time interval of one step: instants in [before, now]; `before` may be revisited.

    With `at_commit` (EMIT ON COMMIT) everything in the step happens at `now`.
    """

    before: int
    now: int
    at_commit: bool = False

    def instants(self, exp: I64) -> I64:
        """The instants at which expirations at `exp` take effect."""
        return np.full(exp.shape[0], self.now) if self.at_commit else exp


@dataclass(frozen=True, slots=True)
class Delta:
    """A batch of signed, timed rows, in time order."""

    rows: I64
    ts: I64
    exp: I64
    sign: I8
    lin: I64

    def __len__(self) -> int:
        return int(self.ts.shape[0])

    @property
    def width(self) -> int:
        """Number of payload columns (without the NULL word)."""
        return int(self.rows.shape[0]) - 1

    @property
    def nulls(self) -> I64:
        """The NULL word of each row."""
        word: I64 = self.rows[0]
        return word

    def take(self, index: I64 | Bool) -> Delta:
        """The rows at `index` (positions or mask), in that order."""
        return Delta(
            np.ascontiguousarray(self.rows[:, index]),
            self.ts[index],
            self.exp[index],
            self.sign[index],
            self.lin[index],
        )

    def alive(self, now: int) -> Delta:
        """The rows that have not expired at `now`, as rows of this instant."""
        lives = self.exp > now
        some = self if lives.all() else self.take(lives)
        return some.with_(ts=np.full(len(some), now))

    def with_(self, **changes: Any) -> Delta:
        """A copy with some arrays replaced."""
        return replace(self, **changes)

    @staticmethod
    def empty(columns: int) -> Delta:
        """No rows of `columns` payload columns."""
        none = np.empty(0, np.int64)
        return Delta(np.empty((1 + columns, 0), np.int64), none, none, np.empty(0, np.int8), none)


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets of numbers one after another: set i is ``items[offsets[i]:offsets[i + 1]]``."""

    offsets: I64
    items: I64

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    @property
    def sizes(self) -> I64:
        """The number of items of each set."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> I64:
        """The set that each item is in."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, index: I64) -> Sets:
        """The sets at these positions."""
        offsets = start_offsets(self.sizes[index])
        shift = np.repeat(self.offsets[index] - offsets[:-1], np.diff(offsets))
        return Sets(offsets, self.items[np.arange(offsets[-1]) + shift])

    def keep(self, keep: Bool) -> Sets:
        """The sets without the items that are not kept; some may be left empty."""
        kept = np.bincount(self.owners[keep], minlength=len(self))
        return Sets(start_offsets(kept), self.items[keep])

    @staticmethod
    def group(keys: I64, items: I64, count: int) -> Sets:
        """The items by key, in their order; keys are below `count`."""
        order = np.argsort(keys, kind="stable")
        return Sets(start_offsets(np.bincount(keys, minlength=count)), items[order])


def start_offsets(sizes: I64) -> I64:
    """The starts of consecutive parts with these sizes, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def concat_sets(parts: list[Sets]) -> Sets:
    """The sets of all parts."""
    sizes = np.concatenate([part.sizes for part in parts])
    return Sets(start_offsets(sizes), np.concatenate([part.items for part in parts]))


def concat(deltas: list[Delta], columns: int) -> Delta:
    """All rows one delta after another (not merged by time)."""
    full = [d for d in deltas if len(d)]
    if len(full) == 1:
        return full[0]
    if not full:
        return Delta.empty(columns)
    return Delta(
        np.concatenate([d.rows for d in full], axis=1),
        np.concatenate([d.ts for d in full]),
        np.concatenate([d.exp for d in full]),
        np.concatenate([d.sign for d in full]),
        np.concatenate([d.lin for d in full]),
    )


def merge(deltas: list[Delta], columns: int) -> Delta:
    """All rows in time order; ties keep the order of the arguments."""
    joined = concat(deltas, columns)
    if len([d for d in deltas if len(d)]) < 2:
        return joined
    return joined.take(np.argsort(joined.ts, kind="stable"))
