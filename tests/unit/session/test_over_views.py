"""Standing queries over views: they begin with the view's present answer and follow it."""

import pytest

import penstock

STREAMS = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts;
"""


def connected(shards=None):
    options = {} if shards is None else {"shards": shards}
    ps = penstock.connect(runner="inprocess", **options)
    ps.sql(STREAMS)
    return ps


def push(ps, stream, *rows):
    column = {"r": "a", "s": "b"}[stream]
    ps.push(stream, [{"k": k, column: x, "ts": ts} for k, x, ts in rows])


def rows(query):
    return sorted(tuple(row.values()) for row in query.view().to_pylist())


COUNTS = "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 10] GROUP BY k"


@pytest.fixture(params=[None, 1, 2], ids=["engine", "one shard", "two shards"])
def ps(request):
    with connected(request.param) as session:
        yield session


def test_a_query_over_a_view_starts_from_its_present_answer(ps):
    v = ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1), (1, 6, 2), (2, 7, 3))
    q = ps.query("SELECT * FROM v")
    assert rows(q) == rows(v) == [(1, 2), (2, 1)]
    push(ps, "r", (1, 8, 4))
    assert rows(q) == rows(v) == [(1, 3), (2, 1)]
    ps.advance("r", 12)
    assert rows(q) == rows(v) == [(1, 1), (2, 1)]
    total = ps.query("SELECT sum(n) AS n FROM v")
    assert rows(total) == [(2,)]
    push(ps, "r", (3, 1, 13))
    assert rows(q) == rows(v) == [(1, 1), (3, 1)]
    assert rows(total) == [(2,)]
    assert "view v" in q.explain()


def test_before_the_first_row_a_view_is_planned_together_with_its_readers(ps):
    ps.sql(COUNTS)
    q = ps.query("SELECT max(n) AS most FROM v")
    assert "view v" not in q.explain().replace("view v [", "")
    push(ps, "r", (1, 5, 1), (1, 6, 2))
    assert rows(q) == [(2,)]
    ps.sql("DROP VIEW v")
    push(ps, "r", (1, 5, 3))
    assert rows(q) == [(3,)]


def test_queries_with_one_plan_share_it_whenever_they_come(ps):
    ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1), (1, 6, 2), (2, 7, 3))
    many = ps.query_many("SELECT k FROM v WHERE n >= $n", [{"n": 1}, {"n": 2}])
    assert [rows(q) for q in many] == [[(1,), (2,)], [(1,)]]
    push(ps, "r", (3, 5, 4))
    late = ps.query_many("SELECT k FROM v WHERE n >= $n", [{"n": 1}, {"n": 3}])
    assert [rows(q) for q in late] == [[(1,), (2,), (3,)], []]
    push(ps, "r", (1, 5, 5))
    assert [rows(q) for q in [*many, *late]] == [
        [(1,), (2,), (3,)], [(1,)], [(1,), (2,), (3,)], [(1,)],
    ]  # fmt: skip
    one, two = ps.query("SELECT k FROM v WHERE n > 1"), ps.query("SELECT k FROM v WHERE n > 0")
    assert (rows(one), rows(two)) == ([(1,)], [(1,), (2,), (3,)])
    status = ps.sql("SHOW QUERIES").to_pylist()
    assert len({row["template"] for row in status if row["name"] != "v"}) == 2


def test_views_over_views_follow_each_other(ps):
    ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1), (1, 6, 2), (2, 7, 3))
    ps.sql("CREATE MATERIALIZED VIEW w AS SELECT k, n FROM v WHERE n > 1")
    push(ps, "r", (2, 5, 4))
    x = ps.query("SELECT k FROM w")
    assert rows(x) == [(1,), (2,)]
    ps.advance("r", 13)
    assert rows(x) == []
    push(ps, "r", (2, 5, 13))
    assert rows(x) == [(2,)]


def test_a_view_joined_with_a_stream_that_lags(ps):
    ps.sql(COUNTS)
    ps.sql("CREATE TABLE names (k INT, name STRING); INSERT INTO names VALUES (1, 'one')")
    push(ps, "r", (1, 5, 1))
    q = ps.query(
        "SELECT v.n, s.b, name FROM v JOIN s [RANGE 4] s ON v.k = s.k JOIN names ON v.k = names.k"
    )
    push(ps, "s", (1, 9, 0))
    push(ps, "r", (1, 6, 5))
    assert rows(q) == []  # time of s has not reached what q begins with
    push(ps, "s", (1, 8, 2))
    assert rows(q) == [(1, 8, "one"), (1, 9, "one")]
    push(ps, "s", (2, 1, 5))
    assert rows(q) == [(2, 8, "one")]
    ps.sql("UPDATE names SET name = 'uno'")
    assert rows(q) == [(2, 8, "uno")]


def test_history_is_that_of_the_streams_the_query_names_itself(ps):
    ps.sql("CREATE STREAM h (k INT, c INT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
    push(ps, "r", (7, 7, 0))
    ps.push("h", [{"k": 1, "c": 3, "ts": 1}])
    v = ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1))
    ps.advance(ts=2)
    assert rows(ps.query("SELECT * FROM v", history=True)) == rows(v) == [(1, 1)]
    q = ps.query("SELECT n, c FROM v JOIN h [RANGE 10] h ON v.k = h.k", history=True)
    assert rows(q) == [(1, 3)]


def test_a_view_that_others_follow_is_dropped_after_them(ps):
    ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1))
    q = ps.query("SELECT * FROM v")
    with pytest.raises(penstock.PenstockError, match="v is read by q1") as error:
        ps.sql("DROP VIEW v")
    assert error.value.code == "PS-NAME-009"
    assert rows(q) == [(1, 1)]
    q.drop()
    assert q.changes().column("_change_type").to_pylist() == ["insert", "delete"]
    ps.sql("DROP VIEW v")
    assert ps.sql("SHOW QUERIES").num_rows == 0


def test_who_follows_a_view_that_fails_fails_with_it(ps):
    ps.sql("CREATE STREAM t (x STRING, ts BIGINT) TIMESTAMP BY ts")
    ps.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(x AS INT) AS x FROM t [RANGE 10]")
    ps.push("t", [{"x": "1", "ts": 1}])
    q = ps.query("SELECT * FROM v")
    ps.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(x) AS x FROM v")
    other = ps.query("SELECT count(*) AS n FROM t [RANGE 10]")
    assert rows(ps["w"]) == [(1,)]
    ps.push("t", [{"x": "two", "ts": 2}])
    ps.flush()
    assert (q.status, ps["w"].status, ps["v"].status) == ("failed",) * 3
    with pytest.raises(penstock.PenstockError, match="reads view v, which failed"):
        q.view()
    assert rows(other) == [(1,)]
    with pytest.raises(penstock.PenstockError, match="v failed"):
        ps.query("SELECT x + 1 AS x FROM v")
    q.drop()
    ps["w"].drop()
    ps["v"].drop()
    ps.push("t", [{"x": "3", "ts": 3}])
    assert rows(other) == [(2,)]


def test_a_view_that_shows_rows_with_their_queries(ps):
    ps.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k, a FROM r [RANGE 5] WHERE a > 1 "
        "EMIT CHANGES PER ROW"
    )
    push(ps, "r", (1, 5, 1), (1, 1, 1))
    q = ps.query("SELECT k, a FROM v")
    assert rows(q) == [(1, 5)]
    push(ps, "r", (1, 6, 2), (1, 0, 2))
    assert rows(q) == rows(ps["v"]) == [(1, 5), (1, 6)]
    ps.advance("r", 6)
    assert rows(q) == [(1, 6)]


def test_texts_that_differ_in_constants_are_known_again_once_the_view_has_begun(ps):
    ps.sql(COUNTS)
    before = ps.query("SELECT k FROM v WHERE n > 0")
    push(ps, "r", (1, 5, 1), (1, 6, 2), (2, 7, 3))
    after = [ps.query(f"SELECT k FROM v WHERE n > {n}") for n in range(3)]
    assert rows(before) == rows(after[0]) == [(1,), (2,)]
    assert [rows(q) for q in after[1:]] == [[(1,)], []]


def test_explain_of_a_select_over_a_view_that_has_begun(ps):
    ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1))
    assert "changes of view v" in ps.sql("EXPLAIN SELECT max(n) AS n FROM v")


def test_it_goes_on_after_a_restart(tmp_path):
    ps = penstock.connect(runner="inprocess", checkpoint=str(tmp_path))
    ps.sql(STREAMS)
    ps.sql(COUNTS)
    push(ps, "r", (1, 5, 1), (2, 5, 2))
    push(ps, "s", (1, 5, 1))
    ps.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT v.k, n, b FROM v JOIN s [RANGE 100] s ON v.k = s.k"
    )
    push(ps, "r", (1, 6, 3))
    ps.close()
    ps = penstock.connect(runner="inprocess", checkpoint=str(tmp_path))
    push(ps, "s", (1, 7, 2), (1, 8, 3))
    assert rows(ps["w"]) == [(1, 2, 7), (1, 2, 8)]
    ps.sql(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS w AS "
        "SELECT v.k, n, (b) FROM v JOIN s [RANGE 100] s ON v.k = s.k"
    )
    q = ps.query("SELECT sum(n) AS n FROM v")
    push(ps, "r", (1, 6, 4))
    push(ps, "s", (3, 8, 4))
    assert rows(ps["w"]) == [(1, 3, 7), (1, 3, 8)]
    assert rows(q) == [(4,)]
    with pytest.raises(penstock.PenstockError, match="v is read by"):
        ps.sql("DROP VIEW v")
    ps.close()


def test_what_shards_would_have_to_move_is_refused_with_the_remedy():
    with connected(2) as ps:
        joined = "r [RANGE 9] x JOIN s [RANGE 9] y ON x.k = y.k"
        text = f"SELECT x.a, count(*) AS n FROM {joined} GROUP BY x.a"
        ps.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        push(ps, "r", (1, 5, 1), (2, 6, 1))
        push(ps, "s", (1, 5, 1), (2, 6, 1))
        assert rows(ps.query("SELECT a FROM v WHERE n > 0")) == [(5,), (6,)]
        before = ps.stats()["templates"]
        with pytest.raises(penstock.PenstockError, match="on other shards") as error:
            ps.query("SELECT max(n) AS n FROM v")
        assert error.value.code == "PS-PLAN-008"
        assert ps.stats()["templates"] == before
        assert ps.sql("SELECT max(n) AS n FROM v").to_pylist() == [{"n": 1}]
