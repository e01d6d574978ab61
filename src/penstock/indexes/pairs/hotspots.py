"""Hotspots: large groups of intervals, kept apart from the others (Agarwal et al. 2009, §2.2).

After every call, with n intervals in all:

* (I1) a hot group has at least alpha/2 n intervals, and no scattered group has alpha n or more; so
  there are at most 2 / alpha hot groups;
* (I2) hot and scattered groups together are at most (1 + epsilon) tau + 2 / alpha;
* (I3) at most 5 intervals per update, amortised, move between hot and scattered groups.

An interval that contains the point of a hot group joins it; all others go to the stabbing
partition of scattered intervals. Its groups of alpha n intervals or more are promoted, and hot
groups of less than alpha/2 n are demoted: their intervals become scattered ones again.

Scattered short intervals cut a wide cluster into many groups of the canonical partition, all of
them small. So when many intervals are added at once, all scattered intervals around a point are
promoted with it, if they are alpha n or more. The invariants do not depend on which they are.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.stabbing_partition import (
    Ends,
    Groups,
    Outline,
    StabbingPartition,
    nonempty,
)
from penstock.kernels.pairs import stabbing

_FEW = 100
"""If this many times the intervals of a call are fewer than all, only whole groups are promoted."""


class Hotspots:
    """Intervals [low, high] by id, in hot groups and in a partition of scattered ones.

    Hot groups are numbered by their points, which ascend. As in a `StabbingPartition`, each change
    of a group gives it a new version.
    """

    def __init__(self, alpha: float = 0.001, epsilon: float = 1.0) -> None:
        self.alpha = alpha
        self.scattered = StabbingPartition(epsilon)
        self.moves = 0  # of intervals between hot and scattered groups, since the beginning
        self.version = 0  # of the last change of hot groups
        none = np.empty(0, np.int64)
        self._ends, self._group_of = Ends(), none
        self._hot = Outline(none, none, none)

    # ---- what is there ---------------------------------------------------------------
    def __len__(self) -> int:
        """The number of intervals."""
        return len(self.scattered) + int(self._hot.sizes.sum())

    @property
    def size(self) -> int:
        """The number of groups, hot and scattered."""
        return len(self._hot) + self.scattered.size

    @property
    def coverage(self) -> float:
        """The share of intervals that are in hot groups."""
        return int(self._hot.sizes.sum()) / max(len(self), 1)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.scattered.nbytes + self._ends.nbytes + self._group_of.nbytes

    def group_of(self, ids: I64) -> I64:
        """The number of each id's hot group; −1 if it is scattered or not there."""
        there = self._ends.present(ids)
        found = np.full(ids.shape[0], -1)
        found[there] = self._group_of[ids[there]]
        return found

    def outline(self) -> Outline:
        """Points, sizes and versions of the hot groups."""
        return Outline(self._hot.points.copy(), self._hot.sizes.copy(), self._hot.versions.copy())

    def groups(self) -> Groups:
        """The hot groups with their members, which ascend in each group."""
        return Groups(self.outline(), *stabbing.list_members(self._group_of, len(self._hot)))

    def chosen(self, numbers: I64) -> Groups:
        """The hot groups of these numbers with their members, such as those that have changed."""
        place = np.full(len(self._hot) + 1, -1)
        place[numbers] = np.arange(numbers.shape[0])
        lists = stabbing.list_members(place[self._group_of], numbers.shape[0])
        hot = self._hot
        return Groups(
            Outline(hot.points[numbers], hot.sizes[numbers], hot.versions[numbers]), *lists
        )

    # ---- changes ---------------------------------------------------------------------
    def add(self, ids: I64, lows: I64, highs: I64) -> None:
        """Add intervals of ids that are not there yet, but no empty ones (low > high)."""
        ids, lows, highs = nonempty(ids, lows, highs)
        self._ends.put(ids, lows, highs)
        if room := self._ends.lows.shape[0] - self._group_of.shape[0]:
            self._group_of = np.concatenate((self._group_of, np.full(room, -1)))
        after = np.searchsorted(self._hot.points, lows)
        hot = after < len(self._hot)
        hot[hot] = self._hot.points[after[hot]] <= highs[hot]
        self._group_of[ids[hot]] = after[hot]
        self._resize(after[hot], 1)
        rest = ~hot
        self.scattered.add(ids[rest], lows[rest], highs[rest])
        self._demote()
        if ids.shape[0] * _FEW >= len(self):
            self._promote_points()
        self._promote_groups()

    def remove(self, ids: I64) -> None:
        """Remove the intervals of ids; those that have none are ignored."""
        ids = ids[self._ends.present(ids)]
        self._ends.drop(ids)
        groups = self._group_of[ids]
        self._group_of[ids] = -1
        self._resize(groups[groups >= 0], -1)
        self.scattered.remove(ids[groups < 0])
        self._demote()
        self._promote_groups()

    def _resize(self, groups: I64, by: int) -> None:
        """Count intervals in their groups, or no longer, and give these new versions."""
        counts = np.bincount(groups, minlength=len(self._hot))
        changed = np.flatnonzero(counts)
        self._hot.sizes[:] += by * counts
        self._hot.versions[changed] = self._new_versions(changed.shape[0])

    def _new_versions(self, count: int) -> I64:
        self.version += count
        return np.arange(self.version - count + 1, self.version + 1)

    def _demote(self) -> None:
        """Make the intervals of hot groups that have become too small scattered ones."""
        sizes = self._hot.sizes
        cold = (sizes < self.alpha / 2 * len(self)) | (sizes == 0)
        if not cold.any():
            return
        members = np.flatnonzero(np.append(cold, False)[self._group_of])
        self._group_of[members] = -1
        sizes[cold] = 0
        self._renumber(self._hot)
        self.scattered.add(members, self._ends.lows[members], self._ends.highs[members])
        self.moves += members.shape[0]
        self.version += 1

    def _promote_groups(self) -> None:
        """Make the scattered groups hot that are large enough."""
        least = self.alpha * len(self)
        while self.scattered.size and self.scattered.largest >= least:
            large = np.flatnonzero(self.scattered.outline().sizes >= least)
            groups = self.scattered.chosen(large)
            self._promote(groups.offsets, groups.members)

    def _promote_points(self) -> None:
        """Make all scattered intervals around a point a hot group, if they are enough."""
        points, ids = self.scattered.outline().points, self.scattered.members()
        least = self.alpha * len(self)
        lows, highs = self._ends.lows[ids], self._ends.highs[ids]
        point = stabbing.assign_most_stabbed(points, lows, highs, least)
        counts = np.bincount(point[point >= 0], minlength=points.shape[0])
        large = np.flatnonzero((counts >= least) & (counts > 0))
        place = np.full(points.shape[0] + 1, -1)
        place[large] = np.arange(large.shape[0])
        offsets, at = stabbing.list_members(place[point], large.shape[0])
        self._promote(offsets, ids[at])

    def _promote(self, offsets: I64, members: I64) -> None:
        """Make hot groups of scattered intervals, with a point amid what all of a group share."""
        if not members.shape[0]:
            return
        self.scattered.remove(members)
        self.moves += members.shape[0]
        sizes, old = np.diff(offsets), self._hot
        first = len(old)
        self._group_of[members] = np.repeat(np.arange(first, first + sizes.shape[0]), sizes)
        left = np.maximum.reduceat(self._ends.lows[members], offsets[:-1])
        right = np.minimum.reduceat(self._ends.highs[members], offsets[:-1])
        points = (left >> 1) + (right >> 1) + (left & right & 1)
        self._renumber(
            Outline(
                np.concatenate((old.points, points)),
                np.concatenate((old.sizes, sizes)),
                np.concatenate((old.versions, self._new_versions(sizes.shape[0]))),
            )
        )

    def _renumber(self, groups: Outline) -> None:
        """Number the groups that are not empty by their points."""
        kept = np.flatnonzero(groups.sizes)
        kept = kept[np.argsort(groups.points[kept], kind="stable")]
        number = np.full(len(groups) + 1, -1)
        number[kept] = np.arange(kept.shape[0])
        self._group_of = number[self._group_of]
        self._hot = Outline(groups.points[kept], groups.sizes[kept], groups.versions[kept])
