"""The amounts in the cost formulas are near what rows really meet."""

from __future__ import annotations

import numpy as np

from penstock.indexes.pairs.amounts import Amounts, partners_of
from penstock.kernels.pairs.data import Entries, Grouping, Probes, Queries

DOMAIN, ROWS, PARTNERS, CLUSTERS = 100_000, 40, 4_000, 5
NONE = np.empty(0, np.int64)


def some_queries(n: int, rng: np.random.Generator) -> tuple[Queries, Grouping]:
    """Half of the queries around five points, the others anywhere and short."""
    groups = np.where(np.arange(n) % 2, rng.integers(0, CLUSTERS, n), -1)
    points = (np.arange(CLUSTERS) * 2 + 1) * DOMAIN // (2 * CLUSTERS)
    middle = np.where(groups >= 0, points[groups], rng.integers(0, DOMAIN, n))
    half, reach = np.where(groups >= 0, 40, 4), rng.integers(500, 1_500, n)
    own = rng.integers(0, DOMAIN, n)
    few = np.empty((0, n), np.int64)
    bounds = middle - half, middle + half, (own - reach)[None], (own + reach)[None]
    return Queries(*bounds, few, few, NONE, NONE, NONE, NONE), Grouping(groups, points)


def case(n: int) -> tuple[Queries, Grouping, Entries, Probes]:
    rng = np.random.default_rng(n)
    queries, grouping = some_queries(n, rng)
    keys, values = np.sort(rng.integers(0, 4, PARTNERS)), rng.integers(0, DOMAIN, PARTNERS)
    values = values[np.lexsort((values, keys))]
    entries = Entries(keys, values, np.arange(PARTNERS), np.array([0, PARTNERS]))
    key, own = np.sort(rng.integers(0, 5, ROWS)), rng.integers(0, DOMAIN, (1, ROWS))
    limits = np.full(ROWS, PARTNERS)
    return queries, grouping, entries, Probes(key, NONE, own, NONE, NONE, limits, NONE != 0, 0)


def counted(
    queries: Queries, grouping: Grouping, entries: Entries, probes: Probes
) -> dict[str, np.ndarray]:
    """Partners, accepting queries, affected ones of groups, and results: tested one by one."""
    found = {name: np.zeros(ROWS) for name in ("partners", "accepting", "affected", "results")}
    for row in range(ROWS):
        values = entries.values[entries.keys == probes.keys[row]]
        accepts = (queries.own_low[0] <= probes.own[0, row]) & (
            probes.own[0, row] <= queries.own_high[0]
        )
        within = [
            np.count_nonzero((values >= queries.low[slot]) & (values <= queries.high[slot]))
            for slot in np.flatnonzero(accepts)
        ]
        hot = grouping.groups[accepts] >= 0
        found["partners"][row], found["accepting"][row] = values.shape[0], accepts.sum()
        found["affected"][row] = np.count_nonzero(np.array(within)[hot])
        found["results"][row] = sum(within)
    return found


def test_estimates_are_near_what_is_there() -> None:
    queries, grouping, entries, probes = case(20_000)
    amounts = Amounts.of(queries, grouping)
    partners = partners_of(np.arange(ROWS), probes, entries)
    work, there = amounts.work(probes.own, partners, entries), counted(*case(20_000))
    assert partners.tolist() == there["partners"].tolist()
    for name, off in (("accepting", 0.1), ("affected", 0.4), ("results", 0.4)):
        about, exact = getattr(work, name).sum(), there[name].sum()
        assert abs(about - exact) < off * exact, name
    assert amounts.hot.groups == CLUSTERS
    assert (amounts.hot.length, amounts.hot.scattered) == (81, 10_000)
    assert not work.results[partners == 0].any()


def test_slabs_follow_the_condition_that_tells_queries_apart() -> None:
    """Intervals are shorter beside their domain than own conditions are: they are cut more."""
    queries, grouping, entries, probes = case(20_000)
    own, axis = Amounts.of(queries, grouping).slabs
    assert axis > 4 * own > 4
    assert own * axis > 20_000 / 8 * 0.99
    swapped = queries._replace(
        low=queries.own_low[0], high=queries.own_high[0],
        own_low=queries.low[None], own_high=queries.high[None],
    )  # fmt: skip
    assert Amounts.of(swapped, grouping).slabs[0] > 4 * Amounts.of(swapped, grouping).slabs[1]
    work = Amounts.of(queries, grouping).work(
        probes.own, partners_of(np.arange(ROWS), probes, entries), entries
    )
    assert 0 < work.slabs.overlap < axis


def test_queries_without_an_own_condition_are_cut_by_interval_alone() -> None:
    queries, grouping, *_ = case(2_000)
    few = np.empty((0, 2_000), np.int64)
    band = queries._replace(own_low=few, own_high=few)
    own, axis = Amounts.of(band, grouping).slabs
    assert (own, round(axis)) == (1.0, 250)
    none = Amounts.of(some_queries(0, np.random.default_rng(1))[0], Grouping(NONE, NONE))
    assert (none.queries, none.slabs, none.hot.groups) == (0, (1.0, 1.0), 0)
