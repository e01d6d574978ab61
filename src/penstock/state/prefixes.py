"""Sets of queries that are prefixes of shared lists, written out where a reader needs the members.

Members ascend in each set, so that no reader can see how a set was made.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.delta import PrefixSets, QuerySets, Sets
from penstock.kernels.prefix_sets import Words, expand_prefixes, places_by_rank


def plain(sets: QuerySets) -> Sets:
    """The sets with their members listed."""
    if isinstance(sets, Sets):
        return sets
    out = np.empty(int(sets.lengths.sum()) + 1, np.int64)
    return Sets(_expand(sets, out), out[:-1])


def small_items(sets: QuerySets) -> tuple[I64, Words]:
    """Offsets and items of the sets; items of 32 bits where the sets have to be listed."""
    if isinstance(sets, Sets):
        return sets.offsets, sets.items
    out = np.empty(int(sets.lengths.sum()) + 1, np.int32)
    return _expand(sets, out), out[:-1]


def cheaper(sets: PrefixSets) -> QuerySets:
    """The sets with their members listed, if these are fewer than those of the shared lists."""
    return plain(sets) if sets.lengths.sum() < sets.items.shape[0] else sets


def _expand(sets: PrefixSets, out: Words) -> I64:
    offsets, members = sets.ranked.members.offsets, sets.ranked.members.items
    places = places_by_rank(offsets, sets.ranked.ranks)
    what = (sets.starts, sets.lists, sets.lengths, offsets, members, sets.ranked.ranks, places)
    return expand_prefixes(*what, out)
