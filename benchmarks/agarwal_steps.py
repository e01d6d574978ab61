"""Step 1 of every strategy: the queries that a row affects, without their partners.

SSI has this step in the engine. The others do what they do there, but go on to the next query at
its first partner, and count queries instead of listing pairs. Every row sees all of S.
"""

from __future__ import annotations

import numba
import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.plain import DataOuter, Merge, SelectFirst, Vanilla
from penstock.indexes.pairs.ssi import Hotspot, Ssi
from penstock.indexes.pairs.strategy import Strategy, probing_order
from penstock.kernels.pairs.data import Entries, Probes, Queries
from penstock.kernels.pairs.merge import Sorted
from penstock.kernels.pairs.rtree import Forest, room_for_search, stab_tree
from penstock.kernels.pairs.search import (
    STRETCHES,
    find_stretches,
    first_gap_from,
    gap_of,
    key_of,
    own_holds,
    shift_of,
)
from penstock.kernels.pairs.ssi import Lists, Prefixes

_compiled = numba.njit(nogil=True, error_model="numpy")


def affected(strategy: Strategy, probes: Probes, entries: Entries, queries: Queries) -> int:
    """How many queries the rows affect; SSI without own conditions counts prefixes."""
    order = probing_order(probes)
    match strategy:
        case Vanilla():
            return int(_vanilla(strategy.slots, order, probes, entries, queries))
        case DataOuter():
            return int(_data_outer(strategy.forest, order, probes, entries))
        case Merge():
            return int(_merge(strategy.sorted, order, probes, entries, queries))
        case SelectFirst():
            return int(_select_first(strategy.forest, order, probes, entries, queries))
        case Ssi():
            found = strategy.affected(probes, entries)
            return found.rows.shape[0]
        case Hotspot():
            hot = affected(strategy.ssi, probes, entries, queries)
            rest = strategy.scattered
            return hot + (affected(rest, probes, entries, queries) if rest else 0)
    raise NotImplementedError(strategy.name)


def affected_exactly(
    strategy: Strategy, probes: Probes, entries: Entries, queries: Queries
) -> int:
    """The same, with each query of a group's two prefixes counted once."""
    match strategy:
        case Ssi(groups=Lists() as lists):
            return _size(lists, strategy.affected(probes, entries))
        case Hotspot():
            hot = affected_exactly(strategy.ssi, probes, entries, queries)
            rest = strategy.scattered
            return hot + (affected(rest, probes, entries, queries) if rest else 0)
    return affected(strategy, probes, entries, queries)


def _size(lists: Lists, found: Prefixes) -> int:
    size = 0
    for group, left, right in zip(found.groups, found.left, found.right, strict=True):
        first = lists.starts[group]
        parts = lists.slots[0, first : first + left], lists.slots[1, first : first + right]
        size += np.union1d(*parts).shape[0]
    return size


# ---- loops ---------------------------------------------------------------------------
@_compiled
def _has_partner(
    slot: int, shift: int, stretches: I64, count: int, undefined: int, entries: Entries,
    queries: Queries,
) -> bool:  # fmt: skip
    """Whether a query has a partner in its interval: one search."""
    values = entries.values
    for s in range(count):
        begin, end = stretches[s, 0], stretches[s, 1]
        at = first_gap_from(values, begin, end, queries.low[slot], shift, False, undefined)
        if at < end and gap_of(values[at], shift, False, undefined) <= queries.high[slot]:
            return True
    return False


@_compiled
def _vanilla(
    slots: I64, order: I64, probes: Probes, entries: Entries, queries: Queries
) -> int:  # fmt: skip
    found = 0
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for row in order:
        count = find_stretches(entries, key_of(probes, row), False, stretches)
        shift = shift_of(probes, row)
        for slot in slots:
            if own_holds(probes, queries, row, slot):
                found += _has_partner(
                    slot, shift, stretches, count, probes.undefined, entries, queries
                )
    return found


@_compiled
def _select_first(
    forest: Forest, order: I64, probes: Probes, entries: Entries, queries: Queries
) -> int:
    found = 0
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    point = np.empty(probes.own.shape[0], np.int64)
    stack, items = room_for_search(), forest.slots.copy()
    for row in order:
        count = find_stretches(entries, key_of(probes, row), False, stretches)
        shift = shift_of(probes, row)
        if count == 0:
            continue
        for c in range(point.shape[0]):
            point[c] = probes.own[c, row]
        for j in range(stab_tree(forest, 0, point, stack, items)):
            slot = forest.slots[items[j]]
            found += _has_partner(
                slot, shift, stretches, count, probes.undefined, entries, queries
            )
    return found


@_compiled
def _merge(
    asked: Sorted, order: I64, probes: Probes, entries: Entries, queries: Queries
) -> int:  # fmt: skip
    """It is for one run: a query with partners in two would count twice."""
    found, values = 0, entries.values
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    for row in order:
        shift = shift_of(probes, row)
        for s in range(find_stretches(entries, key_of(probes, row), False, stretches)):
            at, end = stretches[s, 0], stretches[s, 1]
            for j in range(asked.slots.shape[0]):
                low, high = asked.lows[j], asked.highs[j]
                while at < end and gap_of(values[at], shift, False, probes.undefined) < low:
                    at += 1
                if at == end:
                    break
                if gap_of(values[at], shift, False, probes.undefined) <= high:
                    found += own_holds(probes, queries, row, asked.slots[j])
    return found


@_compiled
def _data_outer(forest: Forest, order: I64, probes: Probes, entries: Entries) -> int:
    found, own = 0, probes.own.shape[0]
    stretches = np.empty((STRETCHES * entries.offsets.shape[0], 2), np.int64)
    point, stack, items = np.empty(own + 1, np.int64), room_for_search(), forest.slots.copy()
    seen = np.full(forest.slots.shape[0], -1, np.int64)  # the last row that affects it, by item
    for row in order:
        for c in range(own):
            point[c] = probes.own[c, row]
        shift = shift_of(probes, row)
        for s in range(find_stretches(entries, key_of(probes, row), False, stretches)):
            for k in range(stretches[s, 0], stretches[s, 1]):
                point[own] = gap_of(entries.values[k], shift, False, probes.undefined)
                for j in range(stab_tree(forest, 0, point, stack, items)):
                    if seen[items[j]] != row:
                        seen[items[j]] = row
                        found += 1
    return found
