"""Pairs with the sets of queries that take them, coded as far as the index codes them.

A prefix of a list of the index becomes a code of the set table; the list enters the table once, not
with each pair. Queries that are listed become a listed set, and a pair with several of these
becomes a union.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.eddy.results import Matches
from penstock.indexes.pairs.rows import Prefixes, QueryLists
from penstock.state.sets import SetTable, prefix_codes


class PairSets:
    """Set codes of pairs; it remembers under which numbers the table has the lists in use."""

    def __init__(self, table: SetTable) -> None:
        self._table = table
        self._version = table.version
        self._numbers: dict[int, tuple[QueryLists, I64]] = {}

    def follow(self, used: list[Prefixes]) -> None:
        """Forget the numbers of lists that are no longer used or valid."""
        version = self._table.version
        if version[0] is not self._version[0] or version[1] != self._version[1]:
            self._numbers.clear()
        self._version = version
        if len(self._numbers) > 2 * len(used):
            kept = {id(found.of) for found in used}
            self._numbers = {at: known for at, known in self._numbers.items() if at in kept}

    def codes(self, found: Prefixes) -> I64:
        """The code of each prefix."""
        known = self._numbers.get(id(found.of))
        if known is None:
            known = found.of, self._table.intern_lists(found.of.ranked)
            self._numbers[id(found.of)] = known
        return prefix_codes(known[1][found.lists], found.lengths)

    def of_queries(self, found: Matches) -> Matches:
        """Matches in order, query by query, as pairs with listed sets."""
        heads = found.heads(found.instants)
        codes = self._table.intern(np.append(heads, len(found)), found.qids)
        return _pairs(found, heads, codes)

    def united(self, parts: list[Matches]) -> Matches:
        """Pairs with one code each; a pair may be in several parts, and several times in one."""
        some = [part for part in parts if len(part)]
        if not some:
            return Matches.none(2)
        found = Matches.in_order(some)
        heads = found.heads(found.instants)
        codes = self._table.unite(np.append(heads, len(found)), found.qids)
        return _pairs(found, heads, codes)


def _pairs(found: Matches, heads: I64, codes: I64) -> Matches:
    return Matches(np.take(found.positions, heads, axis=1), found.instants[heads], codes)
