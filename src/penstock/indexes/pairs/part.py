"""A part of an index over pairs: some queries, with a router of rows for either side.

The queries of a part do not change. Those that are gone are marked, and skipped in the results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.arrays import I64, Bool
from penstock.indexes.pairs.router import Router
from penstock.indexes.pairs.rows import Takers
from penstock.kernels.pairs.data import Entries, Partner, Probes, Queries


@dataclass(frozen=True, slots=True)
class Part:
    """Queries by slot: their numbers in Q, marks of gone queries, and their routers by side."""

    qids: I64
    gone: Bool
    exact: Bool
    queries: tuple[Queries, Queries]
    routers: tuple[Router, Router]

    def without(self, gone: Bool) -> Part:
        """The same part with these slots marked as gone."""
        return replace(self, gone=gone)

    def live(self) -> I64:
        """The queries that are not gone."""
        return self.qids[~self.gone]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; sides share some."""
        arrays = (self.qids, self.gone, self.exact, *self.queries[0], *self.queries[1])
        owners = [a if not isinstance(a.base, np.ndarray) else a.base for a in arrays]
        whole = {id(owner): owner.nbytes for owner in owners}
        return sum(whole.values()) + sum(router.nbytes for router in self.routers)

    def match(self, side: int, probes: Probes, entries: Entries, partner: Partner) -> Takers:
        """The queries that take each pair of a row of one side, by row, position and query."""
        found = self.routers[side].probe(probes, entries, partner)
        takers = Takers(found.rows, found.positions, self.qids[found.slots])
        return takers[np.flatnonzero(~self.gone[found.slots])] if self.gone.any() else takers
