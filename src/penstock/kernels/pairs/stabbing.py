"""Stabbing partitions of intervals: computed at once, and maintained (Agarwal et al. 2009, §2.1).

A stabbing partition is a set of points such that every interval contains one. The group of an
interval belongs to the first point that is not before its low end, and that point is in the
interval. So the groups, in the order of their points, are neighbouring parts of the intervals in
the order of their low ends, and other points make other groups without a step per interval.

The greedy algorithm (Lemma 1) takes as next point the least high end of the intervals that begin
after the last point. `Partition` keeps the intervals in an order that finds this end in O(log n),
so that the fewest points, tau of them, are found in O(tau log n). An update adds at most one point
and lowers tau by at most one. The points are computed again only when there might be more than
(1 + epsilon) tau, and replaced if there are more than (1 + epsilon / 2) tau; so at least
epsilon tau / (2 + 2 epsilon) updates lie between two computations: O(log n / epsilon) amortised
per update (Lemma 2).

The intervals that end at the greedy points, and begin after the point before, are disjoint: tau is
not below their number. Only the removal of such a *witness* can lower tau. So `Partition` keeps the
greedy points, and far fewer computations are needed than if each removal counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64, Bool
from penstock.kernels.jit import kernel, lean, lean_inlined
from penstock.kernels.pairs.sorted_blocks import (
    FIRST,
    LAST,
    Blocks,
    count_before,
    fill,
    flatten,
    insert,
    is_end,
    is_full,
    items_between,
    least_from,
    length,
    remove,
    replace,
    seek_entry,
)

_LEAST = np.iinfo(np.int64).min
VERSION, TAU, FOUND = 0, 1, 2
"""In `Partition.books`: the number of the last change, a number that tau is not below, and the
number of greedy points."""


class Partition(NamedTuple):
    """Intervals and the groups that they are in."""

    intervals: Blocks  # key: low end, value: high end, item: id
    groups: Blocks  # key: point, value: −size, item: version, of its own, of the last change
    books: I64
    greedy: I64  # the points of the last greedy computation; room for as many as there are groups
    lost: Bool  # which of them have lost a witness


@kernel
def partition_sorted(lows: I64, highs: I64) -> tuple[I64, I64, I64]:
    """The canonical partition of intervals in order of their low ends.

    Given are where each group starts, and the end of the last; and the common intersection of each
    group: the most low end and the least high end.
    """
    n = lows.shape[0]
    starts, lefts, rights = (
        np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )  # fmt: skip
    groups = -1
    for i in range(n):
        if groups < 0 or lows[i] > rights[groups]:
            groups += 1
            starts[groups], rights[groups] = i, highs[i]
        lefts[groups] = lows[i]
        rights[groups] = min(rights[groups], highs[i])
    starts[groups + 1] = n
    return starts[: groups + 2].copy(), lefts[: groups + 1].copy(), rights[: groups + 1].copy()


@kernel
def spread_groups(order: I64, starts: I64) -> I64:
    """The group of each interval, where `order` lists the intervals group by group."""
    found = np.empty(order.shape[0], np.int64)
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            found[order[i]] = g
    return found


def canonical_partition(lows: I64, highs: I64) -> tuple[I64, I64, I64, I64]:
    """The canonical partition of intervals, none of them empty, in O(n log n) (Lemma 1).

    Given are the group of each interval, and of each group: the most low end and the least high
    end, between which every point is in all of its intervals; and its size.
    """
    order = np.argsort(lows, kind="stable")
    starts, lefts, rights = partition_sorted(lows[order], highs[order])
    return spread_groups(order, starts), lefts, rights, np.diff(starts)


@kernel
def merge_sorted(
    keys: I64, values: I64, items: I64, new_keys: I64, new_values: I64, new_items: I64
) -> tuple[I64, I64, I64]:
    """Two lists of entries in order of key and item as one."""
    n, m = keys.shape[0], new_keys.shape[0]
    out_keys, out_values, out_items = (
        np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    )  # fmt: skip
    i = j = 0
    for k in range(n + m):
        old = j == m or (
            i < n
            and (keys[i] < new_keys[j] or (keys[i] == new_keys[j] and items[i] < new_items[j]))
        )
        if old:
            out_keys[k], out_values[k], out_items[k] = keys[i], values[i], items[i]
            i += 1
        else:
            out_keys[k], out_values[k], out_items[k] = new_keys[j], new_values[j], new_items[j]
            j += 1
    return out_keys, out_values, out_items


@kernel
def fewest_groups(intervals: Blocks) -> int:
    """Tau: the size of the smallest stabbing partition."""
    found = 0
    rank, at = seek_entry(intervals, _LEAST, FIRST)
    while not is_end(intervals, rank, at):
        rank, at = seek_entry(intervals, least_from(intervals, rank, at), LAST)
        found += 1
    return found


@kernel
def _fewest_points(intervals: Blocks, most: int) -> tuple[I64, I64]:
    """The points of the greedy algorithm, and how many intervals are in groups up to each."""
    points, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    found = 0
    rank, at = seek_entry(intervals, _LEAST, FIRST)
    while not is_end(intervals, rank, at):
        points[found] = least_from(intervals, rank, at)
        rank, at = seek_entry(intervals, points[found], LAST)
        ends[found] = count_before(intervals, rank, at)
        found += 1
    return points[:found], ends[:found]


@kernel
def _kept_versions(sizes: I64, versions: I64, ends: I64, books: I64) -> I64:
    """Versions of new groups: those of old groups with the same intervals, else new ones."""
    found = np.empty(ends.shape[0], np.int64)
    old = begin = start = 0
    for g in range(ends.shape[0]):
        while old < sizes.shape[0] and begin < start:
            begin += sizes[old]
            old += 1
        if old < sizes.shape[0] and begin == start and begin + sizes[old] == ends[g]:
            found[g] = versions[old]
        else:
            books[VERSION] += 1
            found[g] = books[VERSION]
        start = ends[g]
    return found


@lean
def note_greedy(partition: Partition, points: I64) -> None:
    """Keep the points of a greedy computation; each has a witness."""
    for i in range(points.shape[0]):
        partition.greedy[i], partition.lost[i] = points[i], False
    partition.books[TAU] = partition.books[FOUND] = points.shape[0]


@lean_inlined
def _lose_witness(partition: Partition, low: int, high: int) -> None:
    """Lower the bound on tau if a removed interval may have been the witness of a point."""
    greedy, end = partition.greedy, partition.books[FOUND]
    first, until = 0, end
    while first < until:
        middle = (first + until) >> 1
        if greedy[middle] < high:
            first = middle + 1
        else:
            until = middle
    if first == end or greedy[first] != high or partition.lost[first]:
        return
    if first == 0 or greedy[first - 1] < low:
        partition.lost[first] = True
        partition.books[TAU] -= 1


@kernel
def renew_groups(partition: Partition, epsilon: float) -> None:
    """If due, compute tau; replace the points if there are more than (1 + epsilon / 2) tau."""
    groups, books = partition.groups, partition.books
    size = length(groups)
    if not _is_due(partition, epsilon):
        return
    points, ends = _fewest_points(partition.intervals, size)
    note_greedy(partition, points)
    if size > (1 + epsilon / 2) * points.shape[0]:
        _, values, versions = flatten(groups)
        kept = _kept_versions(-values, versions, ends, books)
        sizes = ends.copy()
        sizes[1:] -= ends[:-1]
        fill(groups, points, -sizes, kept)


@lean_inlined
def _is_due(partition: Partition, epsilon: float) -> bool:
    """Whether there might be more than (1 + epsilon) tau groups."""
    return length(partition.groups) > (1 + epsilon) * partition.books[TAU]


@lean_inlined
def _next_version(partition: Partition) -> int:
    partition.books[VERSION] += 1
    return partition.books[VERSION]


@lean_inlined
def _place_interval(partition: Partition, low: int, high: int) -> None:
    """Count an interval, which is not among the others yet, in its group.

    If no point is in it, the point after it moves into it, as far as its group allows that; else
    its high end becomes a point, and takes those of the group over that begin before it.
    """
    intervals, groups = partition.intervals, partition.groups
    rank, at = seek_entry(groups, low, FIRST)
    if is_end(groups, rank, at):
        insert(groups, high, -1, _next_version(partition))
        return
    slab = groups.order[rank]
    point, size = groups.keys[slab, at], -groups.values[slab, at]
    later = 0  # how many of the group begin after the interval's end
    if high < point:
        last_rank, last = seek_entry(intervals, point, LAST)
        next_rank, next_at = seek_entry(intervals, high, LAST)
        later = count_before(intervals, last_rank, last)
        later -= count_before(intervals, next_rank, next_at)
    if later == 0:
        replace(groups, rank, at, min(point, high), -size - 1, _next_version(partition))
        return
    if later < size:
        replace(groups, rank, at, point, -later, _next_version(partition))
    insert(groups, high, later - size - 1, _next_version(partition))


@lean
def insert_intervals(
    partition: Partition, lows: I64, highs: I64, ids: I64, start: int, epsilon: float
) -> int:
    """Add intervals from number `start` on, until the groups are due or no block is free.

    Returns the number of the first interval that is not added.
    """
    for i in range(start, ids.shape[0]):
        due = _is_due(partition, epsilon)
        if due or is_full(partition.intervals) or is_full(partition.groups):
            return i
        _place_interval(partition, lows[i], highs[i])
        insert(partition.intervals, lows[i], highs[i], ids[i])
    return ids.shape[0]


@lean
def remove_intervals(partition: Partition, lows: I64, ids: I64, start: int, epsilon: float) -> int:
    """Remove intervals that are there from number `start` on, by their low ends and ids.

    Stops when the groups are due; returns the number of the first interval that is not removed.
    """
    intervals, groups = partition.intervals, partition.groups
    for i in range(start, ids.shape[0]):
        if _is_due(partition, epsilon):
            return i
        rank, at = seek_entry(intervals, lows[i], ids[i])
        high = intervals.values[intervals.order[rank], at]
        remove(intervals, rank, at)
        rank, at = seek_entry(groups, lows[i], FIRST)
        slab = groups.order[rank]
        point, size = groups.keys[slab, at], -groups.values[slab, at]
        if size == 1:
            remove(groups, rank, at)
        else:
            replace(groups, rank, at, point, 1 - size, _next_version(partition))
        _lose_witness(partition, lows[i], high)
    return ids.shape[0]


@kernel
def find_groups(groups: Blocks, lows: I64) -> I64:
    """The number of the group, counted from the first, of an interval that begins at each low."""
    found = np.empty(lows.shape[0], np.int64)
    for i in range(lows.shape[0]):
        rank, at = seek_entry(groups, lows[i], FIRST)
        found[i] = count_before(groups, rank, at)
    return found


@kernel
def members_of(intervals: Blocks, points: I64, sizes: I64, chosen: I64) -> I64:
    """The ids in the chosen groups, one group after the other, each in order of low ends."""
    total = 0
    for g in chosen:
        total += sizes[g]
    found = np.empty(total, np.int64)
    end = 0
    for g in chosen:
        first = _LEAST if g == 0 else points[g - 1] + 1
        found[end : end + sizes[g]] = items_between(intervals, first, points[g])
        end += sizes[g]
    return found


@kernel
def list_members(group_of: I64, groups: int) -> tuple[I64, I64]:
    """Where the members of each group start, and the members of all, ascending in each group.

    Members of no group have −1.
    """
    offsets = np.zeros(groups + 1, np.int64)
    for g in group_of:
        if g >= 0:
            offsets[g + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    members, ends = np.empty(offsets[groups], np.int64), offsets[:-1].copy()
    for i in range(group_of.shape[0]):
        g = group_of[i]
        if g >= 0:
            members[ends[g]] = i
            ends[g] += 1
    return offsets, members


@kernel
def assign_most_stabbed(points: I64, lows: I64, highs: I64, least: float) -> I64:
    """For each interval the point in it that most intervals contain, the first of several such.

    Points ascend. Those in less than `least` intervals do not count; −1: there is no other.
    """
    stabs = np.zeros(points.shape[0] + 1, np.int64)
    for i in range(lows.shape[0]):
        stabs[np.searchsorted(points, lows[i])] += 1
        stabs[np.searchsorted(points, highs[i], side="right")] -= 1
    stabs = np.cumsum(stabs)[:-1]
    many = np.flatnonzero(stabs >= max(least, 1.0))
    popular, levels = points[many], 1
    while 1 << levels <= many.shape[0]:
        levels += 1
    best = np.zeros((levels, many.shape[0]), np.int64)  # [k, i]: of the 2^k points from i on
    best[0] = many
    for k in range(1, levels):
        for i in range(many.shape[0] - (1 << k) + 1):
            one, other = best[k - 1, i], best[k - 1, i + (1 << (k - 1))]
            best[k, i] = one if stabs[one] >= stabs[other] else other
    found = np.full(lows.shape[0], -1)
    for i in range(lows.shape[0]):
        first = np.searchsorted(popular, lows[i])
        end = np.searchsorted(popular, highs[i], side="right")
        if first < end:
            k = 0
            while 2 << k <= end - first:
                k += 1
            one, other = best[k, first], best[k, end - (1 << k)]
            found[i] = one if stabs[one] >= stabs[other] else other
    return found
