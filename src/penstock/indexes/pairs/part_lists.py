"""The lists of queries of a part of an index over pairs, and its pairs as prefixes of them.

An SSI over a pure template sorts the queries of each group by the low ends of their intervals, and
by the high ends. The queries that take a pair are a prefix of one of these lists, so a pair needs a
code, however many queries take it (Agarwal et al. 2009, §3.1.2).
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Ranked, Sets, start_offsets
from penstock.indexes.pairs.rows import Prefixes, QueryLists, Takers
from penstock.kernels.pairs.coded import Coded
from penstock.kernels.pairs.data import Entries, Partner, Probes, Queries
from penstock.kernels.pairs.ssi import Lists

_WORTH = 8
"""Pairs with so many queries, on average, are coded: fewer are listed sooner."""


def is_pure(queries: Queries) -> bool:
    """Whether an interval is all that the queries ask."""
    asked = (queries.own_low, queries.rest_columns, queries.lengths)
    return not any(conditions.shape[0] for conditions in asked)


def all_see(queries: Queries, probes: Probes, entries: Entries, partner: Partner) -> bool:
    """Whether all queries see all rows that meet."""
    if not queries.since.shape[0] or not entries.positions.shape[0]:
        return True
    most = int(queries.since.max())
    first, end = probes.floor - partner.base, int(probes.limits.max(initial=0)) - partner.base
    met = partner.epoch[max(first, 0) : max(end, 0)]
    return bool(probes.epochs.min(initial=most) >= most and met.min(initial=most) >= most)


def query_lists(lists: Lists, qids: I64, gone: Bool) -> QueryLists:
    """The lists of all groups, both sides of a group after each other, without gone queries."""
    sizes, starts = np.diff(lists.starts), lists.starts
    count = sizes.shape[0]
    offsets = start_offsets(np.repeat(sizes, 2))
    owners = np.repeat(np.arange(2 * count), np.repeat(sizes, 2))
    ranks = np.arange(offsets[-1]) - offsets[owners]
    slots = lists.slots[owners & 1, starts[owners >> 1] + ranks]
    left = start_offsets(~gone[slots])
    order = np.lexsort((slots, owners))
    ranked = Ranked(Sets(offsets, slots[order]), ranks[order])
    if gone.any():
        stays = ~gone[ranked.members.items]
        ranked, _ = ranked.spread(ranked.members.items[stays], stays.astype(np.int64))
    members = Sets(ranked.members.offsets, qids[ranked.members.items])
    return QueryLists(Ranked(members, ranked.ranks), offsets[:-1], left)


def prefixes_of(coded: Coded, of: QueryLists) -> Prefixes:
    """The codes that stand for queries which are still there."""
    pairs = np.repeat(np.arange(coded.rows.shape[0]), np.diff(coded.starts))
    lists = 2 * coded.groups + coded.sides
    first = of.firsts[lists]
    lengths = of.left[first + coded.lengths] - of.left[first]
    found = Prefixes(coded.rows[pairs], coded.positions[pairs], lists, lengths, of)
    return found if lengths.all() else _some(found, np.flatnonzero(lengths))


def _some(found: Prefixes, at: I64) -> Prefixes:
    parts = found.rows[at], found.positions[at], found.lists[at], found.lengths[at]
    return Prefixes(*parts, found.of)


# ---- when codes pay ------------------------------------------------------------------
def pays(queries: int, pairs: int) -> bool:
    """Whether pairs have so many queries that codes cost less."""
    return queries >= _WORTH * pairs


def pairs_of(found: Takers) -> int:
    """How many pairs there are; they are in order."""
    if not len(found):
        return 0
    other = (found.rows[1:] != found.rows[:-1]) | (found.positions[1:] != found.positions[:-1])
    return 1 + int(np.count_nonzero(other))
