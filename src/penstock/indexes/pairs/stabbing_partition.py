"""A stabbing partition of the intervals of queries, near the smallest (Agarwal et al. 2009, §2.1).

It has at most (1 + epsilon) tau groups after every call, where tau is the size of the smallest
partition; also after every single interval of a call. Groups are numbered by their points, which
ascend. Every change of a group gives it a new version, larger than all before: a group that still
has the version under which it was read still has the same members.

It is a cache over Q: the intervals say all. Ids are slots of arrays: small, dense integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.pairs import sorted_blocks, stabbing
from penstock.kernels.pairs.sorted_blocks import Blocks
from penstock.predicates.terms import LEAST, MOST

_FEW = 100
"""If this many times the intervals of a call are fewer than all, they are taken one by one."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The groups without their members, in the order of their points.

    A point is in all intervals of its group. The version says when the members last changed.
    """

    points: I64
    sizes: I64
    versions: I64

    def __len__(self) -> int:
        return int(self.points.shape[0])


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups with their members: those of group g are ``members[offsets[g]:offsets[g + 1]]``.

    The members of a group are in order of their low ends.
    """

    outline: Outline
    offsets: I64
    members: I64


class Ends:
    """The intervals of ids; those of ids that are not there are empty."""

    def __init__(self) -> None:
        self.lows, self.highs = np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.lows.nbytes + self.highs.nbytes

    def present(self, ids: I64) -> Bool:
        """Which of the ids have an interval that is not empty."""
        known = (ids >= 0) & (ids < self.lows.shape[0])
        at = np.where(known, ids, 0)
        return known & (self.lows[at] <= self.highs[at]) if self.lows.shape[0] else known

    def put(self, ids: I64, lows: I64, highs: I64) -> None:
        """Set the intervals of these ids."""
        room, needed = self.lows.shape[0], int(ids.max(initial=-1)) + 1
        if needed > room:
            more = max(needed, room + room // 4) - room
            self.lows = np.concatenate((self.lows, np.full(more, MOST)))
            self.highs = np.concatenate((self.highs, np.full(more, LEAST)))
        self.lows[ids], self.highs[ids] = lows, highs

    def drop(self, ids: I64) -> None:
        """Make the intervals of these ids empty."""
        self.lows[ids], self.highs[ids] = MOST, LEAST


def nonempty(ids: I64, lows: I64, highs: I64) -> tuple[I64, I64, I64]:
    """The intervals that are not empty: low is at most high."""
    kept = lows <= highs
    return (ids, lows, highs) if kept.all() else (ids[kept], lows[kept], highs[kept])


class StabbingPartition:
    """Intervals [low, high] by id, in groups that share a point."""

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = epsilon
        self._ends = Ends()
        none, books = sorted_blocks.new_blocks(0), np.zeros(3, np.int64)
        self._state = _state(sorted_blocks.new_blocks(0), none, books)

    # ---- what is there ---------------------------------------------------------------
    def __len__(self) -> int:
        """The number of intervals."""
        return int(self._state.intervals.counts[1])

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self._state.groups.counts[1])

    @property
    def largest(self) -> int:
        """The number of intervals in the largest group."""
        return -int(self._state.groups.least[1]) if self.size else 0

    @property
    def version(self) -> int:
        """The number of the last change; no group has a larger version."""
        return int(self._state.books[stabbing.VERSION])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        state = self._state
        blocks = (*state.intervals, *state.groups, state.greedy, state.lost)
        return self._ends.nbytes + sum(array.nbytes for array in blocks)

    def tau(self) -> int:
        """The size of the smallest stabbing partition of the intervals."""
        return int(stabbing.fewest_groups(self._state.intervals))

    def group_of(self, ids: I64) -> I64:
        """The number of each id's group; −1 if it has no interval."""
        there = self._ends.present(ids)
        found = np.full(ids.shape[0], -1)
        found[there] = stabbing.find_groups(self._state.groups, self._ends.lows[ids[there]])
        return found

    def outline(self) -> Outline:
        """Points, sizes and versions of all groups."""
        points, negated, versions = sorted_blocks.flatten(self._state.groups)
        return Outline(points, -negated, versions)

    def groups(self) -> Groups:
        """All groups with their members."""
        outline = self.outline()
        return Groups(outline, _offsets(outline.sizes), self.members())

    def members(self) -> I64:
        """All ids, in order of low ends."""
        return sorted_blocks.flatten(self._state.intervals)[2]

    def chosen(self, numbers: I64) -> Groups:
        """The groups of these numbers with their members, such as those that have changed."""
        every = self.outline()
        members = stabbing.members_of(self._state.intervals, every.points, every.sizes, numbers)
        outline = Outline(every.points[numbers], every.sizes[numbers], every.versions[numbers])
        return Groups(outline, _offsets(outline.sizes), members)

    # ---- changes ---------------------------------------------------------------------
    def add(self, ids: I64, lows: I64, highs: I64) -> None:
        """Add intervals of ids that are not there yet, but no empty ones (low > high)."""
        ids, lows, highs = nonempty(ids, lows, highs)
        self._ends.put(ids, lows, highs)
        if ids.shape[0] * _FEW < len(self):
            self._insert(ids, lows, highs)
        elif ids.shape[0]:
            if (np.diff(ids) < 0).any():
                order = np.argsort(ids)
                ids, lows, highs = ids[order], lows[order], highs[order]
            order = np.argsort(lows, kind="stable")
            new = lows[order], highs[order], ids[order]
            old = sorted_blocks.flatten(self._state.intervals)
            self._replace(*stabbing.merge_sorted(*old, *new))

    def remove(self, ids: I64) -> None:
        """Remove the intervals of ids; those that have none are ignored."""
        ids = ids[self._ends.present(ids)]
        lows = self._ends.lows[ids]
        self._ends.drop(ids)
        if ids.shape[0] * _FEW < len(self):
            self._remove(lows, ids)
        elif ids.shape[0]:
            keys, values, items = sorted_blocks.flatten(self._state.intervals)
            kept = self._ends.present(items)
            self._replace(keys[kept], values[kept], items[kept])

    def _insert(self, ids: I64, lows: I64, highs: I64) -> None:
        """Add intervals one by one; blocks grow when there is none left."""
        done = 0
        while done < ids.shape[0]:
            done = stabbing.insert_intervals(self._state, lows, highs, ids, done, self.epsilon)
            stabbing.renew_groups(self._state, self.epsilon)
            if done < ids.shape[0] and _is_full(self._state):
                old = self._state
                self._state = _state(_roomy(old.intervals), _roomy(old.groups), old.books)
                found = int(old.books[stabbing.FOUND])
                self._state.greedy[:found] = old.greedy[:found]
                self._state.lost[:found] = old.lost[:found]

    def _remove(self, lows: I64, ids: I64) -> None:
        """Remove intervals one by one."""
        done = 0
        while done < ids.shape[0]:
            done = stabbing.remove_intervals(self._state, lows, ids, done, self.epsilon)
            stabbing.renew_groups(self._state, self.epsilon)

    def _replace(self, lows: I64, highs: I64, ids: I64) -> None:
        """Start again with these intervals, in order of their low ends, and the fewest groups."""
        books = self._state.books
        starts, _, points = stabbing.partition_sorted(lows, highs)
        tau = points.shape[0]
        versions = books[stabbing.VERSION] + 1 + np.arange(tau)
        books[stabbing.VERSION] += tau
        intervals, groups = sorted_blocks.new_blocks(len(ids)), sorted_blocks.new_blocks(tau)
        sorted_blocks.fill(intervals, lows, highs, ids)
        sorted_blocks.fill(groups, points, -np.diff(starts), versions)
        self._state = _state(intervals, groups, books)
        stabbing.note_greedy(self._state, points)


def _state(intervals: Blocks, groups: Blocks, books: I64) -> stabbing.Partition:
    """A partition of these intervals; its greedy points are to be noted."""
    room = groups.items.size
    greedy, lost = np.zeros(room, np.int64), np.zeros(room, np.bool_)
    return stabbing.Partition(intervals, groups, books, greedy, lost)


def _offsets(sizes: I64) -> I64:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _is_full(state: stabbing.Partition) -> bool:
    """Whether no block is free for intervals or for groups."""
    return any(
        blocks.used[0] == blocks.order.shape[0] for blocks in (state.intervals, state.groups)
    )


def _roomy(blocks: Blocks) -> Blocks:
    """The blocks, with more room if all are in use."""
    full = blocks.used[0] == blocks.order.shape[0]
    return sorted_blocks.grown(blocks) if full else blocks
