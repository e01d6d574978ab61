"""A part of an index over pairs: some queries, with a router of rows for either side.

The queries of a part do not change. Those that are gone are marked, and skipped in the results.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.arrays import I64, Bool
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.part_lists import (
    all_see,
    is_pure,
    pairs_of,
    pays,
    prefixes_of,
    query_lists,
)
from penstock.indexes.pairs.router import Router
from penstock.indexes.pairs.rows import Prefixes, QueryLists, Takers
from penstock.kernels.pairs.data import Entries, Partner, Probes, Queries, Triples
from penstock.kernels.pairs.ssi import Lists


@dataclass(frozen=True, slots=True)
class Part:
    """Queries by slot: their numbers in Q, marks of gone queries, and their routers by side.

    The conditions of both sides are views of the boxes where they can be.
    """

    qids: I64
    gone: Bool
    boxes: Boxes
    queries: tuple[Queries, Queries]
    routers: tuple[Router, Router]
    _lists: dict[int, tuple[Lists, QueryLists]] = field(default_factory=dict)
    """By side: what codes are about, made when it is first needed."""
    _pays: dict[int, bool] = field(default_factory=dict)
    """By side: whether the pairs of the last rows had so many queries that codes pay."""

    @property
    def exact(self) -> Bool:
        """Which queries take every pair that is found."""
        return self.boxes.exact

    def without(self, gone: Bool) -> Part:
        """The same part with these slots marked as gone."""
        return replace(self, gone=gone, _lists={})

    def turned(self, side: int, queries: Queries, router: Router) -> Part:
        """The same part with other conditions of one side."""
        asked, routers = [*self.queries], [*self.routers]
        asked[side], routers[side] = queries, router
        return replace(self, queries=(asked[0], asked[1]), routers=(routers[0], routers[1]))

    def slots_of(self, qids: I64) -> I64:
        """The slots of those queries that are here and not gone; a number may be used again."""
        slots = np.searchsorted(self.qids, qids)
        slots[slots == self.qids.shape[0]] = 0
        here: I64 = slots[(self.qids[slots] == qids) & ~self.gone[slots]]
        return here

    def live(self) -> I64:
        """The queries that are not gone."""
        return self.qids[~self.gone]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; sides share some."""
        arrays = (
            self.qids, self.gone, *self.boxes.arrays(), *self.queries[0], *self.queries[1]
        )  # fmt: skip
        owners = [a if not isinstance(a.base, np.ndarray) else a.base for a in arrays]
        whole = {id(owner): owner.nbytes for owner in owners}
        return sum(whole.values()) + sum(router.nbytes for router in self.routers)

    def match(self, side: int, probes: Probes, entries: Entries, partner: Partner) -> Takers:
        """The queries that take each pair of a row of one side, by row, position and query."""
        found = self.routers[side].probe(probes, entries, partner)
        return self._takers(found)

    def _takers(self, found: Triples) -> Takers:
        takers = Takers(found.rows, found.positions, self.qids[found.slots])
        return takers[np.flatnonzero(~self.gone[found.slots])] if self.gone.any() else takers

    # ---- codes -----------------------------------------------------------------------
    def match_coded(
        self, side: int, probes: Probes, entries: Entries, partner: Partner
    ) -> tuple[Takers, Prefixes | None]:
        """Like `match`, but pairs may be prefixes, where that costs less than their queries.

        The choice follows what the rows before have found. It changes no answer.
        """
        if not self._can_code(side, probes, entries, partner):
            return self.match(side, probes, entries, partner), None
        if not self._pays.get(side, True):
            takers = self.match(side, probes, entries, partner)
            self._pays[side] = pays(len(takers), pairs_of(takers))
            return takers, None
        coded, found = self.routers[side].probe_coded(probes, entries, partner)
        if coded is None:
            return self._takers(found), None
        prefixes = prefixes_of(coded[1], self._lists_of(side, coded[0]))
        self._pays[side] = pays(int(prefixes.lengths.sum()), len(prefixes))
        return self._takers(found), prefixes

    def _can_code(self, side: int, probes: Probes, entries: Entries, partner: Partner) -> bool:
        queries = self.queries[side]
        pure = is_pure(queries) and bool(self.exact.all())
        return pure and all_see(queries, probes, entries, partner)

    def _lists_of(self, side: int, lists: Lists) -> QueryLists:
        if side not in self._lists or self._lists[side][0] is not lists:
            self._lists[side] = lists, query_lists(lists, self.qids, self.gone)
        return self._lists[side][1]
