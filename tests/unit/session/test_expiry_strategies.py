"""Strategies as settings: of a session, a call, a view; what they share; what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import NameError_, PenstockError, UnsupportedError
from penstock.logical.strategy import STRATEGIES, UPA, strategy_named
from penstock.session import Session

NAMES = [s.name for s in STRATEGIES]
OTHERS = [s.name for s in STRATEGIES if s != UPA]
DDL = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts;
CREATE TABLE n (k INT, w INT) NONRETROACTIVE;
INSERT INTO n VALUES (1, 7);
"""
GROUPS = "SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k"
JOIN = "SELECT r.k, a, b FROM r [RANGE 5] JOIN s [RANGE 3] ON r.k = s.k"


def opened(**options: Any) -> Session:
    session = penstock.connect(runner="inprocess", **options)
    session.sql(DDL)
    return session


@pytest.fixture
def ps() -> Iterator[Session]:
    with opened() as session:
        yield session


def runs_by(plan: str) -> str:
    """The strategy that EXPLAIN names; it names none by default."""
    found = [line for line in plan.splitlines() if line.startswith("strategy: ")]
    return found[0].removeprefix("strategy: ") if found else UPA.name


# ---- where it is set -----------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_a_session_has_a_strategy(name: str) -> None:
    with opened(strategy=name) as ps:
        ps.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS}")
        many = ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $a", [{"a": 1}])
        plans = [ps["v"].explain(), ps.query(GROUPS).explain(), many[0].explain()]
        plans += [ps.sql(GROUPS).explain(), ps.sql(f"EXPLAIN {GROUPS}")]
        assert {runs_by(plan) for plan in plans} == {name}


@pytest.mark.parametrize("name", NAMES)
def test_a_query_has_its_own(ps: Session, name: str) -> None:
    ps.sql(f"CREATE MATERIALIZED VIEW v WITH (Strategy = '{name.upper()}') AS {GROUPS}")
    many = ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $a", [{"a": 1}], strategy=name)
    plans = [ps["v"].explain(), ps.query(GROUPS, strategy=name).explain(), many[0].explain()]
    assert {runs_by(plan) for plan in plans} == {name}


def test_a_query_keeps_to_its_own_in_a_session_with_another() -> None:
    with opened(strategy="negative") as ps:
        assert runs_by(ps.query(GROUPS, strategy="upa").explain()) == "upa"
        ps.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'direct') AS {GROUPS}")
        assert runs_by(ps["v"].explain()) == "direct"


def test_queries_that_differ_in_it_have_templates_of_their_own(ps: Session) -> None:
    queries = [ps.query(GROUPS, strategy=name) for name in (*NAMES, *NAMES)]
    heads = [q.explain().splitlines()[0].split()[3] for q in queries]
    assert len(set(heads)) == len(NAMES)
    assert heads[: len(NAMES)] == heads[len(NAMES) :]


def test_what_does_not_depend_on_it_is_shared(ps: Session) -> None:
    text = f"{JOIN} WHERE a > 1"
    plain, told = ps.query(text), ps.query(text, strategy="negative")
    for query in (plain, told):
        assert "flow of 2 templates, 2 queries" in query.explain()


# ---- what is refused -----------------------------------------------------------------
def test_an_unknown_strategy_is_refused_with_its_place(ps: Session) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ps.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'positive') AS {GROUPS}")
    assert caught.value.code == "PS-STRATEGY-001"
    assert str(caught.value.place) == "line 1, column 45"
    assert all(name in caught.value.remedy for name in NAMES)
    assert ps.sql("SHOW QUERIES").num_rows == 0


@pytest.mark.parametrize("wrong", ["positive", "", 3])
def test_calls_refuse_an_unknown_strategy(ps: Session, wrong: Any) -> None:
    calls = (
        lambda: penstock.connect(runner="inprocess", strategy=wrong),
        lambda: ps.query(GROUPS, strategy=wrong),
        lambda: ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $a", [{"a": 1}], strategy=wrong),
    )
    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.code == "PS-STRATEGY-001"


@pytest.mark.parametrize(
    ("clause", "code"),
    [
        ("WITH (join_messages = true)", "PS-STRATEGY-002"),
        ("WITH (heartbeats = false)", "PS-STRATEGY-002"),
        ("WITH (strategy = 'direct', heartbeats = false)", "PS-STRATEGY-002"),
        ("WITH (strategy = 'input-triggered', heartbeats = 0)", "PS-SQL-001"),
        ("WITH (strategy = 'upa', strategy = 'upa')", "PS-STRATEGY-002"),
        ("WITH (strategy = upa)", "PS-SQL-001"),
        ("WITH (strategy 'upa')", "PS-SQL-001"),
        ("WITH ()", "PS-SQL-001"),
        ("WITH (strategy = 'upa'", "PS-SQL-001"),
    ],
)
def test_other_options_are_refused(ps: Session, clause: str, code: str) -> None:
    with pytest.raises(PenstockError) as caught:
        ps.sql(f"CREATE MATERIALIZED VIEW v {clause} AS {GROUPS}")
    assert caught.value.code == code
    assert caught.value.remedy
    assert caught.value.place is not None


# ---- scripts that run again ----------------------------------------------------------
def test_if_not_exists_compares_a_strategy_that_is_named(ps: Session) -> None:
    create = "CREATE MATERIALIZED VIEW IF NOT EXISTS v {} AS " + GROUPS
    ps.sql(create.format("WITH (strategy = 'negative')"))
    ps.sql(create.format("WITH (strategy = 'negative')"))
    ps.sql(create.format(""))
    with pytest.raises(NameError_) as caught:
        ps.sql(create.format("WITH (strategy = 'direct')"))
    assert caught.value.code == "PS-NAME-012"
    assert "its strategy is negative, the statement's direct" in caught.value.message


@pytest.mark.parametrize("name", OTHERS)
def test_a_query_keeps_its_strategy_and_state_over_a_restart(name: str, tmp_path: Path) -> None:
    create = f"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS {JOIN}"
    with opened(checkpoint=tmp_path / "cp", strategy=name) as ps:
        ps.sql(create)
        ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
        ps.push("s", [{"k": 1, "b": 5, "ts": 2}])
        ps.advance(ts=2)
    with penstock.connect(runner="inprocess", checkpoint=tmp_path / "cp") as ps:
        ps.sql(create)
        assert runs_by(ps["v"].explain()) == name
        assert ps["v"].view().to_pylist() == [{"k": 1, "a": 1, "b": 5}]
        ps["v"].changes()
        ps.advance(ts=9)
        assert ps["v"].changes().column("_time").to_pylist() == [5]
        assert ps["v"].view().num_rows == 0


# ---- what flows ----------------------------------------------------------------------
def test_explain_shows_what_flows_under_a_strategy(ps: Session) -> None:
    plain, told = ps.sql(f"EXPLAIN {JOIN}"), ps.query(JOIN, strategy="negative").explain()
    assert "expiring rows" not in plain
    assert "expire [WKS] state=FIFO −1 rows" in told
    assert "scan r [RANGE 5] [WKS] expiring rows" in told
    again = ps.query(JOIN, strategy="reevaluate").explain().splitlines()
    names = [line.strip(" │├└─").split(" [")[0] for line in again if "[W" in line]
    plan = ["re-evaluate", "join k = k", "window", "contents", "scan r"]
    assert [name for name in names if name in plan][:5] == plan


@pytest.mark.parametrize("name", NAMES)
def test_a_row_does_not_meet_one_that_comes_as_it_leaves(name: str) -> None:
    """At one instant rows of both inputs leave before rows arrive: no pair for an instant."""
    with opened(strategy=name) as ps:
        query = ps.query(JOIN)
        ps.push("r", [{"k": 1, "a": 1, "ts": 0}, {"k": 1, "a": 2, "ts": 4}])
        ps.push("s", [{"k": 1, "b": 1, "ts": 1}, {"k": 1, "b": 2, "ts": 5}])
        ps.advance(ts=20)
        rows = query.changes().to_pylist()
        got = [(row["_time"], row["_change_type"], row["a"], row["b"]) for row in rows]
    assert sorted(got) == [
        (1, "insert", 1, 1),
        (4, "delete", 1, 1),
        (5, "insert", 2, 2),
        (8, "delete", 2, 2),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_a_past_is_joined_as_it_was(name: str) -> None:
    with opened(strategy=name) as ps:
        query = ps.query("SELECT w, count(*) AS c FROM r [RANGE 9] JOIN n ON r.k = n.k GROUP BY w")
        ps.push("r", [{"k": 1, "a": 0, "ts": 1}])
        ps.sql("UPDATE n SET w = 8 WHERE k = 1")
        ps.push("r", [{"k": 1, "a": 0, "ts": 2}])
        ps.advance(ts=3)
        assert sorted(map(tuple, (r.values() for r in query.view().to_pylist()))) == [
            (7, 1),
            (8, 1),
        ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("early", [True, False])
def test_queries_follow_views_under_any_strategy(name: str, early: bool) -> None:
    """Planned with the view while its streams are empty; later from its answer and changes."""
    texts = ("SELECT sum(n) AS t FROM v", "SELECT x.k FROM v x JOIN v y ON x.n = y.n")
    rows = [[{"k": k, "a": 0, "ts": 2 * k + i} for i in range(k)] for k in (1, 2, 3)]
    with opened(strategy="negative") as ps:
        ps.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS}")
        queries = [ps.query(text, strategy=name) for text in texts] if early else []
        ps.push("r", rows[0])
        ps.push("r", rows[1])
        queries = queries or [ps.query(text, strategy=name) for text in texts]
        ps.push("r", rows[2])
        for end in (8, 11, 30):
            ps.advance(ts=end)
            answers = [sorted(map(str, query.view().to_pylist())) for query in queries]
            assert answers == [sorted(map(str, ps.sql(t).to_pylist())) for t in texts]


def test_names_are_found_in_any_case_of_letters() -> None:
    assert strategy_named("UPA") == UPA


# ---- input-triggered -----------------------------------------------------------------
DELAYED = {"strategy": "input-triggered", "heartbeats": False}
FAVOURITES = (
    "SELECT count(*) AS n FROM favourites f, sales [RANGE 5] s WHERE s.item = f.item",
    "SELECT count(*) AS n FROM sales [RANGE 5] WHERE item > 3",
)


def counted(query: str, rows: list[tuple[int, int]], end: int, strategy: Any) -> dict[int, int]:
    """The count of a query at each instant from the first row on."""
    with penstock.connect(runner="inprocess", strategy=strategy) as ps:
        ps.sql("CREATE STREAM sales (item INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE TABLE favourites (item INT)")
        ps.sql("INSERT INTO favourites VALUES (4), (5), (7)")
        ps.advance("sales", -1)
        handle, seen, found = ps.query(query), 0, {}
        at: dict[int, int] = {}
        for item, ts in rows:
            ps.push("sales", [{"item": item, "ts": ts}])
        ps.advance("sales", end)
        for row in handle.changes().to_pylist():
            if row["_change_type"] in ("insert", "update_postimage"):
                at[row["_time"]] = row["n"]
        assert handle.view().to_pylist() == [{"n": list(at.values())[-1]}]
    for instant in range(end + 1):
        seen = at.get(instant, seen)
        found[instant] = seen
    return found


@pytest.mark.parametrize("query", FAVOURITES)
def test_without_heartbeats_an_answer_waits_for_the_next_row(query: str) -> None:
    """The delay of Ghanem et al. 2005, §4.1, Fig. 2: nothing passes the filter at 5 and 6."""
    rows = [(4, 0), (5, 1), (7, 3), (4, 4), (2, 5), (2, 6), (5, 7)]
    right = {0: 1, 1: 2, 2: 2, 3: 3, 4: 4, 5: 3, 6: 2, 7: 3, 8: 2}
    for strategy in ("upa", "input-triggered"):
        assert counted(query, rows, 8, strategy) == right
    assert counted(query, rows, 8, DELAYED) == right | {5: 4, 6: 4, 8: 3}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, a FROM r [RANGE 3] WHERE a > 0",
        "SELECT DISTINCT a FROM r [RANGE 3]",
        "SELECT k, count(*) AS n, max(a) AS m FROM r [RANGE 3] GROUP BY k",
        "SELECT k FROM r [RANGE 3] EXCEPT SELECT k FROM s [RANGE 2]",
        JOIN,
    ],
)
@pytest.mark.parametrize("shards", [None, 2])
def test_without_heartbeats_every_row_brings_the_answer_up_to_date(
    text: str, shards: int | None
) -> None:
    """A row that reaches every operator at the end of the time lets all that has expired leave."""
    with opened(strategy=DELAYED, shards=shards) as ps:
        query, twin = ps.query(text), ps.query(text, strategy="upa")
        assert "strategy: input-triggered, heartbeats = false" in query.explain()
        for ts in (1, 2, 4, 5, 30):
            for stream, column in (("r", "a"), ("s", "b")):
                ps.push(stream, [{"k": k, column: k, "ts": ts} for k in (1, 2)])
        ps.flush()
        for handle in (query, twin):
            times = handle.changes().column("_time").to_pylist()
            assert times == sorted(times)
        assert sorted(map(str, query.view().to_pylist())) == sorted(
            map(str, twin.view().to_pylist())
        )


def test_heartbeats_are_true_or_false() -> None:
    for given in ({**DELAYED, "heartbeats": 0}, {"strategy": "upa", "heartbeats": False}, {"x": 1}):
        with pytest.raises(UnsupportedError) as caught:
            opened(strategy=given)
        assert caught.value.code == "PS-STRATEGY-002"
    with opened(strategy={"strategy": "upa", "heartbeats": True}) as ps:
        assert runs_by(ps.query(GROUPS).explain()) == "upa"
