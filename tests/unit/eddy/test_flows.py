"""Which parts of plans run in flows, and what flows share, seen through a session."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.eddy import lineage_group, router
from penstock.errors import PenstockError


@pytest.fixture
def ps() -> Any:
    session = penstock.connect(runner="inprocess")
    for name, column in (("r", "a"), ("s", "b"), ("t", "c")):
        session.sql(f"CREATE STREAM {name} (k INT, {column} BIGINT, ts BIGINT) TIMESTAMP BY ts")
    session.sql("CREATE TABLE names (k INT, name STRING)")
    return session


def _flows(ps: Any) -> list[list[str]]:
    return [flow["streams"] for flow in ps.stats()["flows"]]


def test_selections_of_different_shapes_are_one_flow(ps: Any) -> None:
    ps.query("SELECT k FROM r [RANGE 5] WHERE a > 1")
    ps.query("SELECT a, k FROM r [RANGE 9] WHERE k = 2 AND a < 7")
    ps.query("SELECT count(*) AS n FROM r [RANGE 2] WHERE a IN (1, 2)")
    assert _flows(ps) == [["r"]]
    assert ps.stats()["flows"][0]["templates"] == 3


def test_joins_written_differently_are_one_flow(ps: Any) -> None:
    ps.query("SELECT r.a FROM r [RANGE 5], s [RANGE 3] WHERE r.k = s.k AND a > 1")
    ps.query("SELECT s.b FROM s [RANGE 8] JOIN r [RANGE 9] ON s.k = r.k WHERE b < 4")
    assert _flows(ps) == [["r", "s"]]
    assert [(s["stream"], s["readers"]) for s in ps.stats()["stems"]] == [("r", 1), ("s", 1)]


def test_flows_of_different_spans_share_stems(ps: Any) -> None:
    two = ps.query("SELECT r.a FROM r [RANGE 5], s [RANGE 3] WHERE r.k = s.k AND a > 1")
    joined = "r.k = s.k AND s.k = t.k"
    three = ps.query(f"SELECT r.a FROM r [RANGE 5], s [RANGE 3], t [NOW] WHERE {joined}")
    assert sorted(_flows(ps)) == [["r", "s"], ["r", "s", "t"]]
    assert {s["stream"]: s["readers"] for s in ps.stats()["stems"]} == {"r": 2, "s": 2, "t": 1}
    two.drop()
    assert {s["stream"]: s["readers"] for s in ps.stats()["stems"]} == {"r": 1, "s": 1, "t": 1}
    three.drop()
    assert ps.stats()["stems"] == []
    assert ps.stats()["flows"] == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM r [RANGE 5]",  # nothing to group
        "SELECT r.a FROM r [RANGE 5], s [RANGE 3] WHERE r.k = s.k",  # one query's own join
        "SELECT k FROM r [ROWS 5] WHERE a > 1",
        "SELECT k FROM r [RANGE 4 SLIDE 2] WHERE a > 1",
        "SELECT k FROM r [RANGE 5] WHERE a > 1 EXCEPT SELECT k FROM s [RANGE 5] WHERE b > 2",
    ],
)
def test_what_does_not_run_in_a_flow(ps: Any, sql: str) -> None:
    ps.query(sql)
    assert _flows(ps) == []


def test_a_table_is_joined_above_the_flow(ps: Any) -> None:
    ps.sql("INSERT INTO names VALUES (1, 'one')")
    query = ps.query("SELECT name, a FROM r [RANGE 5] JOIN names ON r.k = names.k WHERE a > 1")
    assert _flows(ps) == [["r"]]
    ps.push("r", [{"k": 1, "a": 2, "ts": 0}, {"k": 1, "a": 1, "ts": 1}])
    assert query.view().to_pylist() == [{"name": "one", "a": 2}]


def test_rows_before_the_other_stream_speaks_are_not_lost(ps: Any) -> None:
    query = ps.query("SELECT a, b FROM r [RANGE 5], s [RANGE 5] WHERE r.k = s.k AND a > 0")
    ps.push("r", [{"k": 1, "a": 1, "ts": 0}])
    ps.push("r", [{"k": 1, "a": 2, "ts": 1}])
    ps.push("s", [{"k": 1, "b": 9, "ts": 1}])
    assert sorted(map(tuple, (r.values() for r in query.view().to_pylist()))) == [(1, 9), (2, 9)]


def test_each_query_sees_its_own_window_on_one_stem(ps: Any) -> None:
    text = "SELECT a, b FROM r [RANGE {}], s [RANGE 100] WHERE r.k = s.k AND a > 0"
    queries = {w: ps.query(text.format(w)) for w in (1, 3, 10)}
    ps.push("r", [{"k": 1, "a": i, "ts": i} for i in range(1, 9)])
    ps.push("s", [{"k": 1, "b": 0, "ts": 8}])
    assert {w: q.view().num_rows for w, q in queries.items()} == {1: 1, 3: 3, 10: 8}


def test_a_condition_without_a_value_fails_its_query_only_where_nothing_else_rejects(
    ps: Any,
) -> None:
    hit = ps.query("SELECT k FROM r [RANGE 5] WHERE a * 4611686018427387904 > 0 AND k = 1")
    spared = ps.query("SELECT k FROM r [RANGE 5] WHERE a * 4611686018427387904 > 0 AND k = 2")
    other = ps.query("SELECT k FROM r [RANGE 5] WHERE a > 1")
    ps.push("r", [{"k": 1, "a": 5, "ts": 0}])
    with pytest.raises(PenstockError, match="overflow"):
        hit.view()
    assert spared.view().num_rows == 0
    assert other.view().num_rows == 1


def test_a_call_on_a_joined_row_judges_and_fails_all_its_results(ps: Any) -> None:
    text = "SELECT r.a, b FROM r [RANGE 9], s [RANGE 9] WHERE r.k = s.k AND a * {} > 6 AND b < 5"
    times = {x: ps.query(text.format(x)) for x in (2, 3, 4)}
    huge = 2**61  # times 4 it has no value
    ps.push(
        "r", [{"k": 1, "a": 2, "ts": 1}, {"k": 1, "a": 3, "ts": 1}, {"k": 2, "a": huge, "ts": 1}]
    )
    ps.push("s", [{"k": 1, "b": b, "ts": 1} for b in (1, 2, 9)])
    found = {x: sorted(map(tuple, q.view().to_pandas().values.tolist())) for x, q in times.items()}
    assert found == {2: [], 3: [(3, 1), (3, 2)], 4: [(2, 1), (2, 2), (3, 1), (3, 2)]}
    ps.push("s", [{"k": 2, "b": 9, "ts": 2}, {"k": 2, "b": 8, "ts": 2}])
    assert {q.status for q in times.values()} == {"running"}, "b rejects what has no value"
    ps.push("s", [{"k": 2, "b": 9, "ts": 3}, {"k": 2, "b": 1, "ts": 3}])
    ps.push("r", [{"k": 3, "a": 1, "ts": 4}])
    assert {x: q.status for x, q in times.items()} == {2: "running", 3: "running", 4: "failed"}
    assert times[3].view().num_rows == 3


def test_a_log_is_let_go_when_its_last_reader_is_gone(ps: Any) -> None:
    query = ps.query("SELECT a, b FROM r [RANGE 9], s [RANGE 9] WHERE r.k = s.k AND a > 0")
    other = ps.query("SELECT k FROM t [RANGE 5] WHERE c > 1")
    logs = ps._books.engine.sources
    ps.push("r", [{"k": 1, "a": 1, "ts": 0}, {"k": 1, "a": 1, "ts": 1}])
    ps.push("s", [{"k": 1, "b": 9, "ts": 1}])
    ps.push("t", [{"k": 1, "c": 9, "ts": 1}])
    assert [len(logs[name]) for name in "rst"] == [2, 1, 0]
    query.drop()
    ps.push("t", [{"k": 2, "c": 9, "ts": 2}])
    assert [len(logs[name]) for name in "rst"] == [0, 0, 0]
    assert other.view().num_rows == 2


def test_rows_that_pass_by_one_stream_are_not_stored(ps: Any) -> None:
    query = ps.query("SELECT k, a FROM r WHERE a > 2")
    room = ps._books.engine.sources["r"].scope["rows"].shape[0]
    rows = [{"k": i % 3 or None, "a": i % 5, "ts": i} for i in range(1000)]
    ps.push("r", rows)
    assert ps._books.engine.sources["r"].scope["rows"].shape[0] == room
    found = [(row["k"], row["a"]) for row in query.changes().to_pylist()]
    assert found == [(row["k"], row["a"]) for row in rows if row["a"] > 2]


def test_more_queries_than_a_pool_holds(ps: Any) -> None:
    text = "SELECT a, b FROM r [RANGE 5], s [RANGE 5] WHERE r.k = s.k AND a = $x"
    queries = ps.query_many(text, [{"x": i} for i in range(5000)])
    ps.push("r", [{"k": 1, "a": i, "ts": 0} for i in range(0, 5000, 7)])
    ps.push("s", [{"k": 1, "b": 3, "ts": 0}])
    found = [q.view().num_rows for q in queries]
    assert found == [int(i % 7 == 0) for i in range(5000)]


def test_a_template_with_very_many_queries_uses_its_index(ps: Any) -> None:
    text = "SELECT a FROM r [RANGE 5] WHERE a = $x"
    few = ps.query("SELECT a, k FROM r [RANGE 3] WHERE a > 2990")
    queries = ps.query_many(text, [{"x": i} for i in range(3000)])
    ps.push("r", [{"k": 1, "a": i, "ts": 0} for i in range(0, 3000, 3)])
    flow = ps.stats()["flows"][0]
    assert (flow["queries"], flow["pooled"]) == (3001, 1)
    assert sum(q.view().num_rows for q in queries) == 1000
    assert few.view().num_rows == 3
    for query in queries[:2500]:
        query.drop()
    ps.push("r", [{"k": 1, "a": 2999, "ts": 1}])
    assert ps.stats()["flows"][0]["pooled"] == 501
    assert queries[2999].view().num_rows == 1
    assert few.view().num_rows == 4


@pytest.mark.parametrize(
    ("queries", "tickets"),
    [
        (["a > 9", "k > 9"], 101.0),  # the filter on k is not there for the query that was taken
        (["a > 9 AND k > 9", "k > 9"], 21.0),  # the row visits it all the same
        (["a > 9 AND k > 9"], 101.0),  # the row is spared the visit
    ],
)
def test_a_filter_earns_most_where_it_spares_a_visit(queries: list[str], tickets: float) -> None:
    ps = penstock.connect(runner="inprocess", routing="fixed")
    ps.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    for where in queries:
        ps.query(f"SELECT k FROM r [RANGE 5] WHERE {where}")
    ps.push("r", [{"k": 10, "a": 0, "ts": 0} for _ in range(100)])
    (eddy,) = ps.stats()["flows"][0]["eddies"]
    found = {module["module"]: module["tickets"] for module in eddy["modules"]}
    assert found["filter a"] == tickets


def test_a_filter_before_a_join_earns_most_where_the_row_leaves() -> None:
    ps = penstock.connect(runner="inprocess", routing="fixed")
    for name, column in (("r", "a"), ("s", "b")):
        ps.sql(f"CREATE STREAM {name} (k INT, {column} BIGINT, ts BIGINT) TIMESTAMP BY ts")
    join = "SELECT r.a FROM r [RANGE 5], s [RANGE 5] WHERE r.k = s.k"
    ps.query(f"{join} AND a > 9")
    ps.query(f"{join} AND a > 99")
    ps.push("s", [{"k": 2, "b": 0, "ts": 0}])
    ps.push("r", [{"k": 1, "a": a, "ts": 1} for a in (0, 50) for _ in range(10)])
    ps.advance("s", 1)
    eddy = ps.stats()["flows"][0]["eddies"][0]
    found = {module["module"]: module["tickets"] for module in eddy["modules"]}
    assert found["filter a"] == 1 + 2 * 10 + 0.2 * 10


def test_rows_that_can_have_no_partner_are_not_routed(ps: Any) -> None:
    query = ps.query("SELECT a, b FROM r [RANGE 5], s [RANGE 3] WHERE r.k = s.k AND a > 0")
    ps.push("r", [{"k": 1, "a": 1, "ts": 0}, {"k": 1, "a": 2, "ts": 1}])
    ps.push("s", [{"k": 1, "b": 7, "ts": 1}])
    rows = [eddy["rows"] for eddy in ps.stats()["flows"][0]["eddies"]]
    assert rows == [0, 1], "no row of s comes before those of r"
    ps.advance(3)
    ps.push("r", [{"k": 1, "a": 3, "ts": 3}])
    ps.advance(4)
    ps.push("r", [{"k": 1, "a": 4, "ts": 4}])
    assert [eddy["rows"] for eddy in ps.stats()["flows"][0]["eddies"]] == [1, 1]
    assert [(row["a"], row["b"]) for row in query.changes().to_pylist()][:3] == [
        (1, 7), (2, 7), (3, 7),
    ]  # fmt: skip


def _indexed(ps: Any) -> dict[str, int]:
    return {stem["stream"]: stem["rows"] for stem in ps.stats()["stems"]}


def test_a_stem_is_built_when_it_is_probed(ps: Any) -> None:
    query = ps.query("SELECT a, b FROM r [RANGE 9], s [RANGE 9] WHERE r.k = s.k AND a > 0")
    ps.push("r", [{"k": i, "a": i, "ts": 0} for i in range(1, 4)])
    ps.push("s", [{"k": 1, "b": 7, "ts": 1}, {"k": 2, "b": 8, "ts": 1}])
    assert _indexed(ps) == {"r": 0, "s": 0}  # the clock has just reached r
    ps.push("r", [{"k": 9, "a": 9, "ts": 1}])
    assert _indexed(ps) == {"r": 4, "s": 0}  # rows of s have looked for those of r
    assert query.view().num_rows == 2
    ps.push("r", [{"k": 2, "a": 5, "ts": 2}])
    ps.push("s", [{"k": 9, "b": 9, "ts": 2}])
    assert _indexed(ps) == {"r": 5, "s": 3}
    found = {(row["a"], row["b"]) for row in query.view().to_pylist()}
    assert found == {(1, 7), (2, 8), (5, 8), (9, 9)}


def test_a_stem_that_nobody_probes_does_not_fall_behind_for_ever(
    ps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "_MOST_WAITING", 5)
    ps.query("SELECT a, b FROM r [RANGE 99], s [NOW] WHERE r.k = s.k AND a > 0")
    waiting = []
    for ts in range(12):
        ps.push("r", [{"k": ts, "a": 1, "ts": ts}])
        ps.advance("s", ts)
        waiting.append(ts + 1 - _indexed(ps)["r"])
    assert max(waiting) == 5
    assert min(waiting) == 0


def test_the_first_queries_of_a_template_have_their_place_before_rows_come(ps: Any) -> None:
    ps.query("SELECT k FROM r [RANGE 5] WHERE a > 1")
    assert ps.stats()["flows"][0]["pooled"] == 1
    ps.query_many("SELECT a FROM r [RANGE 5] WHERE a = $x", [{"x": i} for i in range(9)])
    assert ps.stats()["flows"][0]["pooled"] == 10


def test_explain_and_stats_show_what_the_eddy_learnt(ps: Any) -> None:
    query = ps.query("SELECT k FROM r [RANGE 5] WHERE a > 90 AND k < 2")
    ps.push("r", [{"k": i % 4, "a": i % 100, "ts": i} for i in range(400)])
    assert "flow of 1 template, 1 query" in query.explain()
    assert "visits each: filter" in query.explain()
    (eddy,) = ps.stats()["flows"][0]["eddies"]
    assert eddy["rows"] == 400
    assert 1 < eddy["visits_per_row"] < 2
    assert {m["module"] for m in eddy["modules"]} == {"filter a", "filter k"}


def test_an_unknown_routing_is_refused() -> None:
    with pytest.raises(PenstockError, match="PS-ROUTING-001"):
        penstock.connect(runner="inprocess", routing="best")


def test_a_row_at_the_same_instant_reaches_a_template_of_very_many_queries() -> None:
    """Another member of the flow takes the step first; the clock does not move."""
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    ps.query("SELECT a FROM r [RANGE 9] WHERE k = 7")
    many = ps.query_many(
        "SELECT a FROM r [RANGE 10] WHERE a > $x", [{"x": n} for n in range(1_025)]
    )
    for a, ts in ((5, 1), (6, 1), (7, 2)):
        ps.push("r", [{"k": 1, "a": a, "ts": ts}])
    assert many[0].view().column("a").to_pylist() == [5, 6, 7]


def test_a_batch_probes_a_stem_in_pieces_and_finds_the_same(
    ps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    take = lineage_group.LineageGroup._probe

    def counted(self: Any, batch: Any, *args: Any) -> Any:
        found = take(self, batch, *args)
        sizes.append(len(found) * self.words)
        return found

    monkeypatch.setattr(lineage_group.LineageGroup, "_probe", counted)
    query = ps.query(
        "SELECT r.a, s.b FROM r [RANGE 50] r JOIN s [RANGE 50] s ON r.k = s.k AND b > 2"
    )
    ps.push("s", [{"k": 1, "b": i, "ts": 1} for i in range(100)])
    for words in (1 << 22, 500):
        sizes.clear()
        monkeypatch.setattr(lineage_group, "_MOST_WORDS", words)
        ps.push("r", [{"k": 1, "a": i, "ts": 2} for i in range(200)])
        ps.advance(ts=2)
        assert query.changes().num_rows == 200 * 97
        assert sum(sizes) >= 200 * 97
        assert max(sizes) <= max(words, 64 * 100)
