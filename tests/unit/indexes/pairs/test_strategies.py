"""Every strategy against a test of every row, partner and query."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from tests.unit.indexes.pairs.cases import Case, Kind, expected, make_case, make_groups

from penstock.indexes.pairs.strategies import STRATEGIES

KINDS = [
    replace(kind, is_band=is_band, is_float=is_float)
    for kind, is_band, is_float in product(
        [
            Kind(),
            Kind(has_key=True, runs=3),
            Kind(runs=3, ends=True),
            Kind(rest=1, windows=True, runs=2),
            Kind(own=1, has_key=True, runs=2),
            Kind(own=2, rest=1, ends=True),
            Kind(own=1, windows=True, has_key=True, ends=True, runs=2),
        ],
        [True, False],
        [True, False],
    )
]
SEEDS = 4


def answers(name: str, case: Case) -> list[tuple[int, int, int]]:
    strategy = STRATEGIES[name].build(case.queries, make_groups(case.queries))
    triples = strategy.probe(case.probes, case.entries, case.partner, case.queries)
    return list(zip(*(column.tolist() for column in triples), strict=True))


@pytest.fixture(scope="module")
def cases() -> list[tuple[Case, list[tuple[int, int, int]]]]:
    made = [make_case(31 * i + seed, kind) for i, kind in enumerate(KINDS) for seed in range(SEEDS)]
    return [(case, expected(case)) for case in made]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_pair_that_holds_is_found_once_and_in_order(
    name: str, cases: list[tuple[Case, list[tuple[int, int, int]]]]
) -> None:
    for i, (case, answer) in enumerate(cases):
        assert answers(name, case) == answer, KINDS[i // SEEDS]
    assert sum(len(answer) for _, answer in cases) > 50_000
