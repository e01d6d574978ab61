"""What the experiments of Agarwal et al. (2009, §5) have in common: Table I, and how they measure.

The table S is static, and rows of R probe it. As in the paper, what is measured is which queries a
row affects (step 1); their results are neither listed nor counted. Every strategy must find as
many affected queries as every other. μ and σ, which the paper leaves open, are chosen so that a
workload has the number of stabbing groups and the rates that the paper's text says.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.agarwal_steps import affected, affected_exactly
from benchmarks.chart import Chart, chart
from benchmarks.pipeline import Cost
from penstock.arrays import I64
from penstock.indexes.pairs.hotspots import Hotspots
from penstock.indexes.pairs.stabbing_partition import StabbingPartition
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import Strategy
from penstock.kernels.pairs.data import Entries, Grouping, Probes, Queries

S_ROWS = 100_000
QUERIES = 100_000
B_DOMAIN = 10_000  # of R.B, S.B and the midpoints of ranges of B
A_DOMAIN = C_DOMAIN = 1_000_000
R_ROWS = 2_000
SJ = {"vanilla": "SJ-Vanilla", "data_outer": "SJ-JoinFirst", "select_first": "SJ-SelectFirst",
      "ssi": "SJ-SSI", "hotspot": "SJ-Hotspot"}  # fmt: skip
BJ = {"vanilla": "BJ-QOuter", "data_outer": "BJ-DOuter", "merge": "BJ-MJ", "ssi": "BJ-SSI",
      "hotspot": "BJ-Hotspot"}  # fmt: skip
"""The paper's names of the strategies."""
_NONE: I64 = np.empty(0, np.int64)
_SAMPLE = 1_000  # rows of S
_BUDGET = 0.2  # seconds of a strategy's turn, about; a turn is at least `_FEWEST` rows
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class Case:
    """Queries, the table S, and rows of R."""

    queries: Queries
    entries: Entries
    probes: Probes

    @property
    def rows(self) -> int:
        """How many rows of R there are."""
        return int(self.probes.limits.shape[0])

    @property
    def data(self) -> tuple[Probes, Entries, Queries]:
        """What a strategy is probed with."""
        return self.probes, self.entries, self.queries

    def some(self, rows: int) -> Case:
        """The same with fewer rows, taken evenly from all in order of B."""
        probes = self.probes
        order = np.argsort(probes.keys if probes.keys.shape[0] else probes.shifts, kind="stable")
        return self.rows_at(order[(np.arange(rows) * 2 + 1) * self.rows // (2 * rows)])

    def rows_at(self, chosen: I64) -> Case:
        """The same with some of the rows."""
        few = {
            name: np.ascontiguousarray(getattr(self.probes, name)[..., chosen])
            for name in ("keys", "shifts", "own", "limits")
            if getattr(self.probes, name).size
        }
        return Case(self.queries, self.entries, self.probes._replace(**few))

    def thinned(self) -> Case:
        """The same with a sample of S, if there is no key that says which rows join."""
        keys, values, positions, _ = self.entries
        if keys.shape[0] or values.shape[0] <= _SAMPLE:
            return self
        some = (np.arange(_SAMPLE) * 2 + 1) * values.shape[0] // (2 * _SAMPLE)
        entries = Entries(keys, values[some], positions[some], np.array([0, _SAMPLE]))
        return Case(self.queries, entries, self.probes)


# ---- Table I -------------------------------------------------------------------------
def select_joins(
    queries: int, *, groups: int = 30, selected: float = 0.1, joined: int = 1_000,
    s_rows: int = S_ROWS, rows: int = R_ROWS, seed: int = 0,
) -> Case:  # fmt: skip
    """Select joins with about so many stabbing groups of ranges of C.

    A row of R is selected by this share of the queries, and joins so many rows of S, on average.
    """
    rng = np.random.default_rng(seed)
    own = ranges(rng, rng.normal(A_DOMAIN / 2, A_DOMAIN / 5, queries), selected * A_DOMAIN)
    low, high = ranges(rng, rng.uniform(0, C_DOMAIN, queries), C_DOMAIN / groups)
    asked = asking(low, high, own)
    return select_case(asked, rng, joined, s_rows, rows)


def select_case(
    asked: Queries, rng: np.random.Generator, joined: int, s_rows: int, rows: int
) -> Case:
    """These select joins over a table of so many rows, of which a row of R joins so many."""
    keys = max(s_rows // joined, 1)  # the domain of B is as small as the rate asks
    b = normal_words(rng, keys, s_rows)
    c = rng.integers(0, C_DOMAIN, s_rows)
    order = np.lexsort((c, b))
    entries = Entries(b[order], c[order], order, np.array([0, s_rows]))
    own = rng.integers(0, A_DOMAIN, (1, rows))
    return Case(asked, entries, probing(s_rows, keys=rng.integers(0, keys, rows), own=own))


def band_joins(
    queries: int, *, mean: float = 800, deviation: float = 170, s_rows: int = S_ROWS,
    rows: int = R_ROWS, seed: int = 0,
) -> Case:  # fmt: skip
    """Band joins with ranges of these lengths: about 10 groups of 50, 60 groups of 500,000."""
    rng = np.random.default_rng(seed)
    low, high = ranges(rng, rng.uniform(0, B_DOMAIN, queries), mean, deviation)
    b = np.sort(normal_words(rng, B_DOMAIN, s_rows))
    entries = Entries(_NONE, b, rng.permutation(s_rows), np.array([0, s_rows]))
    shifts = rng.integers(0, B_DOMAIN, rows)
    return Case(asking(low, high), entries, probing(s_rows, shifts=shifts))


def ranges(
    rng: np.random.Generator, middles: np.ndarray, mean: float, deviation: float | None = None
) -> I64:
    """Lows and highs around midpoints; lengths are normal, by default within a few percent."""
    lengths = rng.normal(mean, mean / 20 if deviation is None else deviation, middles.shape[0])
    half = np.maximum(lengths, 0) / 2
    return np.stack([np.ceil(middles - half), np.floor(middles + half)]).astype(np.int64)


def normal_words(rng: np.random.Generator, domain: int, rows: int) -> I64:
    """Integers of the domain, discretised from Normal(5000, 1000) in one of 10,000."""
    words = rng.normal(domain / 2, domain / 10, rows).astype(np.int64)
    return np.clip(words, 0, domain - 1)


def asking(low: I64, high: I64, own: I64 | None = None) -> Queries:
    """Queries with intervals of the axis, and maybe of the probing row."""
    high = np.maximum(low, high)
    none = np.empty((0, low.shape[0]), np.int64)
    lows, highs = (none, none) if own is None else (own[:1].copy(), own[1:].copy())
    return Queries(low, high, lows, highs, none, none, _NONE, _NONE, _NONE, _NONE)


def probing(
    partners: int, keys: I64 = _NONE, shifts: I64 = _NONE, own: I64 | None = None
) -> Probes:
    """Rows of R that see all of S."""
    rows = max(keys.shape[0], shifts.shape[0])
    if own is None:
        own = np.empty((0, rows), np.int64)
    return Probes(
        keys, shifts, own, _NONE, _NONE, np.full(rows, partners), np.zeros(0, np.bool_), 0
    )


# ---- groups --------------------------------------------------------------------------
def stabbed(queries: Queries) -> Grouping:
    """The smallest stabbing partition of the queries."""
    partition = StabbingPartition()
    ids = np.arange(queries.low.shape[0])
    partition.add(ids, queries.low, queries.high)
    return Grouping(partition.group_of(ids), partition.outline().points)


def hot(queries: Queries, alpha: float) -> Grouping:
    """The hotspots of the queries; scattered queries have no group."""
    hotspots = Hotspots(alpha)
    ids = np.arange(queries.low.shape[0])
    hotspots.add(ids, queries.low, queries.high)
    return Grouping(hotspots.group_of(ids), hotspots.outline().points)


def built(names: tuple[str, ...], case: Case, alpha: float = 0.001) -> dict[str, Strategy]:
    """Strategies over the queries of a case."""
    made = {}
    for name in names:
        grouping = hot(case.queries, alpha) if name == "hotspot" else stabbed(case.queries)
        made[name] = STRATEGIES[name].build(case.queries, grouping)
    return made


# ---- measuring -----------------------------------------------------------------------
def rates(strategies: Mapping[str, Strategy], case: Case, times: int = 3) -> dict[str, Cost]:
    """Seconds per row of each strategy, which take turns; slow ones take fewer rows.

    Without a key, data_outer looks up every row of S: it has a sample of S, and its time is
    multiplied.
    """
    cases, best, whole = {}, {}, case.entries.values.shape[0]
    for name, strategy in strategies.items():
        cases[name] = case.thinned() if name == "data_outer" else case
        affected(strategy, *cases[name].some(1).data)  # compiles
        one = _timed(strategy, cases[name].some(min(_FEWEST, case.rows)))
        rows = min(max(int(_BUDGET / max(one.cpu, 1e-7)), _FEWEST), case.rows)
        cases[name], best[name] = cases[name].some(rows), Cost()
    for _ in range(times):
        for name, strategy in strategies.items():
            cost, share = _timed(strategy, cases[name]), whole / len(cases[name].entries.values)
            best[name].least(Cost(cost.cpu * share, cost.wall * share))
    return best


def check(strategies: Mapping[str, Strategy], case: Case) -> float:
    """Queries that some rows affect, per row; an error if two strategies do not agree."""
    few = case.thinned().some(min(_FEWEST, case.rows))
    found = {name: affected_exactly(s, *few.data) for name, s in strategies.items()}
    if len(set(found.values())) > 1:
        raise AssertionError(f"affected queries: {found}")
    return next(iter(found.values())) / few.rows


def _timed(strategy: Strategy, case: Case) -> Cost:
    """Seconds per row."""
    wall, cpu = time.perf_counter(), time.process_time()
    affected(strategy, *case.data)
    rows = case.rows
    return Cost((time.process_time() - cpu) / rows, (time.perf_counter() - wall) / rows)


@dataclass(slots=True)
class Lines:
    """Throughput of each strategy at each place of an axis."""

    at: list[float] = field(default_factory=list)
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def add(self, at: float, costs: Mapping[str, Cost]) -> None:
        """What strategies need at the next place."""
        self.at.append(at)
        for name, cost in costs.items():
            self.costs.setdefault(name, []).append(cost)

    def rate(self, name: str, at: int = -1) -> tuple[float, float]:
        """Rows a second of CPU time and of wall time."""
        cost = self.costs[name][at]
        return 1 / cost.cpu, 1 / cost.wall

    def times(self, name: str, other: str, at: int = -1) -> tuple[float, float]:
        """How many times as fast one is as another."""
        ours, theirs = self.costs[name][at], self.costs[other][at]
        return theirs.cpu / ours.cpu, theirs.wall / ours.wall

    def kept(self, name: str, last: int = -1, first: int = 0) -> tuple[float, float]:
        """What is left of the throughput at the first place, in percent."""
        begin, end = self.costs[name][first], self.costs[name][last]
        return 100 * begin.cpu / end.cpu, 100 * begin.wall / end.wall

    def chart(self, title: str, x: str, names: Mapping[str, str]) -> Chart:
        """Rows/s, by the names of the paper."""
        lines = {names[name]: [1 / cost.cpu for cost in costs]
                 for name, costs in self.costs.items()}  # fmt: skip
        return chart(title, x, "rows/s", self.at, lines, log=True)
