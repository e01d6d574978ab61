"""A part of an index over pairs: some queries, with a router of rows for either side.

The queries of a part do not change. Those that are gone are marked, and skipped in the results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.arrays import I64, Bool
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.router import Router
from penstock.indexes.pairs.rows import Takers
from penstock.kernels.pairs.data import Entries, Partner, Probes, Queries


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

    @property
    def exact(self) -> Bool:
        """Which queries take every pair that is found."""
        return self.boxes.exact

    def without(self, gone: Bool) -> Part:
        """The same part with these slots marked as gone."""
        return replace(self, gone=gone)

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
        takers = Takers(found.rows, found.positions, self.qids[found.slots])
        return takers[np.flatnonzero(~self.gone[found.slots])] if self.gone.any() else takers
