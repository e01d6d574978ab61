"""Measures what strategies cost on this machine, for `penstock calibrate` (§4.1, §5.4).

Queries and partners are made up so that all amounts in the formulas vary: the number of queries,
of clusters, of queries in clusters, of queries that accept a row, and of partners of a row. Rows
with as many partners are measured together. Times are those of the processor, so that other
programs disturb little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import log2
from time import thread_time_ns

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.amounts import Amounts, partners_of
from penstock.indexes.pairs.constants import Constant, Constants, today
from penstock.indexes.pairs.costs import (
    BUILD,
    CALL,
    FORMULAS,
    RESULTS,
    Formula,
    Work,
    formulas_of,
)
from penstock.indexes.pairs.fitting import fit, typical
from penstock.indexes.pairs.groups import PairGroups
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import Strategy, slot_bits
from penstock.kernels.pairs.data import Entries, Partner, Probes, Queries

_NONE: I64 = np.empty(0, np.int64)
_DOMAIN = 1_000_000
_PARTNERS = (
    (1, 64),
    (8, 64),
    (64, 64),
    (512, 32),
    (4_096, 8),
    (16_384, 2),
)  # of a key, and how many keys
_OTHERS = 10_000  # keys with three partners
_REACHES, _WIDTHS = (3e4, 1e3, 8e3, 1.5e5), (200, 20)  # of populations, in turn
_ROWS, _LEAST_ROWS = 64, 4  # of a measurement
_ENOUGH = 2_500_000  # nanoseconds of a measurement
_MANY = 3_000  # queries
_SHORTEST = 20.0  # nanoseconds that a row takes at least

Samples = dict[str, list[tuple[list[float], float]]]
"""By formula: amounts of work of a row, with its results, and the nanoseconds it took."""


@dataclass(frozen=True, slots=True)
class Population:
    """Queries: their number, their clusters, the share in clusters; and runs of partners.

    Own conditions reach so far, and clusters are so wide.
    """

    queries: int
    clusters: int
    clustered: float
    runs: int
    has_own: bool
    reach: float = 3e4
    width: int = 200

    def make(self, rng: np.random.Generator) -> Queries:
        """Make queries: clustered around some points, and short ones anywhere."""
        n, hot = self.queries, int(self.queries * self.clustered)
        middle, half = rng.integers(0, _DOMAIN, n), rng.integers(1, 40, n)
        place = (rng.integers(0, self.clusters, hot) + 0.5) * _DOMAIN / self.clusters
        middle[:hot] = place.astype(np.int64) + rng.integers(-self.width, self.width, hot)
        half[:hot] = rng.integers(self.width, 3 * self.width, hot)
        center = rng.normal(_DOMAIN / 2, _DOMAIN / 6, n)
        reach = np.abs(rng.normal(0, self.reach, n))
        own = [(center + sign * reach).astype(np.int64)[None] for sign in (-1, 1)]
        if not self.has_own:
            own = [bounds[:0] for bounds in own]
        none = np.empty((0, n), np.int64)
        return Queries(
            middle - half, middle + half, own[0], own[1], none, none, _NONE, _NONE, _NONE, _NONE
        )


def calibrate(quick: bool = False, tell: Callable[[float], None] = lambda share: None) -> Constants:
    """Measure and fit; `tell` hears which share is done."""
    rng, samples = np.random.default_rng(1), Samples()
    built: dict[str, list[float]] = defaultdict(list)
    calls: dict[str, list[float]] = defaultdict(list)
    populations = list(_populations(quick))
    entries = {runs: _partners(runs, rng) for runs in (1, 4)}
    for at, population in enumerate(populations):
        tell(at / len(populations))
        bench = Bench(population, entries[population.runs], rng)
        for name, formula in formulas_of(bench.queries).items():
            strategy, price = bench.build(name)
            if population.queries >= _MANY:  # what does not grow with them hardly counts
                built[formula.name].append(price)
            taken, call = bench.samples(strategy, formula)
            samples.setdefault(formula.name, []).extend(taken)
            calls[formula.name].append(call)
    tell(1.0)
    return Constants(
        {name: _fitted(name, samples[name], built[name], calls[name]) for name in samples}, today()
    )


def _populations(quick: bool) -> Iterator[Population]:
    patterns = ((10, 0.0), (5, 0.9), (300, 1.0)) if quick else (
        (10, 0.0), (5, 0.9), (60, 0.95), (300, 1.0)
    )  # fmt: skip
    numbers = (300, 3_000, 30_000) if quick else (
        300, 3_000, 30_000, 100_000, 300_000
    )  # fmt: skip

    for at, (has_own, n, pattern) in enumerate(product((True, False), numbers, patterns)):
        runs, reach, width = 4 if at % 3 == 2 else 1, _REACHES[at % 4], _WIDTHS[at % 5 % 2]
        yield Population(n, *pattern, runs, has_own, reach, width)


def _fitted(
    name: str, samples: list[tuple[list[float], float]], built: list[float], calls: list[float]
) -> dict[str, Constant]:
    amounts = np.array([amounts for amounts, _ in samples])
    found = fit(amounts, np.array([time for _, time in samples]))
    letters = [term.constant for f in FORMULAS if f.name == name for term in f.terms]
    return {**dict(zip(letters, found, strict=True)), BUILD: typical(built), CALL: typical(calls)}


def _partners(runs: int, rng: np.random.Generator) -> Entries:
    """Make partners: of the first keys as many as `_PARTNERS` says, of others three."""
    counts = [n for n, keys in _PARTNERS for _ in range(keys)] + [3] * _OTHERS
    keys = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    values, run = rng.integers(0, _DOMAIN, len(keys)), np.sort(rng.integers(0, runs, len(keys)))
    order = np.lexsort((values, keys, run))
    offsets = np.searchsorted(run, np.arange(runs + 1))
    return Entries(keys[order], values[order], order, offsets)


class Bench:
    """Strategies over one population of queries, and rows that probe them."""

    def __init__(self, population: Population, entries: Entries, rng: np.random.Generator) -> None:
        self._entries, self._rng = entries, rng
        self.queries = queries = population.make(rng)
        self._qids = np.arange(population.queries)
        self._groups = PairGroups(lambda: [(self._qids, queries.low, queries.high)])
        amounts = Amounts.of(queries, self._groups.of(self._qids, queries, False))
        self._rows = [
            (
                probes,
                amounts.work(probes.own, partners_of(np.arange(_ROWS), probes, entries), entries),
            )
            for probes in self._probes(population.has_own)
        ]

    def _probes(self, has_own: bool) -> Iterator[Probes]:
        """Batches of rows with as many partners, and about as many accepting queries."""
        first, rng = 0, self._rng
        for _, keys in _PARTNERS:
            for value in (50_000, 300_000, 500_000) if has_own else (0,):
                own = rng.integers(value - 20_000, value + 20_000, (int(has_own), _ROWS))
                key = np.sort(rng.integers(first, first + keys, _ROWS))
                limits = np.full(_ROWS, len(self._entries.keys))
                yield Probes(key, _NONE, own, _NONE, _NONE, limits, _NONE != 0, 0)
            first += keys

    def build(self, name: str) -> tuple[Strategy, float]:
        """Build a strategy; also its nanoseconds per |Q|·log |Q|."""
        grouping = self._groups.of(self._qids, self.queries, False)
        STRATEGIES[name].build(self.queries, grouping)  # compiled
        start = thread_time_ns()
        made = STRATEGIES[name].build(self.queries, grouping)
        n = len(self._qids)
        return made, (thread_time_ns() - start) / (n * log2(2 + n))

    def samples(
        self, strategy: Strategy, formula: Formula
    ) -> tuple[list[tuple[list[float], float]], float]:
        """Measure batches of rows: amounts and nanoseconds per row, and nanoseconds per call."""
        taken, calls = [], []
        for probes, work in self._rows:
            everything = np.arange(_ROWS)
            self._time(strategy, everything[:1], probes)  # compiled, and in the cache
            call = min(self._time(strategy, everything[:0], probes)[0] for _ in range(3))
            one = self._time(strategy, everything[:1], probes)[0] - call
            n = int(np.clip(_ENOUGH / max(one, 1), _LEAST_ROWS, _ROWS))
            rows = np.sort(self._rng.choice(everything, n, replace=False))
            times = [self._time(strategy, rows, probes) for _ in range(2)]
            time = (min(nanoseconds for nanoseconds, _ in times) - call) / n
            amounts = _amounts(formula, work, rows, times[0][1] / n)
            taken.append((amounts, max(time, _SHORTEST)))
            calls.append(float(call))
        return taken, float(np.median(calls))

    def _time(self, strategy: Strategy, rows: I64, probes: Probes) -> tuple[int, int]:
        """Nanoseconds of a call, and how many results it gives."""
        partner = Partner(np.empty((0, 0), np.int64), _NONE, _NONE, 0)
        start = thread_time_ns()
        found = strategy.find(
            rows, slot_bits(self.queries), probes, self._entries, partner, self.queries
        )
        return thread_time_ns() - start, int(found.starts[-1])


def _amounts(formula: Formula, work: Work, rows: I64, results: float) -> list[float]:
    """Amounts per row; the results are known, and need no estimate."""
    every = {term.constant: np.broadcast_to(term.amount(work), _ROWS) for term in formula.terms}
    means = {letter: float(amount[rows].mean()) for letter, amount in every.items()}
    return [*(means | {RESULTS: results}).values()]
