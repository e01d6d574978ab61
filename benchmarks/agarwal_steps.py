"""Step 1 of every strategy: the queries that a row affects, without their partners.

SSI has this step in the engine. The loops of the others here do what their kernels do, but go on
to the next query at its first partner, and count queries instead of listing pairs. They are for
tables of integers in one run, which every row sees as a whole.
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
from penstock.kernels.pairs.ssi import Lists, Prefixes

_compiled = numba.njit(nogil=True, error_model="numpy")


def affected(strategy: Strategy, probes: Probes, entries: Entries, queries: Queries) -> int:
    """How many queries the rows affect; SSI without own conditions counts pairs of prefixes."""
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
            return int(strategy.affected(probes, entries).rows.shape[0])
        case Hotspot():
            hot, rest = affected(strategy.ssi, probes, entries, queries), strategy.scattered
            return hot + (affected(rest, probes, entries, queries) if rest else 0)
    raise NotImplementedError(strategy.name)


def affected_exactly(strategy: Strategy, probes: Probes, entries: Entries, queries: Queries) -> int:
    """The same, with each query of two prefixes counted once."""
    match strategy:
        case Ssi(members=Lists() as lists):
            return _size(lists, strategy.affected(probes, entries))
        case Hotspot():
            hot, rest = affected_exactly(strategy.ssi, probes, entries, queries), strategy.scattered
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
def _part(probes: Probes, entries: Entries, row: int) -> tuple[int, int, int]:
    """Where the partners of a row's key are, and what is subtracted from their values."""
    begin, end = 0, entries.values.shape[0]
    if probes.keys.shape[0]:
        begin = np.searchsorted(entries.keys, probes.keys[row])
        end = np.searchsorted(entries.keys, probes.keys[row] + 1)
    return begin, end, probes.shifts[row] if probes.shifts.shape[0] else 0


@_compiled
def _accepts(queries: Queries, slot: int, probes: Probes, row: int) -> bool:
    """Whether a row satisfies the query's conditions on the probing row."""
    for c in range(probes.own.shape[0]):
        value = probes.own[c, row]
        if value < queries.own_low[c, slot] or value > queries.own_high[c, slot]:
            return False
    return True


@_compiled
def _has_partner(values: I64, begin: int, end: int, low: int, high: int) -> bool:
    """Whether some of the sorted values at [begin, end) are in an interval: one search."""
    after = end
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < low:
            begin = middle + 1
        else:
            end = middle
    return begin < after and values[begin] <= high


@_compiled
def _vanilla(slots: I64, order: I64, probes: Probes, entries: Entries, queries: Queries) -> int:
    found = 0
    for row in order:
        begin, end, shift = _part(probes, entries, row)
        for slot in slots:
            if _accepts(queries, slot, probes, row):
                low, high = queries.low[slot] + shift, queries.high[slot] + shift
                found += _has_partner(entries.values, begin, end, low, high)
    return found


@_compiled
def _select_first(
    forest: Forest, order: I64, probes: Probes, entries: Entries, queries: Queries
) -> int:
    found, point = 0, np.empty(probes.own.shape[0], np.int64)
    stack, items = room_for_search(), forest.slots.copy()
    for row in order:
        begin, end, shift = _part(probes, entries, row)
        for c in range(point.shape[0]):
            point[c] = probes.own[c, row]
        for j in range(stab_tree(forest, 0, point, stack, items) if begin < end else 0):
            slot = forest.slots[items[j]]
            low, high = queries.low[slot] + shift, queries.high[slot] + shift
            found += _has_partner(entries.values, begin, end, low, high)
    return found


@_compiled
def _merge(asked: Sorted, order: I64, probes: Probes, entries: Entries, queries: Queries) -> int:
    found, values = 0, entries.values
    for row in order:
        at, end, shift = _part(probes, entries, row)
        for j in range(asked.slots.shape[0]):
            while at < end and values[at] - shift < asked.lows[j]:
                at += 1
            if at == end:
                break
            if values[at] - shift <= asked.highs[j]:
                found += _accepts(queries, asked.slots[j], probes, row)
    return found


@_compiled
def _data_outer(forest: Forest, order: I64, probes: Probes, entries: Entries) -> int:
    found, axis = 0, probes.own.shape[0]
    point, stack, items = np.empty(axis + 1, np.int64), room_for_search(), forest.slots.copy()
    seen = np.full(forest.slots.shape[0], -1, np.int64)  # the last row that affects it, by item
    for row in order:
        begin, end, shift = _part(probes, entries, row)
        for c in range(axis):
            point[c] = probes.own[c, row]
        for k in range(begin, end):
            point[axis] = entries.values[k] - shift
            for j in range(stab_tree(forest, 0, point, stack, items)):
                if seen[items[j]] != row:
                    seen[items[j]] = row
                    found += 1
    return found
