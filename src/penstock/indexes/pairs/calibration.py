"""Measures what strategies cost on this machine, for `penstock calibrate` (§4.1, §5.4).

Queries and partners are made up so that all amounts in the formulas vary: the number of queries,
of clusters, of queries in clusters, of queries that accept a row, and of partners of a row. Rows
with as many partners are measured together. Times are those of the processor, so that other
programs disturb little. The cost of a call, and of what is found, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.kernels.pairs.data import Entries, Probes, Queries

_NONE: I64 = np.empty(0, np.int64)
_NO_ROWS: I64 = np.empty((0, 0), np.int64)
_DOMAIN = 1_000_000
_PARTNERS = (1, 8, 64, 512, 4_096)  # of a row
_KEYS = (64, 64, 64, 32, 8)  # how many keys have as many
_LEAST = 20_000.0  # nanoseconds that are measured with little error
_ENOUGH = 1_000_000.0  # nanoseconds


@dataclass(frozen=True, slots=True)
class Population:
    """Queries: their number, the clusters, and the share of the queries in clusters."""

    queries: int
    clusters: int
    clustered: float
    has_own: bool

    def make(self, rng: np.random.Generator) -> Queries:
        """Make queries: clustered around some points, and short ones anywhere."""
        n, hot = self.queries, int(self.queries * self.clustered)
        middle, half = rng.integers(0, _DOMAIN, n), rng.integers(1, 40, n)
        place = (rng.integers(0, self.clusters, hot) + 0.5) * _DOMAIN / self.clusters
        middle[:hot] = place.astype(np.int64) + rng.integers(-200, 200, hot)
        half[:hot] = rng.integers(200, 600, hot)
        center, reach = rng.normal(_DOMAIN / 2, _DOMAIN / 6, n), np.abs(rng.normal(0, 3e4, n))
        own = [(center + sign * reach).astype(np.int64)[None] for sign in (-1, 1)]
        if not self.has_own:
            own = [bounds[:0] for bounds in own]
        none = np.empty((0, n), np.int64)
        return Queries(
            middle - half, middle + half, own[0], own[1], none, none, _NONE, _NONE, _NONE, _NONE
        )


def made_partners(others: int, runs: int, rng: np.random.Generator) -> Entries:
    """Make partners of the keys 0, 1, …: as many per key as in `_PARTNERS`, and of `others` few."""
    counts = [n for n, keys in zip(_PARTNERS, _KEYS, strict=True) for _ in range(keys)]
    keys = rng.permutation(np.repeat(np.arange(len(counts) + others), [*counts, *[3] * others]))
    values, run = rng.integers(0, _DOMAIN, len(keys)), np.sort(rng.integers(0, runs, len(keys)))
    order = np.lexsort((values, keys, run))
    offsets = np.searchsorted(run, np.arange(runs + 1))
    return Entries(keys[order], values[order], order, offsets)


def made_rows(entries: Entries, population: Population, rng: np.random.Generator) -> list[Probes]:
    """Make rows, in batches with as many partners, and with as many accepting queries."""
    made, first = [], 0
    for keys in _KEYS:
        for value in (50_000, 300_000, 500_000) if population.has_own else (0,):
            n = 64
            own = rng.integers(value - 20_000, value + 20_000, (int(population.has_own), n))
            key = rng.integers(first, first + keys, n)
            limits = np.full(n, len(entries.keys))
            made.append(Probes(np.sort(key), _NONE, own, _NONE, _NONE, limits, _NONE != 0, 0))
        first += keys
    return made
