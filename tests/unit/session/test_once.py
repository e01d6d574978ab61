"""SELECT over views and tables, evaluated once by sql()."""

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.session import once
from penstock.sql.parser import parse_script

SETUP = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE TABLE names (k INT, name STRING);
CREATE TABLE rates (k INT, rate DOUBLE) NONRETROACTIVE;
INSERT INTO names VALUES (1, 'one'), (2, 'two'), (3, NULL);
INSERT INTO rates VALUES (1, 0.5);
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(a) AS total FROM r [RANGE 10] GROUP BY k;
CREATE MATERIALIZED VIEW w AS SELECT max(n) AS most FROM v;
CREATE MATERIALIZED VIEW passed AS SELECT k FROM r WHERE a > 1;
"""


@pytest.fixture(params=[None, 1, 2], ids=["engine", "one shard", "two shards"])
def ps(request):
    options = {} if request.param is None else {"shards": request.param}
    with penstock.connect(runner="inprocess", **options) as session:
        session.sql(SETUP)
        rows = [(1, 5, 1), (2, 7, 2), (1, 6, 3), (3, 1, 4)]
        session.push("r", [{"k": k, "a": a, "ts": ts} for k, a, ts in rows])
        yield session


def rows(table):
    assert isinstance(table, pa.Table)
    return [tuple(row.values()) for row in table.to_pylist()]


def test_it_gives_the_views_rows_now(ps):
    assert sorted(rows(ps.sql("SELECT * FROM v"))) == [(1, 2, 11), (2, 1, 7), (3, 1, 1)]
    assert rows(ps.sql("SELECT most FROM w")) == [(2,)]
    ps.advance("r", 12)
    assert sorted(rows(ps.sql("SELECT * FROM v"))) == [(1, 1, 6), (3, 1, 1)]
    assert ps.sql("SELECT * FROM v").schema == ps["v"].view().schema.remove_metadata()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT sum(n) AS n, count(*) AS ks FROM v", [(4, 3)]),
        ("SELECT name, n FROM v JOIN names USING (k) WHERE n > 1", [("one", 2)]),
        ("SELECT v.k FROM v JOIN w ON v.n = w.most", [(1,)]),
        ("SELECT n, count(*) AS c FROM v GROUP BY n HAVING count(*) > 1", [(1, 2)]),
        ("WITH b AS (SELECT k FROM v WHERE total > 6) SELECT k FROM b ORDER BY k", [(1,), (2,)]),
        ("SELECT k FROM names EXCEPT SELECT k FROM v WHERE k < 3", [(3,)]),
        ("SELECT k FROM v WHERE NOT EXISTS (SELECT 1 FROM names m WHERE m.k = v.k)", []),
        ("SELECT rate FROM rates", [(0.5,)]),
        ("SELECT V.K, rate FROM V LEFT JOIN rates USING (k) ORDER BY 1 LIMIT 2",
         [(1, 0.5), (2, None)]),
        ("SELECT k, total FROM v ORDER BY total DESC", [(1, 11), (2, 7), (3, 1)]),
        ("SELECT k, n FROM v ORDER BY n DESC, k DESC LIMIT 2", [(1, 2), (3, 1)]),
        ("SELECT k FROM v ORDER BY v.k LIMIT 99999999999999999999", [(1,), (2,), (3,)]),
        ("SELECT b.n, a.k FROM v a JOIN v b ON a.k = b.k ORDER BY a.k DESC LIMIT 1", [(1, 3)]),
        ("SELECT * FROM v ORDER BY V.k LIMIT 1", [(1, 2, 11)]),
        ("(SELECT k FROM v) ORDER BY k DESC LIMIT 1", [(3,)]),
        ("WITH v AS (SELECT k FROM v) SELECT max(k) AS k FROM v", [(3,)]),
        ("SELECT k FROM v ORDER BY 1 LIMIT 1 OFFSET 1", [(2,)]),
        ("SELECT name FROM names ORDER BY name", [(None,), ("one",), ("two",)]),
        ("SELECT name FROM names ORDER BY name DESC NULLS FIRST LIMIT 2", [(None,), ("two",)]),
        ("SELECT k FROM v UNION ALL SELECT k FROM names ORDER BY k DESC LIMIT 2", [(3,), (3,)]),
        ("SELECT k FROM v LIMIT 0", []),
    ],
)  # fmt: skip
def test_any_select_over_views_and_tables(ps, text, wanted):
    assert rows(ps.sql(text)) == wanted


def test_it_leaves_nothing_behind(ps):
    before = ps.sql("SHOW QUERIES")
    ps.sql("SELECT * FROM v")
    assert ps.sql("SHOW QUERIES") == before


def test_the_last_statement_of_a_script_counts(ps):
    table = ps.sql("INSERT INTO names VALUES (4, 'four'); SELECT count(*) AS n FROM names")
    assert rows(table) == [(4,)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM passed", "PS-VIEW-005"),
        ("SELECT * FROM v ORDER BY n + 1", "PS-SQL-026"),
        ("SELECT * FROM v ORDER BY x", "PS-NAME-002"),
        ("SELECT * FROM v ORDER BY 9", "PS-NAME-002"),
        ("SELECT k FROM v ORDER BY w.k", "PS-NAME-002"),
        ("SELECT a.k, b.k FROM v a JOIN v b ON a.k = b.k ORDER BY b.n", "PS-NAME-002"),
        ("SELECT * FROM v ORDER BY k WITH FILL", "PS-SQL-024"),
        ("SELECT * FROM v LIMIT 10 PERCENT", "PS-SQL-024"),
        ("SELECT * FROM v LIMIT 1 BY k", "PS-SQL-024"),
        ("SELECT * FROM v FETCH FIRST 2 ROWS ONLY", "PS-SQL-026"),
        ("(SELECT k FROM v ORDER BY n LIMIT 2) ORDER BY k", "PS-SQL-001"),
        ("(SELECT k FROM r [RANGE 5]) LIMIT 1", "PS-SQL-011"),
        ("SELECT * FROM v LIMIT n", "PS-SQL-026"),
        ("SELECT k FROM (SELECT k FROM v LIMIT 1) x", "PS-SQL-011"),
        ("SELECT x FROM v", "PS-NAME-002"),
        ("SELECT k FROM v WHERE k = $k", "PS-SQL-025"),
        ("SELECT k FROM r [RANGE 5] ORDER BY k", "PS-SQL-010"),
        ("SELECT k FROM v [RANGE 5]", "PS-SQL-020"),
        ("SELECT k FROM nothing", "PS-NAME-001"),
        ("SELECT CAST(name AS INT) AS x FROM names", "PS-RUN-001"),
    ],
)
def test_what_it_refuses(ps, text, code):
    with pytest.raises(penstock.PenstockError) as error:
        ps.sql(text)
    assert error.value.code == code


def test_a_select_that_reads_a_stream_is_standing(ps):
    query = ps.sql("SELECT r.k, n FROM r [RANGE 5] r JOIN v ON r.k = v.k")
    assert isinstance(query, penstock.Query)
    assert isinstance(ps.sql("SELECT k FROM passed [RANGE 5]"), penstock.Query)
    assert isinstance(ps.sql("SELECT * FROM v EMIT ON COMMIT"), penstock.Query)
    assert isinstance(ps.query("SELECT * FROM names"), penstock.Query)


def test_functions_of_the_users_are_known(ps):
    ps.register_udf("minus", pc.negate, ["BIGINT"], "BIGINT")
    assert rows(ps.sql("SELECT minus(n) AS n FROM v WHERE k = 1")) == [(-2,)]


def test_a_failed_view_is_said_to_have_failed(ps):
    ps.sql("CREATE MATERIALIZED VIEW bad AS SELECT CAST(name AS INT) AS x FROM names")
    with pytest.raises(penstock.PenstockError, match="bad failed"):
        ps.sql("SELECT * FROM bad")


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("x", [None, -math.inf, 0.0, math.inf, "nan"]),
        ("x DESC", ["nan", math.inf, 0.0, -math.inf, None]),
        ("x NULLS LAST", [-math.inf, 0.0, math.inf, "nan", None]),
        ("x DESC NULLS FIRST", [None, "nan", math.inf, 0.0, -math.inf]),
    ],
)
def test_nan_is_the_largest_number_as_it_is_for_max(order, wanted):
    with penstock.connect(runner="inprocess") as ps:
        ps.sql("CREATE STREAM s (x DOUBLE, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM s [RANGE 9]")
        ps.push("s", [{"x": x, "ts": 1} for x in (0.0, math.nan, None, math.inf, -math.inf)])
        found = ps.sql(f"SELECT x FROM v ORDER BY {order}")["x"].to_pylist()
        assert ["nan" if x != x else x for x in found] == wanted


def test_a_view_that_another_thread_drops_meanwhile_is_missed(ps):
    (select,) = parse_script("SELECT * FROM w")
    ps.sql("DROP VIEW w")
    with pytest.raises(penstock.PenstockError) as error:
        once.answer(ps._books, ps._runner, select)
    assert error.value.code == "PS-NAME-001"


def test_explain_of_a_select_with_order_and_limit(ps):
    text = ps.sql("EXPLAIN SELECT k, n FROM v WHERE n > 0 ORDER BY n DESC, k LIMIT 2 OFFSET 1")
    head, parameters, *tree = text.splitlines()
    assert head == (
        "evaluated once, over the rows that are there; then ORDER BY n DESC, k LIMIT 2 OFFSET 1"
    )
    assert parameters == "parameters: $1 BIGINT = 0"
    assert any("table v" in line for line in tree)
    assert ps.sql("EXPLAIN SELECT k FROM v LIMIT 1").startswith("evaluated once")
    assert ps.sql("SHOW QUERIES").num_rows == 3  # it registers none


def test_explain_refuses_what_the_select_would(ps):
    with pytest.raises(penstock.PenstockError, match="the answer has no column m"):
        ps.sql("EXPLAIN SELECT k FROM v ORDER BY m")
    with pytest.raises(penstock.PenstockError, match="passed keeps no rows"):
        ps.sql("EXPLAIN SELECT k FROM passed ORDER BY k")
    with pytest.raises(penstock.PenstockError, match="ORDER BY"):
        ps.sql("EXPLAIN SELECT k FROM r [RANGE 5] ORDER BY k")
