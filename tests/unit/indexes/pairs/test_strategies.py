"""Every strategy against a test of every row, partner and query."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.unit.indexes.pairs.cases import Case, Kind, expected, make_case, make_groups

from penstock.indexes.pairs.ssi import Ssi
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import Strategy
from penstock.kernels.pairs.data import LEAST, Entries, Partner, Triples
from penstock.kernels.pairs.ssi import Lists, Prefixes
from penstock.kernels.pairs.ssi_own import AffectedSlots

KINDS = [
    replace(kind, is_band=is_band, is_float=is_float)
    for kind, is_band, is_float in product(
        [
            Kind(),
            Kind(has_key=True, runs=3),
            Kind(runs=3, ends=True),
            Kind(runs=2, ends=True, undefined=LEAST),
            Kind(rest=1, windows=True, runs=2),
            Kind(own=1, has_key=True, runs=2),
            Kind(own=2, rest=1, ends=True),
            Kind(own=1, windows=True, has_key=True, ends=True, runs=2),
            Kind(own=1, queries=90, rows=4),
            Kind(is_band=False, has_key=True, rest=2, rest_band=True, ends=True),
            Kind(is_band=False, own=1, rest=1, rest_band=True, is_float=True, ends=True, runs=2),
        ],
        [True, False],
        [True, False],
    )
]
SEEDS = 3
Answer = list[tuple[int, int, int]]
Cases = list[tuple[Kind, Case, Answer]]


def listed(triples: Triples) -> Answer:
    return list(zip(*(column.tolist() for column in triples), strict=True))


def answer_of(strategy: Strategy, case: Case) -> Answer:
    return listed(strategy.probe(case.probes, case.entries, case.partner, case.queries))


def answer_by(name: str, case: Case) -> Answer:
    return answer_of(STRATEGIES[name].build(case.queries, make_groups(case.queries)), case)


@pytest.fixture(scope="module")
def cases() -> Cases:
    made = [(k, make_case(31 * i + seed, k)) for i, k in enumerate(KINDS) for seed in range(SEEDS)]
    return [(kind, case, expected(case)) for kind, case in made]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_pair_that_holds_is_found_once_and_in_order(name: str, cases: Cases) -> None:
    for kind, case, answer in cases:
        assert answer_by(name, case) == answer, kind
    assert sum(len(answer) for _, _, answer in cases) > 50_000


def test_scattered_queries_are_found_beside_hotspots(cases: Cases) -> None:
    scattered = 0
    for kind, case, answer in cases:
        grouping = make_groups(case.queries, least=8)
        scattered += int(((grouping.groups < 0) & (case.queries.low <= case.queries.high)).sum())
        assert answer_of(STRATEGIES["hotspot"].build(case.queries, grouping), case) == answer, kind
        without = [triple for triple in answer if grouping.groups[triple[2]] >= 0]
        assert answer_of(Ssi.build(case.queries, grouping), case) == without, kind
    assert scattered > 500


def affected_by(ssi: Ssi, case: Case) -> set[tuple[int, int]]:
    """Rows and slots of affected queries, each of which must be given once."""
    affected = ssi.affected(case.probes, case.entries)
    if isinstance(affected, AffectedSlots):
        pairs = list(zip(affected.rows.tolist(), affected.slots.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        return set(pairs)
    assert isinstance(affected, Prefixes)
    assert isinstance(ssi.members, Lists)
    found = set()
    for row, group, *lengths in zip(*(column.tolist() for column in affected), strict=True):
        for side, length in enumerate(lengths):
            first = ssi.members.starts[group]
            slots = ssi.members.slots[side, first : first + length]
            found |= {(row, slot) for slot in slots.tolist()}
    return found


def test_affected_queries_are_those_with_a_result(cases: Cases) -> None:
    for kind, case, answer in cases:
        if kind.rest == 0 and not kind.windows:
            ssi = Ssi.build(case.queries, make_groups(case.queries))
            assert affected_by(ssi, case) == {(row, slot) for row, _, slot in answer}, kind


def test_codes_stand_for_the_queries_that_take_a_pair(cases: Cases) -> None:
    pairs = 0
    for kind, case, answer in cases:
        if kind.own or kind.rest or kind.windows:
            continue
        ssi = Ssi.build(case.queries, make_groups(case.queries))
        coded = ssi.probe_coded(case.probes, case.entries)
        assert isinstance(ssi.members, Lists)
        found = []
        for i, (row, position) in enumerate(zip(coded.rows, coded.positions, strict=True)):
            assert coded.starts[i] < coded.starts[i + 1], "a pair without a query"
            for c in range(coded.starts[i], coded.starts[i + 1]):
                first = ssi.members.starts[coded.groups[c]]
                slots = ssi.members.slots[coded.sides[c], first : first + coded.lengths[c]]
                found += [(int(row), int(position), slot) for slot in slots.tolist()]
        assert sorted(found) == answer, kind
        order = list(zip(coded.rows.tolist(), coded.positions.tolist(), strict=True))
        assert order == sorted(set(order))
        pairs += len(order)
    assert pairs > 1000


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("lacking", ["rows", "partners", "queries"])
def test_nothing_is_found_where_nothing_is(name: str, own: int, lacking: str) -> None:
    case = make_case(1, replace(Kind(own=own, has_key=True), **{lacking: 0}))
    assert answer_by(name, case) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_entries_that_no_row_sees_are_passed_over(name: str) -> None:
    """All partners around the points have expired, and one query reaches beyond them."""
    case = make_case(2, Kind(is_band=False, runs=2, partners=60, queries=40))
    dead = np.abs(case.entries.values) < 6
    floor = case.partner.base + 60
    positions = np.where(dead, case.entries.positions - 60, case.entries.positions) + 60
    entries = case.entries._replace(positions=positions)
    probes = case.probes._replace(floor=floor, limits=np.full(8, floor + 60))
    case = replace(case, entries=entries, probes=probes)
    answer = expected(case)
    assert answer
    assert answer_by(name, case) == answer


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_structure_says_its_size(name: str, own: int) -> None:
    small, large = (make_case(3, Kind(own=own, queries=q)).queries for q in (20, 400))
    sizes = [STRATEGIES[name].build(q, make_groups(q)).nbytes for q in (small, large)]
    assert 20 * 8 <= sizes[0] + 80 < sizes[1] < 400 * 8 * 20


def test_many_results_of_a_row_are_in_order() -> None:
    """So many that they are sorted digit by digit."""
    kind = Kind(is_band=False, partners=150, queries=60, rows=3, ends=True)
    case = make_case(5, kind)
    answer = expected(case)
    assert len(answer) > 6000
    for name, strategy in STRATEGIES.items():
        assert answer_of(strategy.build(case.queries, make_groups(case.queries)), case) == answer, (
            name
        )


def test_no_partner_needs_a_log() -> None:
    """Pure templates read nothing of the partner's log."""
    case = make_case(6, Kind())
    empty = np.empty(0, np.int64)
    partner = Partner(np.empty((0, 1), np.int64), empty, empty, 0)
    probes = case.probes._replace(instants=empty, epochs=empty, skip=np.empty(0, np.bool_))
    bare = Case(probes, Entries(*case.entries), partner, case.queries)
    answer = expected(replace(case, probes=case.probes._replace(skip=np.zeros(8, np.bool_))))
    for name in STRATEGIES:
        assert answer_by(name, bare) == answer, name
