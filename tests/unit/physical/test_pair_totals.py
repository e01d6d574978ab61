"""Totals of pairs beside the plan that forms them: what no random population is sure to reach."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import QueryFailed
from penstock.optimizer.total_pairs import MANY
from penstock.session import Session

FORMED = "total_pairs"
END = 2**63 - 1
BAND = "s.b - r.b BETWEEN $low AND $high"


def opened(off: str | frozenset[str] = frozenset(), **options: Any) -> Session:
    """A session with two streams."""
    ps = penstock.connect(runner="inprocess", optimizer_off=off, **options)
    for name in "rs":
        ps.sql(
            f"CREATE STREAM {name} (k INT, b BIGINT, c BIGINT, x DOUBLE, ts BIGINT) "
            "TIMESTAMP BY ts RETAIN 100"
        )
    return ps


def text(condition: str, chosen: str = "count(*) AS n, sum(s.c) AS t", windows: str = "") -> str:
    left, right = windows.split("|") if windows else ("RANGE 4", "RANGE 7")
    return f"SELECT {chosen} FROM r [{left}] r JOIN s [{right}] s ON {condition}"


def feed(ps: Session, seed: int, steps: int = 12, numbers: Sequence[int] = range(-9, 10)) -> Any:
    """Rows of both streams; yields after each step."""
    rng, ts = Random(seed), 0
    for _ in range(steps):
        for name in "rs":
            rows = [
                {
                    "k": rng.randrange(2), "b": rng.choice((None, *numbers)),
                    "c": rng.choice((None, *range(-9, 10))),
                    "x": rng.choice((None, float("nan"), float("inf"), 0.5, -1.0)),
                    "ts": ts + rng.randint(0, 2),
                }
                for _ in range(rng.randint(0, 5))
            ]  # fmt: skip
            if rows:
                ps.push(name, rows)
        ts += rng.randint(2, 4)
        ps.advance(ts=ts)
        yield


def told(many: Any) -> list[tuple[Any, ...]]:
    """The changes of queries, in a fixed order."""
    rows = many.changes().to_pylist()
    hidden = ("_batch", "_seq")
    return sorted(tuple((k, str(v)) for k, v in row.items() if k not in hidden) for row in rows)


def shown(many: Any) -> list[str]:
    """The answers of queries, in a fixed order."""
    return sorted(str(row) for row in many.view().to_pylist())


def both(sql: str, params: dict[str, list[Any]], seed: int = 1, **options: Any) -> list[Any]:
    """What queries tell and show after each step, by totals; asserts that pairs say the same."""
    numbers = options.pop("numbers", range(-9, 10))
    sessions = [opened(**options), opened(FORMED, **options)]
    many = [ps.query_many(sql, pa.table(params)) for ps in sessions]
    feeds = [feed(ps, seed, numbers=numbers) for ps in sessions]
    seen = []
    for _ in zip(*feeds, strict=True):
        found = [(told(queries), shown(queries)) for queries in many]
        assert found[0] == found[1]
        seen.append(found[0])
    assert "pair totals" in many[0][0].explain()
    assert "pair totals" not in many[1][0].explain()
    return seen


# ---- which plans ---------------------------------------------------------------------
SERVED = [
    text(BAND),
    text(f"r.k = s.k AND {BAND}"),
    text("r.k = s.k AND r.b > $low AND s.b < $high"),
    text("r.k = s.k AND s.x BETWEEN $low AND $high", "avg(r.c) AS a, count(s.x) AS x"),
    text("s.x - r.x BETWEEN $low AND $high"),
    text(BAND) + " HAVING count(*) > 2",
    text(BAND, "1 + sum(s.c) AS t"),
]
FORMING = [
    text(BAND, "count(*) AS n, max(s.c) AS m"),
    text(BAND, "sum(s.x) AS t"),
    text(BAND, "count(DISTINCT s.c) AS t"),
    text(BAND, "count(*) FILTER (WHERE s.c > 1) AS t"),
    text(BAND, "sum(s.c + 1) AS t"),
    text(BAND, "r.k, count(*) AS n") + " GROUP BY r.k",
    text(f"{BAND} AND s.c > 3"),
    text(f"{BAND} AND s.c <> r.c"),
    text("r.k = s.k AND s.b > $low AND s.c < $high"),
    text(f"r.k = s.k AND r.c = s.c AND {BAND}"),
    text(BAND, windows="RANGE 6 SLIDE 2|RANGE 4"),
    text(BAND, windows="ROWS 3|RANGE 4"),
]


def plan(sql: str, queries: int = MANY, **options: Any) -> str:
    ps = opened(**options)
    params = pa.table({"low": [1] * queries, "high": [2] * queries})
    return str(ps.query_many(sql, params)[0].explain())


@pytest.mark.parametrize("sql", SERVED)
def test_totals_are_in_the_plan(sql: str) -> None:
    assert "pair totals" in plan(sql)
    assert "running totals, no pairs" in plan(sql)
    assert "pair totals" not in plan(sql, off=FORMED)
    assert "pair totals" not in plan(sql, pairs="merge")


def test_a_single_query_over_an_equality_forms_pairs() -> None:
    """Its rows may have few partners; those of a band have many."""
    equality = text("r.k = s.k AND r.b > $low AND s.b < $high")
    assert "pair totals" not in plan(equality, queries=1)
    assert "pair totals" in plan(text(BAND), queries=1)


@pytest.mark.parametrize(("keys", "partners"), [(1, "many"), (1000, "few")])
def test_a_single_query_where_rows_have_many_partners(keys: int, partners: str) -> None:
    ps = opened()
    for ts in range(1000):
        for stream in "rs":
            row = {"k": ts % keys, "b": 0, "c": 0, "x": 0.0, "ts": ts}
            ps.push(stream, [row])
    query = ps.query(
        "SELECT count(*) AS n FROM r [RANGE 900] JOIN s [RANGE 900] ON r.k = s.k WHERE s.b > 3"
    )
    assert ("pair totals" in query.explain()) == (partners == "many")


@pytest.mark.parametrize("sql", FORMING)
def test_other_plans_form_pairs(sql: str) -> None:
    assert "pair totals" not in plan(sql)


# ---- answers -------------------------------------------------------------------------
@pytest.mark.parametrize("sql", SERVED)
def test_totals_equal_formed_pairs(sql: str) -> None:
    rng = Random(3)
    low = [rng.randint(-9, 4) for _ in range(MANY)]
    params = {"low": low, "high": [n + rng.randint(-1, 9) for n in low]}
    assert any(changes for changes, _ in both(sql, params))


def test_bounds_at_the_ends_of_the_integers() -> None:
    """Such intervals are not exact: pairs are formed for these queries alone."""
    low, high = [-END - 1, -END, 0, -3, -END - 1], [0, END, END, 3, END]
    seen = both(text(BAND), {"low": low, "high": high}, numbers=(-END, END, 0, 5))
    assert any(changes for changes, _ in seen)


def test_bounds_that_are_no_numbers() -> None:
    low = [float("nan"), -1.0, float("-inf"), float("inf")]
    params = {"low": low, "high": [float("nan"), float("nan"), float("inf"), 2.0]}
    both(text("abs(s.x - r.x) <= $high AND s.x - r.x >= $low"), params)


def test_windows_of_their_own() -> None:
    params = {"low": [-3, -3, 0, 0, -9], "high": [3, 3, 5, 5, 9], "w": [1, 5, 2, 5, 9]}
    both(text(BAND, windows="RANGE $w|RANGE 4"), params)


def test_a_row_leaves_as_another_comes() -> None:
    ps = opened()
    ps.query_many(
        text(BAND, windows="RANGE 2|NOW"), pa.table({"qid": ["a"], "low": [0], "high": [9]})
    )
    for ts in (1, 2, 3):
        ps.push("r", [{"k": 0, "b": ts, "c": 1, "x": 0.0, "ts": ts}])
        ps.push("s", [{"k": 0, "b": 5, "c": ts, "x": 0.0, "ts": ts}])
    ps.advance(ts=9)
    found = [
        (row["_time"], row["n"], row["t"])
        for row in ps["a"].changes().to_pylist()
        if row["_change_type"] in ("insert", "update_postimage")
    ]
    assert found[-4:] == [(1, 1, 1), (2, 2, 4), (3, 2, 6), (4, 0, None)]


@pytest.mark.parametrize("off", [frozenset(), FORMED])
def test_a_sum_that_overflows_fails_its_query(off: Any) -> None:
    ps = opened(off)
    params = pa.table({"qid": ["wide", "narrow"], "low": [0, 0], "high": [9, 1]})
    ps.query_many(text(BAND), params)
    rows = [{"k": 0, "b": b, "c": END, "x": 0.0, "ts": 1} for b in (0, 5)]
    ps.push("s", rows)
    ps.push("r", rows[:1])
    ps.advance(ts=2)
    assert ps["narrow"].view().to_pylist() == [{"n": 1, "t": END}]
    with pytest.raises(QueryFailed, match=r"overflow of BIGINT in sum\(c\)"):
        ps["wide"].view()


def test_sums_beyond_the_integers_come_back() -> None:
    """At one instant the sum is far too large, and fits at its end."""
    ps = opened()
    ps.query_many(text(BAND), pa.table({"qid": ["a"], "low": [-9], "high": [9]}))
    some = [{"k": 0, "b": b, "c": c, "x": 0.0, "ts": 1} for b in range(3) for c in (END, -END, 7)]
    ps.push("s", some)
    ps.push("r", some[:2])
    ps.advance(ts=2)
    assert ps["a"].view().to_pylist() == [{"n": 18, "t": 42}]


# ---- queries that come and go --------------------------------------------------------
def test_queries_with_and_without_history_and_drops() -> None:
    sessions = [opened(), opened(FORMED)]
    feeds = [feed(ps, 5, steps=14) for ps in sessions]
    names: list[str] = []
    for step, _ in enumerate(zip(*feeds, strict=True)):
        for ps in sessions:
            if step in (2, 3, 6, 7):
                table = pa.table({"qid": [f"q{step}"], "low": [-step], "high": [step]})
                ps.query_many(text(BAND), table, history=step % 2 == 0)
            if step == 9:
                ps["q3"].drop()
        names = ["q2", "q6", "q7"] if step >= 9 else [f"q{n}" for n in (2, 3, 6, 7) if n <= step]
        views = [[ps[name].view().to_pylist() for name in names] for ps in sessions]
        assert views[0] == views[1]
    assert names == ["q2", "q6", "q7"]


def test_statistics_name_the_totals() -> None:
    ps = opened()
    many = ps.query_many(text(BAND), pa.table({"low": list(range(50)), "high": list(range(9, 59))}))
    for _ in feed(ps, 2, steps=3):
        pass
    (found,) = ps.stats()["pairs"]
    assert found["strategy"] == "totals"
    assert found["queries"] == 50
    assert "stabbing groups" in many[0].explain()
    for query in many:
        query.drop()
    assert not ps.stats()["pairs"]
    assert not ps.stats()["stems"]
