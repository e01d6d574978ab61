"""Measures what each strategy costs on this machine, for `penstock calibrate` (§4, §5.4).

Queries and partners are made up, so that all amounts of the formulas vary: the number of queries,
how many of them are in clusters, and in how many; how many accept a row, and how many partners it
has. Rows with the same number of partners are measured together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import thread_time_ns

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.costs import Formula, Work, formulas_of
from penstock.indexes.pairs.estimates import F64
from penstock.indexes.pairs.groups import PairGroups
from penstock.indexes.pairs.router import Policy, Router, Tally
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import probing_order, slot_bits
from penstock.kernels.pairs.data import Entries, Grouping, Partner, Probes, Queries
from penstock.predicates.terms import LEAST, MOST

_NONE: I64 = np.empty(0, np.int64)
_DOMAIN = 1_000_000


@dataclass(frozen=True, slots=True)
class Setup:
    """What the queries look like: how many, in how many clusters, and the share in them."""

    queries: int
    clusters: int
    clustered: float
    has_own: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that were measured together: the amounts of a formula, what was found, the time."""

    amounts: tuple[float, ...]
    found: float
    nanoseconds: float


def made_queries(setup: Setup, rng: np.random.Generator) -> Queries:
    """Queries in clusters, and others all over the domain, short."""
    n = setup.queries
    hot = int(n * setup.clustered)
    middle = rng.integers(0, _DOMAIN, n)
    half = rng.integers(1, 40, n)
    place = (rng.integers(0, setup.clusters, hot) + 0.5) * _DOMAIN / setup.clusters
    middle[:hot] = place + rng.integers(-20, 20, hot)
    half[:hot] = rng.integers(20, 60, hot)
    own = np.empty((0, n), np.int64), np.empty((0, n), np.int64)
    if setup.has_own:
        center, reach = rng.normal(_DOMAIN / 2, _DOMAIN / 6, n), np.abs(rng.normal(0, 30_000, n))
        own = (center - reach).astype(np.int64)[None], (center + reach).astype(np.int64)[None]
    none = np.empty((0, n), np.int64)
    return Queries(middle - half, middle + half, *own, none, none, *(_NONE,) * 4)


def made_partners(counts: list[int], runs: int, rng: np.random.Generator) -> Entries:
    """Partners of keys 0, 1, …, as many as `counts` says."""
    keys = np.repeat(np.arange(len(counts)), counts)
    values = rng.integers(0, _DOMAIN, keys.shape[0])
    run = np.sort(rng.integers(0, runs, keys.shape[0]))
    rng.shuffle(keys)
    order = np.lexsort((values, keys, run))
    offsets = np.searchsorted(run, np.arange(runs + 1))
    return Entries(keys[order], values[order], order, offsets)


def made_rows(key: int, own: I64, n: int, entries: Entries) -> Probes:
    """Rows with one key, and these values in the column that queries restrict."""
    return Probes(
        np.full(n, key), _NONE, own, _NONE, _NONE, np.full(n, entries.keys.shape[0]),
        np.empty(0, np.bool_), 0,
    )  # fmt: skip
