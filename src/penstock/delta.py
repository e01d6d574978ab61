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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.arrays import I8, I64, NEVER, Bool
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

    def has_null(self, columns: Iterable[int]) -> Bool:
        """Marks the rows that are NULL in one of these columns; a column may be given twice."""
        bits = 0
        for column in columns:
            bits |= 1 << column
        marks: Bool = self.nulls & bits != 0
        return marks

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

    def order(self) -> I64 | None:
        """The order in which items ascend in each set; None if they do."""
        owners, falls = self.owners, self.items[1:] < self.items[:-1]
        if not (falls & (owners[1:] == owners[:-1])).any():
            return None
        return np.lexsort((self.items, owners))

    def ascending(self) -> Sets:
        """The sets with their items in order."""
        order = self.order()
        return self if order is None else Sets(self.offsets, self.items[order])

    def holding(self, one: int) -> Bool:
        """Marks the sets that have this item."""
        has = np.zeros(len(self), np.bool_)
        has[self.owners[self.items == one]] = True
        return has

    @staticmethod
    def group(keys: I64, items: I64, count: int) -> Sets:
        """The items by key, in their order; keys are below `count`."""
        order = np.argsort(keys, kind="stable")
        return Sets(start_offsets(np.bincount(keys, minlength=count)), items[order])


@dataclass(frozen=True, slots=True)
class Ranked:
    """Lists of ascending numbers, and the rank of each number in another order of its list."""

    members: Sets
    ranks: I64

    @staticmethod
    def as_they_are(lists: Sets) -> Ranked:
        """Lists that have no other order."""
        first = np.repeat(lists.offsets[:-1], lists.sizes)
        return Ranked(lists, np.arange(lists.items.shape[0]) - first)

    def spread(self, items: I64, sizes: I64 | None) -> tuple[Ranked, I64 | None]:
        """Replace each member by `sizes` items (None: by one) with ranks that follow each other.

        Also returns how many items take the place of the first members by rank, over all lists.
        """
        offsets, owners = self.members.offsets, self.members.owners
        if sizes is None:
            return Ranked(Sets(offsets, items), self.ranks).ascending(), None
        places = offsets[owners] + self.ranks
        counts = np.empty_like(places)
        counts[places] = sizes
        before, begins = start_offsets(counts), start_offsets(sizes)
        ends, owners = before[offsets], np.repeat(owners, sizes)
        first = np.repeat(before[places] - begins[:-1], sizes)
        ranks = first + np.arange(items.shape[0]) - ends[owners]
        return Ranked(Sets(ends, items), ranks).ascending(), before

    def ascending(self) -> Ranked:
        """The same with the members of each list ascending."""
        order = self.members.order()
        if order is None:
            return self
        return Ranked(Sets(self.members.offsets, self.members.items[order]), self.ranks[order])


@dataclass(frozen=True, slots=True)
class PrefixSets:
    """Sets of numbers that are not listed: unions of prefixes of lists that many sets share.

    Set i has the segments at [starts[i], starts[i + 1]), which have no member in common. Segment j
    has the members of list ``lists[j]`` with ranks below ``lengths[j]``.
    """

    starts: I64
    lists: I64
    lengths: I64
    ranked: Ranked

    def __len__(self) -> int:
        return int(self.starts.shape[0]) - 1

    @property
    def sizes(self) -> I64:
        """The number of members of each set."""
        return np.diff(start_offsets(self.lengths)[self.starts])

    @property
    def items(self) -> I64:
        """The members of all lists, which include those of all sets."""
        return self.ranked.members.items

    def take(self, index: I64) -> PrefixSets:
        """The sets at these positions, over the same lists."""
        segments = Sets(self.starts, np.arange(self.lists.shape[0])).take(index)
        lists, lengths = self.lists[segments.items], self.lengths[segments.items]
        return PrefixSets(segments.offsets, lists, lengths, self.ranked)

    def spread(self, items: I64, sizes: I64 | None) -> PrefixSets:
        """Replace each member of the lists by `sizes` items (None: by one), also in the sets."""
        ranked, before = self.ranked.spread(items, sizes)
        lengths = self.lengths
        if before is not None:
            first = self.ranked.members.offsets[self.lists]
            lengths = before[first + lengths] - before[first]
        return PrefixSets(self.starts, self.lists, lengths, ranked)

    def keep(self, keep: Bool) -> PrefixSets:
        """The sets without the members of lists that are not kept; some may be left empty."""
        return self.spread(self.items[keep], keep.astype(np.int64))

    def holding(self, one: int) -> Bool:
        """Marks the sets that have this member."""
        members, found = self.ranked.members, np.flatnonzero(self.items == one)
        least = np.full(len(members), NEVER)
        least[np.searchsorted(members.offsets, found, "right") - 1] = self.ranked.ranks[found]
        has = start_offsets(least[self.lists] < self.lengths)
        return np.asarray(np.diff(has[self.starts]) > 0)


QuerySets = Sets | PrefixSets
"""Sets of queries one after another, listed or as prefixes."""


def start_offsets(sizes: I64 | Bool) -> I64:
    """The starts of consecutive parts with these sizes, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def concat_sets(parts: Sequence[QuerySets]) -> QuerySets:
    """The sets of all parts; with prefixes if some part has them."""
    if any(isinstance(part, PrefixSets) for part in parts):
        return _concat_prefixes([_as_prefixes(part) for part in parts])
    return _concat_plain([part for part in parts if isinstance(part, Sets)])


def _concat_plain(parts: list[Sets]) -> Sets:
    sizes = np.concatenate([part.sizes for part in parts])
    return Sets(start_offsets(sizes), np.concatenate([part.items for part in parts]))


def _concat_prefixes(parts: list[PrefixSets]) -> PrefixSets:
    before = start_offsets(np.array([len(part.ranked.members) for part in parts]))
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    lists = [part.lists + first for part, first in zip(parts, before[:-1], strict=True)]
    lengths = np.concatenate([part.lengths for part in parts])
    ranked = concat_ranked([part.ranked for part in parts])
    return PrefixSets(start_offsets(counts), np.concatenate(lists), lengths, ranked)


def concat_ranked(parts: list[Ranked]) -> Ranked:
    """The lists of all parts."""
    members = _concat_plain([part.members for part in parts])
    return Ranked(members, np.concatenate([part.ranks for part in parts]))


def _as_prefixes(sets: QuerySets) -> PrefixSets:
    """The same sets, each a whole list."""
    if isinstance(sets, PrefixSets):
        return sets
    numbers = np.arange(len(sets))
    return PrefixSets(np.append(numbers, len(sets)), numbers, sets.sizes, Ranked.as_they_are(sets))


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
