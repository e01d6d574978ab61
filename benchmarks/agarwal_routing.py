"""What figures 12 to 20 of Agarwal et al. share: select joins whose rows are routed (§5.4).

Each row of R is worth another strategy: it may join one row of S or thousands, and be selected by
few queries or many; a part of the queries is in hotspots. SJ-Dynamic is the engine's router, whose
choice is part of its time; the others take every row. SJ-Optimum takes for each row the strategy
that was fastest, measured row by row; these times are scaled to add up to that of all rows. Unlike
in the other figures, partners are listed: a router has to know what that costs as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.agarwal_workloads import (
    A_DOMAIN,
    C_DOMAIN,
    SJ,
    Case,
    asking,
    built,
    hot,
    normal_words,
    probing,
    ranges,
)
from benchmarks.chart import Chart, chart
from benchmarks.pipeline import Cost, Result, at_least, at_most, plain
from penstock.arrays import I64
from penstock.indexes.pairs.router import Policy, Router, Tally
from penstock.indexes.pairs.strategy import Strategy, probing_order, slot_bits
from penstock.kernels.pairs.data import Entries, Partner

STRATEGIES = ("data_outer", "select_first", "vanilla", "hotspot")
ALPHA, CLUSTERS, CLUSTERED = 0.001, 50, 0.9
ROWS = 500  # of R
OPTIMUM = 1.3  # times its time, at most
_NOT_LOGGED = Partner(np.empty((0, 0), np.int64), *np.empty((2, 0), np.int64), 0)


@dataclass(frozen=True, slots=True)
class Routed:
    """Seconds per row of each strategy and of SJ-Dynamic, shares of its choices, how many best."""

    costs: dict[str, Cost]
    shares: dict[str, float]
    best: float  # of the choices, the share that was the fastest strategy
    optimum_shares: dict[str, float]


def mixed_joins(
    queries: int, s_rows: int, *, joined: float = 1_000, selected: float = 0.05, rows: int = ROWS,
    seed: int = 0,
) -> Case:  # fmt: skip
    """Select joins; rows of R join so many of S and are selected by this share, on average.

    Midpoints of ranges of A are normal, so rows with A near the ends are selected by few; keys of
    S are normal, so rows with B near the ends join few. Of ranges of C most are in clusters.
    """
    rng = np.random.default_rng(seed)
    keys = max(int(s_rows / joined), 1)
    own = ranges(rng, rng.normal(A_DOMAIN / 2, A_DOMAIN / 8, queries), selected * A_DOMAIN)
    clustered = int(queries * CLUSTERED)
    middles = rng.uniform(0, C_DOMAIN, queries)
    centers = (rng.integers(0, CLUSTERS, clustered) + 0.5) * C_DOMAIN / CLUSTERS
    middles[:clustered] = centers + rng.normal(0, 10, clustered)
    low, high = ranges(rng, middles, 100, 10)
    b, c = normal_words(rng, keys, s_rows), rng.integers(0, C_DOMAIN, s_rows)
    order = np.lexsort((c, b))
    entries = Entries(b[order], c[order], order, np.array([0, s_rows]))
    key, a = rng.integers(0, keys, rows), rng.integers(0, A_DOMAIN, (1, rows))
    return Case(asking(low, high, own), entries, probing(s_rows, keys=key, own=a))


def route(case: Case) -> Routed:
    """Measure every strategy, the router and, row by row, what would have been best."""
    strategies = built(STRATEGIES, case, ALPHA)
    grouping = hot(case.queries, ALPHA)
    router = _warm(Router(case.queries, lambda scattered: grouping, Policy(), Tally()), case)
    order = probing_order(case.probes)
    costs = {name: Cost() for name in (*STRATEGIES, "dynamic")}
    chosen: I64 = np.full(case.rows, -1)
    each = np.full((len(STRATEGIES), case.rows), np.inf)
    for _ in range(2):
        for name, strategy in strategies.items():
            costs[name].least(_timed(partial(_find, strategy, case, order), case.rows))
        costs["dynamic"].least(_timed(partial(_dynamic, router, strategies, case), case.rows))
        for at, name in enumerate(STRATEGIES):
            np.minimum(each[at], _row_by_row(strategies[name], case), out=each[at])
    for at, name in enumerate(STRATEGIES):  # rows that come alone cost more than in a batch
        each[at] *= costs[name].cpu * case.rows / each[at].sum()
    for name, rows in router.pieces(order, case.probes, case.entries):
        chosen[rows] = STRATEGIES.index(name)
    fastest = np.argmin(each, axis=0)
    took = chosen >= 0  # the others have no partners
    least = float(each[fastest, np.arange(case.rows)][took].sum()) / case.rows
    costs["optimum"] = Cost(least, least)
    return Routed(
        costs, _shares(chosen[took]), float(np.mean(chosen[took] == fastest[took])),
        _shares(fastest[took]),
    )  # fmt: skip


def _warm(router: Router, case: Case) -> Router:
    """The router when it has built all structures that pay: that takes some rows."""
    order = probing_order(case.probes)
    for _ in range(200):
        router.pieces(order, case.probes, case.entries)
    return router


def _dynamic(router: Router, strategies: dict[str, Strategy], case: Case) -> None:
    """Choose, and find the affected queries of each piece."""
    order = probing_order(case.probes)
    for name, rows in router.pieces(order, case.probes, case.entries):
        _find(strategies[name], case, rows)


def _find(strategy: Strategy, case: Case, rows: I64) -> None:
    """List the partners of some rows."""
    bits = slot_bits(case.queries)
    strategy.find(rows, bits, case.probes, case.entries, _NOT_LOGGED, case.queries)


def _row_by_row(strategy: Strategy, case: Case) -> np.ndarray:
    """Seconds of each row, without those of a call."""
    every = np.arange(case.rows)
    call = min(_timed(partial(_find, strategy, case, every[:0]), 1).cpu for _ in range(5))
    seconds = np.empty(case.rows)
    for row in range(case.rows):
        one = _timed(partial(_find, strategy, case, every[row : row + 1]), 1)
        seconds[row] = max(one.cpu - call, 1e-7)
    return seconds


def _timed(work: partial[None], rows: int) -> Cost:
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return Cost((time.thread_time() - cpu) / rows, (time.perf_counter() - wall) / rows)


def _shares(chosen: I64) -> dict[str, float]:
    counts = np.bincount(chosen, minlength=len(STRATEGIES)) / max(chosen.shape[0], 1)
    return dict(zip(STRATEGIES, counts.tolist(), strict=True))


def report(
    places: list[float], found: list[Routed], titles: tuple[str, str, str], title: str, x: str
) -> Result:
    """Targets at every place, and three figures: throughput, choices, and how many were best."""
    names = {**SJ, "dynamic": "SJ-Dynamic", "optimum": "SJ-Optimum"}
    out: Result = {}
    for place, routed in zip(places, found, strict=True):
        costs, ours = routed.costs, routed.costs["dynamic"]
        best = min(STRATEGIES, key=lambda name, costs=costs: costs[name].cpu)
        out[f"{x} {place:g}: SJ-Dynamic"] = plain(1 / ours.cpu, 1 / ours.wall, "rows/s")
        out[f"{x} {place:g}: over {SJ[best]}, the best alone"] = at_least(
            costs[best].cpu / ours.cpu, costs[best].wall / ours.wall, 1.0, "×"
        )
        out[f"{x} {place:g}: SJ-Dynamic : SJ-Optimum"] = at_most(
            ours.cpu / costs["optimum"].cpu, None, OPTIMUM
        )
    rates = {name: [1 / r.costs[n].cpu for r in found] for n, name in names.items() if n != "ssi"}
    shares = {SJ[n]: [100 * r.shares[n] for r in found] for n in STRATEGIES}
    shares_of_best = {"the fastest strategy": [100 * r.best for r in found]}
    charts: list[Chart] = [
        chart(title, x, "rows/s", places, rates, log=True),
        chart(f"{title}: choices", x, "% of rows", places, shares),
        chart(f"{title}: best choices", x, "% of rows", places, shares_of_best),
    ]
    return out | dict(zip(titles, charts, strict=True))
