from __future__ import annotations

from math import log2

import pytest
from plan_builders import NONE, anti, cmp, col, count_by, join, lit, nrr, scan, table, union_all

from penstock.logical.nodes import Distinct, Filter, Node, Range, Rows, Unbounded
from penstock.optimizer.cost import cost
from penstock.optimizer.estimate import Estimator
from penstock.optimizer.stats import Stats, StreamStats, TableStats

W = Range(10_000_000)  # ten seconds
R, S = scan("r", W), scan("s", W)
STATS = Stats(
    {"r": StreamStats(10.0, {"k": 20.0}), "s": StreamStats(4.0, {"k": 10.0})},
    {"t": TableStats(50, {"k": 50}, rate=1.0), "n": TableStats(8, {"k": 8})},
)


def own(node: Node, stats: Stats = STATS) -> float:
    return cost(node, stats).per_node[node]


def size(node: Node) -> float:
    return Estimator(STATS).of(node).size


def test_stateless_operators_cost_their_input_rates() -> None:
    assert own(Filter(R, cmp("eq", col(0), lit(1)))) == 10
    assert own(union_all(R, S)) == 14


def test_a_join_probes_the_rows_of_equal_key_on_the_other_side() -> None:
    assert own(join(R, S)) == 10 * (40 / 10) + 4 * (100 / 20)
    assert own(join(R, S, on=())) == 10 * 40 + 4 * 100


def test_an_nrr_join_is_probed_by_the_stream_only() -> None:
    assert own(join(R, nrr())) == 10 * (8 / 8)
    assert own(join(R, table())) == 10 * (50 / 50) + 1 * (100 / 20)


def test_group_by_pays_for_arrivals_and_expirations() -> None:
    assert own(count_by(R, 0)) == 20
    assert own(count_by(scan("r", Rows(5)), 0)) == 20  # negative rows or not


def test_negation_searches_its_counts_and_pays_for_premature_ends() -> None:
    plan = anti(R, S)
    counts = 2 * 10 * log2(20) + 2 * 4 * log2(10)
    assert own(plan) == pytest.approx(counts + 0.5 * 10)
    rare = Stats(STATS.streams, STATS.tables, premature={plan: 0.0})
    assert own(plan, rare) == pytest.approx(counts)


def test_negative_rows_double_the_cost() -> None:
    counted = scan("r", Rows(100))
    assert own(Filter(counted, cmp("eq", col(0), lit(1)))) == 20
    assert own(Distinct(counted)) == 2 * own(Distinct(R))


def test_sizes_follow_windows_keys_and_selectivities() -> None:
    assert size(R) == 100
    assert size(scan("r", Rows(7))) == 7
    assert size(scan("r", Rows(3, (0,)))) == 60
    assert size(scan("r", Unbounded(explicit=True))) == 36_000
    assert size(Filter(R, cmp("eq", col(0), lit(1)))) == pytest.approx(100 / 20)
    assert size(join(R, S)) == pytest.approx(100 * 40 / 20)
    assert size(count_by(R, 0)) == 20
    assert size(count_by(R)) == 1
    assert size(anti(R, S)) == pytest.approx(50)


def test_measured_selectivities_are_believed() -> None:
    predicate = cmp("lt", col(1), lit(3))
    stats = Stats(STATS.streams, selectivity={predicate: 0.01})
    assert Estimator(stats).of(Filter(R, predicate)).size == pytest.approx(1)


def test_a_shared_subplan_is_paid_once() -> None:
    assert cost(union_all(R, R), STATS).total == 10 + 20


def test_stats_know_what_was_measured() -> None:
    assert STATS.knows(join(join(R, S), table()))
    assert not STATS.knows(join(R, scan("u", W)))
    assert not NONE.knows(R)
