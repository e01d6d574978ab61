"""The router takes the cheapest strategy for each row; what it costs is measured and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.indexes.pairs import constants as stored
from penstock.indexes.pairs import router as routers
from penstock.indexes.pairs.calibration import calibrate
from penstock.indexes.pairs.constants import Constant, Constants
from penstock.indexes.pairs.costs import BUILD, CALL, FORMULAS, formulas_of
from penstock.indexes.pairs.estimates import Accepting, count_around
from penstock.indexes.pairs.fitting import fit, typical
from penstock.indexes.pairs.groups import PairGroups
from penstock.indexes.pairs.router import PAIR_STRATEGIES, Policy, Router, Tally, choose
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.kernels.pairs.data import Grouping, Queries
from penstock.kernels.pairs.takers import merge_takers
from unit.indexes.pairs.cases import Case, Kind, expected, make_case, make_groups

KIND = Kind(is_band=False, has_key=True, own=1, rows=40, partners=60, queries=90, runs=2)
KINDS = (KIND, replace(KIND, is_band=True), replace(KIND, own=0, is_band=True, has_key=False))


def constants(**values: float) -> Constants:
    """Constants of 1, but of some strategies, by name, others; nothing to build or to call."""
    every = {}
    for formula in FORMULAS:
        value = values.get(formula.name.split("-")[1].lower(), 1.0)
        letters = dict.fromkeys([term.constant for term in formula.terms], value)
        every[formula.name] = {letter: Constant(v, v, v) for letter, v in letters.items()}
        every[formula.name] |= dict.fromkeys((BUILD, CALL), Constant(0.0, 0.0, 0.0))
    return Constants(every, "made up")


def router_of(case: Case, policy: Policy) -> Router:
    grouping = make_groups(case.queries, least=3)
    return Router(case.queries, lambda every: make_groups(case.queries, 1 if every else 3), policy,
                  Tally()) if grouping.points.shape[0] else pytest.skip("no groups")  # fmt: skip


def triples(router: Router, case: Case) -> list[tuple[int, int, int]]:
    found = router.probe(case.probes, case.entries, case.partner)
    return [tuple(triple) for triple in np.vstack(found).T.tolist()]


# ---- routing -------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", PAIR_STRATEGIES)
def test_every_setting_gives_the_same_pairs(kind: Kind, strategy: routers.PairStrategy) -> None:
    for seed in range(3):
        case = make_case(seed, kind)
        assert triples(router_of(case, Policy(strategy)), case) == expected(case)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_pieces_is_in_order(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row to a strategy by lot: all are in use, and the results are in order."""
    monkeypatch.setattr(routers, "FEW", 0)
    lots = np.random.default_rng(5)
    monkeypatch.setattr(
        routers, "choose", lambda costs, calls: lots.integers(0, len(calls), costs.shape[1])
    )
    for seed in range(6):
        case = make_case(seed, kind)
        tally = Tally()
        made = Router(
            case.queries, lambda every, c=case: make_groups(c.queries, 3),  # type: ignore[misc]
            Policy("auto", constants()), tally,
        )  # fmt: skip
        order = np.arange(case.probes.limits.shape[0])
        _, work = made.work(order, case.probes, case.entries)
        for name in made.costs(work, work.partners.shape[0]):
            made._strategy(name)
        assert triples(made, case) == expected(case)
        assert len(tally) > 2


def test_each_row_takes_the_cheapest_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers, "FEW", 0)
    case = make_case(3, KIND)
    made = router_of(case, Policy("auto", constants()))
    order, work = made.work(np.arange(KIND.rows), case.probes, case.entries)
    costs = made.costs(work, order.shape[0])
    even = float(np.median(costs["select_first"] / costs["vanilla"]))
    made = router_of(case, Policy("auto", constants(vanilla=even, hotspot=9.0, joinfirst=9.0)))
    costs = made.costs(made.work(order, case.probes, case.entries)[1], order.shape[0])
    for name in costs:
        made._strategy(name)
    pieces = made.pieces(np.arange(KIND.rows), case.probes, case.entries)
    routed = {row: name for name, rows in pieces for row in rows.tolist()}
    assert sorted(routed) == sorted(order.tolist())  # rows without partners are in no piece
    assert len(set(routed.values())) > 1
    for at, row in enumerate(order.tolist()):
        assert costs[routed[row]][at] == min(cost[at] for cost in costs.values())


def test_a_piece_that_saves_less_than_its_call_joins_the_others() -> None:
    costs = np.array([[10.0, 10.0, 10.0, 99.0], [9.0, 20.0, 20.0, 1.0]])
    assert choose(costs, [0.0, 0.0]).tolist() == [1, 0, 0, 1]
    assert choose(costs, [0.0, 98.0]).tolist() == [1, 0, 0, 1]
    assert choose(costs, [15.0, 0.0]).tolist() == [1, 0, 0, 1]
    assert choose(costs, [30.0, 0.0]).tolist() == [1, 1, 1, 1]
    assert choose(costs[:, :3], [0.0, 30.0]).tolist() == [0, 0, 0]


def test_a_structure_is_built_when_it_has_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vanilla has none, so it is used until another would have saved what it costs to build."""
    monkeypatch.setattr(routers, "FEW", 0)
    case = make_case(1, KIND)
    known = constants(vanilla=5.0, joinfirst=1e6, hotspot=1e6)
    formulas = formulas_of(case.queries)
    first, second = formulas["vanilla"], formulas["select_first"]
    known.fitted[second.name][BUILD] = Constant(400.0, 400.0, 400.0)  # type: ignore[index]
    made = router_of(case, Policy("auto", known))
    _, work = made.work(np.arange(KIND.rows), case.probes, case.entries)
    saved = float(np.maximum(first.cost(known, work) - second.cost(known, work), 0).sum())
    price, batches = second.price(known, KIND.queries), 0
    while made.built != ("vanilla", "select_first") and batches < 1000:
        made.probe(case.probes, case.entries, case.partner)
        batches += 1
    assert batches == int(price / saved) + 1 > 1


def test_few_queries_are_not_routed() -> None:
    case = make_case(1, replace(KIND, queries=64))
    made = Router(case.queries, lambda every: pytest.fail("asked for groups"), Policy(), Tally())
    assert triples(made, case) == expected(case)
    assert made.built == ("vanilla",)


# ---- groups --------------------------------------------------------------------------
def asked(lows: list[int], highs: list[int]) -> Queries:
    none, few = np.empty(0, np.int64), np.empty((0, len(lows)), np.int64)
    return Queries(np.array(lows), np.array(highs), few, few, few, few, none, none, none, none)


def check(grouping: Grouping, queries: Queries) -> None:
    member = np.flatnonzero(grouping.groups >= 0)
    points = grouping.points[grouping.groups[member]]
    assert ((queries.low[member] <= points) & (points <= queries.high[member])).all()
    assert set(grouping.groups[member].tolist()) == set(range(grouping.points.shape[0]))
    assert (np.diff(grouping.points) > 0).all()


def test_groups_of_a_part_follow_the_queries_of_the_index() -> None:
    rng = np.random.default_rng(2)
    low = rng.integers(0, 9, 4000) * 100 + rng.integers(0, 10, 4000)
    queries, qids = asked(low.tolist(), (low + 20).tolist()), np.arange(4000)
    groups = PairGroups(lambda: [(qids, queries.low, queries.high)])
    assert groups.summary().groups == 0
    some = qids[1::7]
    part = asked(queries.low[some].tolist(), queries.high[some].tolist())
    check(groups.of(some, part, False), part)
    assert groups.summary().hotspots == groups.summary().groups == 9
    groups.remove(qids[low < 700])  # 700 to 899 are left
    assert groups.summary().hotspots == 2
    groups.add(qids[:9], np.full(9, 5000), np.full(9, 5001))
    moved = asked([5000] * 9, [5001] * 9)
    check(groups.of(qids[:9], moved, True), moved)
    first = asked(queries.low[:9].tolist(), queries.high[:9].tolist())
    again = groups.of(qids[:9], first, True)  # the numbers are those of others by now
    assert (again.groups == -1).all()


def test_groups_without_hotspots_are_dropped_until_queries_double() -> None:
    n = 3000
    queries, qids = asked([*range(0, 10 * n, 10)], [*range(1, 10 * n, 10)]), np.arange(n)
    calls = []

    def every() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        calls.append(1)
        return [(qids, queries.low, queries.high)]

    groups = PairGroups(every)
    groups.add(qids, queries.low, queries.high)
    for _ in range(3):
        assert (groups.of(qids, queries, False).groups == -1).all()
    assert (len(calls), groups.nbytes) == (1, 0)
    assert groups.summary().groups == n
    groups.add(qids + n, queries.low, queries.high)
    groups.of(qids, queries, False)
    assert len(calls) == 2
    check(groups.of(qids, queries, True), queries)


# ---- estimates -----------------------------------------------------------------------
def test_few_intervals_are_counted_exactly_and_many_about() -> None:
    rng = np.random.default_rng(4)
    for n, off in ((500, 0.0), (50_000, 0.1)):
        lows = rng.integers(0, 100_000, n)
        highs = lows + rng.integers(0, 5_000, n)
        values = rng.integers(-10, 110_000, 50)
        true = np.array([np.count_nonzero((lows <= v) & (v <= highs)) for v in values])
        found = count_around(lows, highs).around(values)
        assert np.abs(found - true).max() <= off * true.max()


def test_conditions_on_several_columns_are_independent() -> None:
    lows, highs = np.array([[0, 0, 5, 5], [0, 5, 0, 5]]), np.array([[4, 4, 9, 9], [4, 9, 4, 9]])
    assert Accepting(lows, highs).count(np.array([[1, 1, 99], [1, 9, 1]])).tolist() == [1, 1, 0]
    assert Accepting(lows[:0], highs[:0]).count(np.empty((0, 2), np.int64)).tolist() == [4, 4]


def test_lists_of_takers_are_merged_in_order() -> None:
    rng = np.random.default_rng(7)
    every = np.unique(rng.integers(0, 5, (300, 3)), axis=0)
    part = rng.random(every.shape[0]) < 0.4
    one, other = (np.ascontiguousarray(every[chosen].T) for chosen in (part, ~part))
    assert np.vstack(merge_takers(*one, *other)).T.tolist() == every.tolist()
    none = np.empty((3, 0), np.int64)
    assert np.vstack(merge_takers(*none, *one)).tolist() == one.tolist()


# ---- fitting -------------------------------------------------------------------------
def test_constants_are_fitted_with_intervals_that_hold_them() -> None:
    rng = np.random.default_rng(1)
    amounts = np.exp(rng.uniform(0, 12, (400, 3)))
    amounts[:, 2] = 1 / amounts[:, 0]
    times = (amounts @ [3.0, 0.5, 0.0]) * np.exp(rng.normal(0, 0.1, 400))
    found = fit(amounts, times)
    assert [f.value for f in found] == pytest.approx([3.0, 0.5, 0.0], rel=0.05, abs=0.01)
    assert found[0].low < 3.0 < found[0].high
    assert found[2] == Constant(0.0, 0.0, 0.0) or found[2].low == 0.0


def test_the_typical_value_is_the_median() -> None:
    assert typical([5.0, 1.0, 2.0, 3.0, 900.0]).value == 3.0
    assert typical([4.0]) == Constant(4.0, 4.0, 4.0)


def test_calibration_fits_every_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.indexes.pairs import calibration

    made = calibration.Population
    small = [made(n, 5, 0.9, 1, own) for n in (200, 3000) for own in (True, False)]
    monkeypatch.setattr(calibration, "_populations", lambda quick: iter(small))
    heard: list[float] = []
    found = calibrate(True, heard.append)
    assert heard[0] == 0.0
    assert heard[-1] == 1.0
    defaults = Constants.defaults()
    assert {n: set(of) for n, of in found.fitted.items()} == {
        n: set(of) for n, of in defaults.fitted.items()
    }
    for formula in FORMULAS:
        assert any(found.of(formula.name)[term.constant] > 0 for term in formula.terms)
        assert found.of(formula.name)[CALL] > 0


# ---- the file ------------------------------------------------------------------------
@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    stored.of_this_machine.cache_clear()
    yield stored.constants_path()
    stored.of_this_machine.cache_clear()


def test_constants_are_written_and_read(path: Path) -> None:
    assert stored.of_this_machine().origin == "defaults"
    made = replace(constants(vanilla=7.0), origin="measured then")
    made.write(path)
    stored.of_this_machine.cache_clear()
    assert stored.of_this_machine() == made
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 0}', '{"format": 2, "nanoseconds": {}}', '{"format": 2}',
     '{"format": 2, "nanoseconds": {"SJ-Vanilla": {"β": [1, 2]}}}',
     '{"format": 2, "nanoseconds": {"SJ-Vanilla": 5}}'],
)  # fmt: skip
def test_a_bad_file_is_ignored_with_a_notice(
    path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.parent.mkdir()
    path.write_text(text)
    for _ in range(2):
        assert stored.of_this_machine().origin == "defaults"
    assert capsys.readouterr().err.count(f"penstock ignores {path}") == 1


def test_constants_that_are_no_numbers_are_refused(path: Path) -> None:
    made = constants().numbers()
    made["BJ-MJ"]["γ"] = [-1.0, 0.0, 0.0]
    path.parent.mkdir()
    path.write_text(json.dumps({"format": 2, "nanoseconds": made}))
    with pytest.raises(ValueError, match="negative"):
        Constants.read(path)


def test_the_settings_are_the_strategies() -> None:
    assert ("auto", *STRATEGIES) == PAIR_STRATEGIES
    for formulas in (
        formulas_of(asked([], [])),
        formulas_of(asked([], [])._replace(lengths=np.ones(1, np.int64))),
    ):
        assert set(formulas) < set(STRATEGIES)
