"""Amounts of work in the cost formulas, known or estimated by row (Agarwal et al. 2009, §4.1).

Those that are the same for all rows follow from the queries of a part, which do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.indexes.pairs.costs import Clusters, Slabs, Work
from penstock.indexes.pairs.estimates import F64, Accepting
from penstock.indexes.pairs.strategy import boxes_of, possible_slots
from penstock.kernels.pairs.data import Entries, Grouping, Probes, Queries
from penstock.kernels.pairs.rtree import slabs_of
from penstock.kernels.stem_runs import count_keys

_LOOK = 64  # values that are looked at


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that are the same for all rows, and counts that give the others.

    `slabs` are those of own conditions, and of intervals; `lengths` are quantiles of intervals'.
    """

    queries: int
    slabs: tuple[float, float]
    lengths: F64
    hot: Clusters
    accepting: Accepting
    scattered: Accepting

    @staticmethod
    def of(queries: Queries, hot: Grouping) -> Amounts:
        """Count queries and their hot groups."""
        slots = possible_slots(queries)
        groups = hot.groups[slots]
        scattered, grouped = slots[groups < 0], slots[groups >= 0]
        length = float(_lengths(queries, grouped).mean()) if grouped.shape[0] else 0.0
        return Amounts(
            slots.shape[0],
            _slabs(queries, slots),
            _some(np.sort(_lengths(queries, slots))),
            Clusters(np.unique(groups[groups >= 0]).shape[0], length, scattered.shape[0]),
            Accepting(queries.own_low[:, slots], queries.own_high[:, slots]),
            Accepting(queries.own_low[:, scattered], queries.own_high[:, scattered]),
        )

    def work(self, own: I64, partners: F64, entries: Entries) -> Work:
        """The amounts for rows, by their values in own conditions and their partners."""
        sizes, spread = np.diff(entries.offsets), spread_of(entries)
        runs = np.clip(partners, 1, max(sizes.shape[0], 1))  # in which there are partners
        accepting, scattered = self.accepting.count(own), self.scattered.count(own)
        hot = np.maximum(accepting - scattered, 0)
        reach = 1 - np.exp(-partners * self.hot.length / spread)
        share = float(np.minimum(self.lengths / spread, 1).mean()) if self.queries else 0.0
        return Work(
            float(np.log2(1 + sizes).sum()), runs, partners, runs * np.log2(1 + partners / runs),
            self.queries, accepting, Slabs(self.slabs[0], self.slabs[1] * share), self.hot,
            scattered, hot * reach,
            partners * accepting * share,
        )  # fmt: skip


def _slabs(queries: Queries, slots: I64) -> tuple[float, float]:
    """Into how many slabs own conditions, and intervals, cut the tree over all conditions."""
    slabs = slabs_of(*boxes_of(queries), slots)
    axis = queries.own_low.shape[0]
    return float(slabs[:axis].prod()), float(slabs[axis])


def _some(values: NDArray[Any]) -> NDArray[Any]:
    """Up to about twice `_LOOK` values, taken evenly from all."""
    return values[:: max(values.shape[0] // _LOOK, 1)]


def _lengths(queries: Queries, slots: I64) -> F64:
    return queries.high[slots].astype(np.float64) - queries.low[slots].astype(np.float64) + 1


def spread_of(entries: Entries) -> float:
    """About how far the values of partners are apart, from some of them."""
    values = _some(entries.values).astype(np.float64)
    return max(float(np.ptp(values)), 1.0) if values.shape[0] else 1.0


def partners_of(order: I64, probes: Probes, entries: Entries) -> F64:
    """How many partners rows have (m′), those beyond the ends of windows included."""
    if probes.keys.shape[0]:
        found = count_keys(probes.keys[order], entries.keys, entries.offsets)
    else:
        found = np.full(order.shape[0], entries.positions.shape[0])
    if probes.skip.shape[0]:
        found[probes.skip[order]] = 0
    return found.astype(np.float64)
