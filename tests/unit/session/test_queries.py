"""Handles on many queries at once, and where each of them is in the changelog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, NameError_, PenstockError, UnsupportedError

STREAM = "CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"
OVER = "SELECT k, a FROM r [RANGE 9] WHERE a > $low"


@pytest.fixture(params=[None, 2], ids=["one engine", "two shards"])
def ps(request: pytest.FixtureRequest) -> Iterator[penstock.Session]:
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql(STREAM)
        yield session


def over(ps: Any, *lows: int, history: bool = False) -> penstock.Queries:
    names = [f"over{low}" for low in lows]
    return ps.query_many(OVER, pa.table({"qid": names, "low": lows}), history=history)


def push(ps: Any, *values: tuple[int, int]) -> None:
    ps.push("r", [{"k": 1, "a": a, "ts": ts} for ts, a in values])


def told(table: pa.Table) -> list[tuple[str, str, int, int]]:
    columns = ("_query", "_change_type", "_time", "a")
    return [tuple(row[c] for c in columns) for row in table.to_pylist()]


def test_queries_are_a_sequence(ps: Any) -> None:
    qs = over(ps, 1, 2, 3)
    assert isinstance(qs, penstock.Queries)
    assert [q.name for q in qs] == ["over1", "over2", "over3"]
    assert (len(qs), qs[0].name, qs[-1] == ps["over3"]) == (3, "over1", True)
    assert [q.name for q in qs[1:]] == ["over2", "over3"]
    assert qs.index(qs[1]) == 1
    assert repr(qs) == "Queries(3)"


def test_no_parameters_make_no_queries(ps: Any) -> None:
    none = ps.query_many(OVER, pa.table({"low": pa.array([], pa.int64())}))
    assert list(none) == []
    assert none.changes().num_rows == none.view().num_rows == 0
    none.drop()
    assert (ps.stats()["templates"], ps.stats()["queries"]) == (0, 0)
    assert (ps.sql("SHOW QUERIES").num_rows, len(ps._books.queries.registry.groups)) == (0, 0)


def test_changes_and_views_of_all_are_one_table_with_names(ps: Any) -> None:
    qs = over(ps, 1, 5)
    push(ps, (1, 3), (2, 7))
    assert told(qs.changes()) == [
        ("over1", "insert", 1, 3),
        ("over1", "insert", 2, 7),
        ("over5", "insert", 2, 7),
    ]
    shown = qs.view().to_pylist()
    assert sorted((r["_query"], r["a"]) for r in shown) == [
        ("over1", 3),
        ("over1", 7),
        ("over5", 7),
    ]
    ps.advance("r", 10)
    assert told(qs.changes()) == [("over1", "delete", 10, 3)]
    assert qs.changes().num_rows == 0


def test_a_change_is_handed_out_once(ps: Any) -> None:
    qs = over(ps, 1, 5)
    push(ps, (1, 7))
    assert told(qs[0].changes()) == [("over1", "insert", 1, 7)]
    push(ps, (2, 8))
    assert told(qs.changes()) == [
        ("over5", "insert", 1, 7),
        ("over1", "insert", 2, 8),
        ("over5", "insert", 2, 8),
    ]
    assert qs[0].changes().num_rows == qs[1].changes().num_rows == 0


def test_what_dropped_queries_had_left_comes_once_and_in_order(ps: Any) -> None:
    qs = over(ps, 1, 2, 5)
    push(ps, (1, 7))
    qs[1].drop()
    other = over(ps, 3)  # may have the number of the dropped one
    push(ps, (2, 8))
    qs.drop()
    assert told(qs.changes()) == [
        ("over1", "insert", 1, 7),
        ("over2", "insert", 1, 7),
        ("over5", "insert", 1, 7),
        ("over2", "delete", 1, 7),
        ("over1", "insert", 2, 8),
        ("over5", "insert", 2, 8),
        ("over1", "delete", 2, 7),
        ("over5", "delete", 2, 7),
        ("over1", "delete", 2, 8),
        ("over5", "delete", 2, 8),
    ]
    assert qs.changes().num_rows == qs.view().num_rows == 0
    assert [q.status for q in qs] == ["dropped"] * 3
    assert told(other.changes()) == [("over3", "insert", 2, 8)]
    qs.drop()  # nothing is left to drop
    with pytest.raises(NameError_, match="dropped"):
        qs.subscribe(print)


def test_all_are_dropped_in_one_step(ps: Any) -> None:
    qs = over(ps, *range(50))
    push(ps, (1, 99))
    before = len(ps.progress())
    qs.drop()
    assert len(ps.progress()) == before + 1
    found = qs.changes()
    assert found["_change_type"].to_pylist() == ["insert"] * 50 + ["delete"] * 50
    assert len(set(found["_batch"].to_pylist())) == 2
    assert ps.stats()["templates"] == 0


def test_a_handle_tells_what_was_left_when_all_were_dropped(ps: Any) -> None:
    qs = over(ps, 1, 5)
    push(ps, (1, 3))
    qs.drop()
    left = [("over1", "insert", 1, 3), ("over1", "delete", 1, 3)]
    assert told(qs[0].changes()) == left
    assert qs[0].changes().num_rows == qs.changes().num_rows == 0


def test_subscribers_hear_all_queries_until_the_last_is_gone(ps: Any) -> None:
    heard: list[pa.Table] = []
    qs = over(ps, 1, 5)
    qs.subscribe(heard.append)
    push(ps, (1, 7))
    push(ps, (2, 0))  # nobody's
    qs[1].drop()
    push(ps, (3, 8))
    qs.drop()
    push(ps, (4, 9))
    assert [told(table) for table in heard] == [
        [("over1", "insert", 1, 7), ("over5", "insert", 1, 7)],
        [("over5", "delete", 2, 7)],
        [("over1", "insert", 3, 8)],
        [("over1", "delete", 3, 7), ("over1", "delete", 3, 8)],
    ]


def test_a_subscriber_of_many_that_raises_is_reported(ps: Any) -> None:
    qs = over(ps, 1, 5)

    def broken(changes: object) -> None:
        raise ValueError("no")

    qs.subscribe(broken)
    with pytest.raises(PenstockError, match="a subscriber of 2 queries raised"):
        push(ps, (1, 7))
    assert qs.view().num_rows == 2


def test_a_failed_query_is_left_out_and_tells_its_end(ps: Any) -> None:
    text = "SELECT k, a * $p AS x FROM r [RANGE 9]"
    qs = ps.query_many(text, pa.table({"qid": ["good", "bad"], "p": [2, 2**61]}))
    push(ps, (1, 1))
    push(ps, (2, 5))
    assert [q.status for q in qs] == ["running", "failed"]
    assert sorted(r["x"] for r in qs.view().to_pylist()) == [2, 10]
    bad = [r for r in qs.changes().to_pylist() if r["_query"] == "bad"]
    assert [(r["_change_type"], r["x"]) for r in bad] == [("insert", 2**61), ("delete", 2**61)]
    assert len({(r["_batch"], r["_seq"]) for r in bad}) == len(bad)
    qs.drop()
    assert qs[1].status == "dropped"


def test_a_query_without_state_has_no_view(ps: Any) -> None:
    qs = ps.query_many("SELECT k, a FROM r WHERE a > $low", pa.table({"low": [1, 2]}))
    push(ps, (1, 7))
    with pytest.raises(UnsupportedError, match="no view"):
        qs.view()
    assert qs.changes().num_rows == 2


def test_a_query_that_feeds_a_sink_keeps_all_from_being_dropped(ps: Any, tmp_path: Any) -> None:
    qs = over(ps, 1, 5)
    ps.sql(f"CREATE SINK out FROM over5 INTO json OPTIONS (path '{tmp_path}')")
    with pytest.raises(NameError_, match="over5 feeds the sink out"):
        qs.drop()
    push(ps, (1, 7))
    assert qs.view().num_rows == 2


def test_the_siblings_of_a_query_are_those_registered_with_it(ps: Any) -> None:
    qs = over(ps, 1, 5)
    over(ps, 7)
    push(ps, (1, 6))
    qs[1].drop()
    again = ps["over1"].siblings
    assert [(q.name, q.status) for q in again] == [("over1", "running"), ("over5", "dropped")]
    assert again.changes().num_rows == 3
    assert qs.changes().num_rows == 0
    with pytest.raises(NameError_):
        _ = qs[1].siblings


def test_identical_queries_are_told_apart() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(f"{STREAM} RETAIN 9")
    first = over(ps, 1, 5, history=True)
    push(ps, (1, 7))
    table = pa.table({"qid": ["a", "b", "c"], "low": [5, 5, 2]})
    second = ps.query_many(OVER, table, history=True)
    assert "shared by: over1, over5, a, b, c" in second[0].explain()
    assert sorted(told(second.changes())) == [(q, "insert", 1, 7) for q in "abc"]
    heard: list[pa.Table] = []
    second.subscribe(heard.append)
    second[1].drop()
    assert told(heard[0]) == [("b", "delete", 1, 7)]
    assert sorted(r["_query"] for r in second.view().to_pylist()) == ["a", "c"]
    second.drop()
    assert sorted(told(second.changes())) == [(q, "delete", 1, 7) for q in "abc"]
    assert first.view().num_rows == 2


def test_identical_queries_that_come_together_are_told_once(ps: Any) -> None:
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    counts = "SELECT count(*) AS n FROM r [RANGE 9] WHERE a > $low"
    lows = pa.table({"low": [5, 5, 2, 5]})
    first, second = ps.query_many(counts, lows), ps.query_many(counts, lows)
    for queries in (first, second):
        names = [q.name for q in queries]
        assert sorted(queries.changes()["_query"].to_pylist()) == sorted(names)
        queries[0].drop()
        left = [(row["_query"], row["n"]) for row in queries.view().to_pylist()]
        assert sorted(left) == [(name, 0) for name in sorted(names[1:])]


def test_names_that_nobody_gave_pass_by_those_that_somebody_did(ps: Any) -> None:
    ps.sql("CREATE MATERIALIZED VIEW q2 AS SELECT k FROM r [RANGE 9] WHERE a > 0")
    qs = ps.query_many(OVER, pa.table({"low": [1, 2, 3]}))
    assert [q.name for q in qs] == ["q3", "q4", "q5"]
    qs[1].drop()
    with pytest.raises(NameError_, match="q5 already exists"):
        ps.query_many(OVER, pa.table({"qid": ["q5"], "low": [1]}))
    again = ps.query_many(OVER, pa.table({"qid": ["q4"], "low": [9]}))
    push(ps, (1, 4))
    assert (ps["q4"] == again[0], ps["q4"].view().num_rows, ps["q5"].view().num_rows) == (
        True,
        0,
        1,
    )


def test_a_call_that_fails_uses_no_names(ps: Any) -> None:
    for bad in ({"low": ["x"]}, {"high": [1]}):
        with pytest.raises(DataError):
            ps.query_many(OVER, pa.table(bad))
    with pytest.raises(PenstockError):
        ps.query("SELECT k FROM r WHERE nothing > 1")
    assert [q.name for q in ps.query_many(OVER, pa.table({"low": [1, 2]}))] == ["q1", "q2"]
    assert ps.query("SELECT k FROM r [RANGE 9] WHERE a > 1").name == "q3"


def test_show_queries_lists_those_that_are_there(ps: Any) -> None:
    qs = over(ps, 1, 2)
    halves = "SELECT 2 / (a - $low) AS b FROM r [RANGE 9] WHERE k = 1"
    bad = ps.query_many(halves, pa.table({"qid": ["x", "y"], "low": [4, 5]}))
    push(ps, (1, 4))
    qs[0].drop()
    shown = ps.sql("SHOW QUERIES").to_pylist()
    assert [(row["name"], row["status"]) for row in shown] == [
        ("over2", "running"), *((q.name, q.status) for q in bad)
    ]  # fmt: skip
    assert shown[0]["sql"] == OVER


def test_lost_changes_are_said_once() -> None:
    ps = penstock.connect(runner="inprocess", keep_changes=10)
    ps.sql(STREAM)
    qs = over(ps, 1, 5)
    for ts in range(20):
        push(ps, (ts, 9))
    with pytest.raises(DataError, match="changes of 2 queries were dropped"):
        qs.changes()
    assert qs.changes().num_rows > 0


@pytest.mark.parametrize("restored", [False, True], ids=["at once", "restored"])
def test_what_dropped_queries_had_left_outlives_the_changelog(restored: bool) -> None:
    ps = penstock.connect(runner="inprocess", keep_changes=10)
    ps.sql(STREAM)
    qs, alone = over(ps, 1, 5, 6), ps.query("SELECT k, a FROM r [RANGE 9] WHERE a > 2")
    push(ps, (1, 3), (2, 7))
    qs[0].changes()
    for query in (qs[0], qs[1], alone):
        query.drop()
    if restored:
        ps = penstock.connect(runner="inprocess", keep_changes=10, snapshot=ps.snapshot())
        qs = ps["over6"].siblings
    for ts in range(3, 20):  # the numbers of dropped queries may be those of new ones
        over(ps, 100 + ts)
        push(ps, (ts, 500))
    assert told(qs[0].changes()) == [("over1", "delete", 2, 3), ("over1", "delete", 2, 7)]
    assert told(qs[1].changes()) == [("over5", "insert", 2, 7), ("over5", "delete", 2, 7)]
    if not restored:
        assert [row[1:] for row in told(alone.changes())] == [
            ("insert", 1, 3),
            ("insert", 2, 7),
            ("delete", 2, 3),
            ("delete", 2, 7),
        ]
    assert qs[0].changes().num_rows == qs[1].changes().num_rows == 0
    with pytest.raises(DataError, match="changes of over6 were dropped"):
        qs[2].changes()


def test_nothing_is_kept_for_a_dropped_query_whose_handle_is_gone(ps: Any) -> None:
    standing, left = over(ps, 1), over(ps, 5)
    push(ps, (1, 7))
    left.drop()
    (log,) = ps._books.delivery.logs.values()
    standing.changes()
    assert log.rows > 0  # `left` has not read it
    del left
    push(ps, (2, 8))
    standing.changes()
    assert (log.rows, len(log.left)) == (0, 0)


def test_the_changelog_is_forgotten_when_all_have_read_it(ps: Any) -> None:
    qs = over(ps, *range(200))
    for ts in range(5):
        push(ps, (ts, 500))
        qs.changes()
    (log,) = ps._books.delivery.logs.values()
    assert log.batches == []
    assert log.rows == 0


def test_a_restored_session_goes_on_reading() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(STREAM)
    over(ps, 1, 5)
    push(ps, (1, 7))
    ps["over1"].changes()
    again = penstock.connect(runner="inprocess", snapshot=ps.snapshot())
    push(again, (2, 8))
    qs = again["over1"].siblings
    assert told(qs.changes()) == [
        ("over5", "insert", 1, 7),
        ("over1", "insert", 2, 8),
        ("over5", "insert", 2, 8),
    ]


@pytest.mark.parametrize("shards", [None, 2])
def test_queries_over_tables_alone_come_and_go_at_the_clock(shards: int | None) -> None:
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE TABLE t (k INT, w INT)")
        ps.sql("INSERT INTO t VALUES (1, 1)")
        text = "SELECT k FROM t WHERE w > 0"
        first = ps.query(text, history=True)
        ps.push("r", [{"k": 1, "ts": 8}])
        same = ps.query(text, history=True)
        ps.advance(ts=20)
        first.drop()
        ps.advance(ts=30)
        same.drop()
        assert first.changes()["_time"].to_pylist() == [None, 20]
        assert same.changes()["_time"].to_pylist() == [8, 30]


@pytest.mark.parametrize("emit", ["CHANGES", "ON COMMIT", "CHANGES PER ROW"])
@pytest.mark.parametrize("shards", [None, 2])
def test_identical_queries_without_state_have_all_their_history(
    shards: int | None, emit: str
) -> None:
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
        text = f"SELECT k FROM r WHERE k > 0 EMIT {emit}"
        ps.push("r", [{"k": 1, "ts": 1}])
        two = [ps.query(text, history=True) for _ in range(2)]
        ps.push("r", [{"k": 2, "ts": 2}])
        late, without = ps.query(text, history=True), ps.query(text)
        two[0].drop()
        ps.push("r", [{"k": 3, "ts": 3}])
        told = [q.changes()["k"].to_pylist() for q in (*two, late, without)]
        assert told == [[1, 2], [1, 2, 3], [1, 2, 3], [3]]
