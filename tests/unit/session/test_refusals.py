"""What a session refuses, and that it says why: names, constants, statements that fail."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    DataError,
    NameError_,
    PenstockError,
    Place,
    PlanError,
    SqlSyntaxError,
    StateError,
)


@pytest.fixture
def ps():
    with penstock.connect(runner="inprocess") as session:
        session.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        session.sql("CREATE TABLE t (k INT, b BIGINT)")
        yield session


def nrr_answers(text, off):
    with penstock.connect(runner="inprocess", optimizer_off=off) as ps:
        ps.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE TABLE n (k INT, v STRING) NONRETROACTIVE")
        query = ps.query(text)
        answers = []
        for ts, (a, v) in enumerate([(1, "x"), (2, "y"), (1, "z"), (3, "w")], 1):
            ps.push("r", [{"k": 1, "a": a, "ts": ts}])
            ps.sql(f"INSERT INTO n VALUES (1, '{v}')")
            answers.append(sorted(map(str, query.view().to_pylist())))
        return answers


@pytest.mark.parametrize(
    "stream",
    [
        "(SELECT k, count(*) AS c FROM r [RANGE 10] GROUP BY k)",
        "(SELECT DISTINCT k, a FROM r [RANGE 10])",
        "(SELECT k, a FROM r [RANGE 10] EXCEPT SELECT k, a FROM r [RANGE 1])",
        "(SELECT k, a FROM r [RANGE 10] INTERSECT SELECT k, a FROM r [RANGE 5])",
        "r [PARTITION BY a ROWS 1]",
        "(SELECT * FROM r [RANGE 9] WHERE a NOT IN (SELECT a FROM r [RANGE 2] z))",
    ],
)
def test_pruning_keeps_what_meets_a_nonretroactive_table(stream):
    text = f"SELECT x.k, n.v FROM {stream} x JOIN n ON x.k = n.k"
    assert nrr_answers(text, frozenset()) == nrr_answers(text, "all")


@pytest.mark.parametrize("qid", ["r", "T", "v", "q"])
def test_names_of_query_many_are_free(ps, qid):
    ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 5]")
    ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $x", [{"qid": "q", "x": 1}])
    with pytest.raises(NameError_, match="already exists"):
        ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $x", [{"qid": qid, "x": 1}])


def test_names_of_query_many_are_there_and_differ(ps):
    text = "SELECT k FROM r [RANGE 5] WHERE a > $x"
    with pytest.raises(DataError, match="NULL"):
        ps.query_many(text, pa.table({"qid": ["a", None], "x": [1, 2]}))
    with pytest.raises(NameError_, match="the qid a twice"):
        ps.query_many(text, pa.table({"qid": ["a", "a"], "x": [1, 2]}))
    assert ps.stats()["templates"] == 0


@pytest.mark.parametrize(
    "sql",
    ["UPDATE t SET b = b * 4", "UPDATE t SET k = b", "DELETE FROM t WHERE b * 4 > 0"],
)
def test_a_statement_that_fails_changes_nothing(ps, sql):
    ps.sql(f"INSERT INTO t VALUES (1, {2**62}), (2, 1)")
    before = ps.query("SELECT * FROM t").view()
    with pytest.raises(DataError, match=r"PS-DATA-006.*1 rows.*overflow"):
        ps.sql(sql)
    assert ps.query("SELECT * FROM t").view() == before


@pytest.mark.parametrize("value", ["10000000000", "99999999999999999999", "'x'", "1.5", "1e300"])
def test_a_constant_that_does_not_fit_is_refused(ps, value):
    with pytest.raises(PenstockError):
        ps.sql(f"INSERT INTO t VALUES ({value}, 1)")


@pytest.mark.parametrize("name", ["abs", "SUBSTRING", "sum", "now", "if"])
def test_built_in_functions_cannot_be_replaced(ps, name):
    with pytest.raises(NameError_, match="built-in"):
        ps.register_udf(name, lambda x: x, ["INT"], "INT")


def test_changelog_columns_are_no_output_names(ps):
    for sql in (
        "SELECT k AS _time FROM r [RANGE 5]",
        "SELECT * FROM (SELECT k AS _Batch FROM r [RANGE 5]) x",
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS _seq FROM r [RANGE 5]",
    ):
        with pytest.raises(NameError_, match="reserved") as caught:
            ps.sql(sql)
        assert caught.value.place is not None
    ps.query("SELECT y.z FROM (SELECT k AS z, a AS _time FROM r [RANGE 5]) y")


def test_decimals_of_different_scales_compare_without_overflow(ps):
    ps.sql("CREATE STREAM d (x DECIMAL(10,2), y DECIMAL(18,0), ts BIGINT) TIMESTAMP BY ts")
    query = ps.query("SELECT x FROM d [RANGE 5] WHERE x < y AND y <> 1.25 AND y NOT IN (2.5, x)")
    ps.push("d", [{"x": 1.5, "y": 10**17, "ts": 1}, {"x": 1.5, "y": 1, "ts": 1}])
    assert query.status != "failed"
    assert query.view().num_rows == 1


def test_casts_of_constants_round_like_those_of_columns(ps):
    ps.sql("CREATE STREAM f (x DOUBLE, y DECIMAL(4,1), ts BIGINT) TIMESTAMP BY ts")
    query = ps.query(
        "SELECT CAST(x AS INT) a, CAST(2.5e0 AS INT) b, CAST(y AS INT) c, CAST(2.5 AS INT) d "
        "FROM f [RANGE 5]"
    )
    ps.push("f", [{"x": 2.5, "y": 2.5, "ts": 1}])
    assert query.view().to_pylist() == [{"a": 2, "b": 2, "c": 3, "d": 3}]


def test_a_checkpoint_needs_a_name():
    with pytest.raises(StateError, match="is empty"):
        penstock.connect(runner="inprocess", checkpoint="")


def test_a_name_that_is_not_there_is_not_its_own_remedy(ps):
    with pytest.raises(NameError_, match="did you mean r\\?"):
        ps.query("SELECT * FROM rr [RANGE 5]")
    with pytest.raises(NameError_, match="CREATE it first"):
        ps.query("SELECT * FROM nowhere [RANGE 5]")


@pytest.mark.parametrize("shards", [None, 2])
def test_a_band_outside_bigint_is_refused_and_leaves_nothing(shards):
    ps = penstock.connect(runner="inprocess", shards=shards)
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    most = 2**63 - 1
    for window in ("ROWS 5", "RANGE 5"):
        text = f"SELECT r.k FROM r [{window}] JOIN s [{window}] ON r.a > s.a + {most} + {most}"
        with pytest.raises(PlanError, match="outside BIGINT"):
            ps.query(text)
    q = ps.query("SELECT r.k FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k WHERE r.a > 7")
    for name in ("r", "s"):
        ps.push(name, [{"k": 1, "a": 8, "ts": 1}])
    assert q.view().to_pylist() == [{"k": 1}]


_TYPED = (
    "CREATE STREAM p (k INT, m DECIMAL(6,2), f FLOAT, d DATE, c STRING, ts BIGINT) TIMESTAMP BY ts"
)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("k", 2.5),
        ("k", "x"),
        ("k", 2**31),
        ("k", 10**30),
        ("k", True),
        ("k", [1]),
        ("k", object()),
        ("m", Decimal("1.234")),
        ("m", 1.234),
        ("f", 1e300),
        ("d", dt.datetime(2024, 2, 29, 12)),
        ("c", "\ud800"),
    ],
)
@pytest.mark.parametrize("shards", [None, 2])
def test_a_parameter_that_would_change_in_its_type_is_refused(shards, column, value):
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql(_TYPED)
        text = f"SELECT k FROM p [RANGE 5] WHERE {column} = $x"
        with pytest.raises(DataError) as caught:
            ps.query_many(text, [{"x": value}])
        assert caught.value.remedy
        assert ps.stats()["templates"] == 0


def test_parameters_come_as_any_table(ps):
    ps.sql(_TYPED)
    text = "SELECT k FROM p [RANGE 5] WHERE m >= $x"
    for params in (
        [{"x": 1}, {}, {"x": 2.5}],
        pa.table({"x": [1, 2, 3]}),
        pd.DataFrame({"x": [1.0, np.nan, 2.5]}),
        pa.table({"x": pa.array([Decimal("1.5"), None, None]).dictionary_encode()}),
    ):
        assert len(ps.query_many(text, params)) == 3
    assert len(ps.query_many(text, [])) == 0
    with pytest.raises(DataError, match="x of params is given twice"):
        ps.query_many(text, pa.Table.from_arrays([pa.array([1])] * 2, names=["x", "x"]))


@pytest.mark.parametrize("call", ["query", "sql"])
def test_what_is_no_text_is_refused(ps, call):
    with pytest.raises(SqlSyntaxError, match="expected SQL text, got a NoneType"):
        getattr(ps, call)(None)


@pytest.mark.parametrize("ts", [1.5, True, 2**80, float("nan"), "x", None])
def test_what_is_no_event_time_is_refused(ps, ts):
    with pytest.raises(PenstockError, match="PS-DATA-005"):
        ps.advance("r", ts)


@pytest.mark.parametrize("shards", [0, -1, 1.5, "two", True])
def test_what_is_no_number_of_shards_is_refused(shards):
    with pytest.raises(PenstockError, match="PS-RUNNER-004"):
        penstock.connect(runner="inprocess", shards=shards)


def test_functions_can_be_called(ps):
    with pytest.raises(PenstockError, match="cannot register"):
        ps.register_udf("f", None, ["INT"], "INT")


def test_a_long_condition_is_not_a_deep_one(ps):
    some = ps.query(
        "SELECT k FROM r [RANGE 5] WHERE " + " OR ".join(f"a = {i}" for i in range(2000))
    )
    none = ps.query(
        "SELECT k FROM r [RANGE 5] WHERE " + " AND ".join(f"a <> {i}" for i in range(999))
    )
    ps.push("r", [{"k": 1, "a": 1500, "ts": 1}, {"k": 2, "a": 7, "ts": 1}, {"k": 3, "ts": 1}])
    assert sorted(some.view()["k"].to_pylist()) == [1, 2]
    assert none.view()["k"].to_pylist() == [1]


@pytest.mark.parametrize("times", [400, 3000])
def test_a_text_that_nests_too_deeply_is_refused(ps, times):
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        ps.query(f"SELECT k{' + 1' * times} AS k FROM r [RANGE 5]")


def test_the_least_bigint_is_a_constant(ps):
    least = -(2**63)
    queries = [
        ps.query(f"SELECT k FROM r [RANGE 5] WHERE a {op} {least}") for op in ("=", ">", "<>", "<=")
    ]
    queries.append(ps.query("SELECT k FROM r [RANGE 5] WHERE a = -9223372036854775807"))
    ps.push("r", [{"k": 1, "a": least, "ts": 1}, {"k": 2, "a": least + 1, "ts": 1}])
    assert [q.view()["k"].to_pylist() for q in queries] == [[1], [2], [2], [1], [2]]
    with pytest.raises(PenstockError, match="PS-TYPE-006"):
        ps.query(f"SELECT k FROM r [RANGE 5] WHERE a = {2**63}")


def test_constants_of_an_insert_are_judged_like_rows_of_a_stream(ps):
    ps.sql("CREATE TABLE w (m DECIMAL(6,2), f FLOAT, d DATE)")
    ps.sql("INSERT INTO w VALUES (1, 1, '2024-02-29'), (-2.5, 5e-1, NULL)")
    rows = ps.query("SELECT m, f FROM w").view().to_pylist()
    assert sorted((row["m"], row["f"]) for row in rows) == [(Decimal("-2.50"), 0.5), (1, 1.0)]
    with pytest.raises(PenstockError, match="PS-TYPE-006"):
        ps.sql("INSERT INTO w (f) VALUES (CAST(1e300 AS FLOAT))")
    for column, value in (
        ("m", "1.255"),
        ("m", "1.255e0"),
        ("m", "12345"),
        ("f", "1e300"),
        ("f", "-4e38"),
        ("d", "TIMESTAMP '2024-02-29 12:00:00'"),
    ):
        with pytest.raises(PenstockError, match="does not fit column"):
            ps.sql(f"INSERT INTO w ({column}) VALUES ({value})")


def test_columns_of_a_table_are_named_in_any_case_and_once(ps):
    ps.sql("INSERT INTO T (B, K) VALUES (2, 1)")
    ps.sql("UPDATE t SET B = b + 1 WHERE K = 1")
    assert ps.query("SELECT k, b FROM t").view().to_pylist() == [{"k": 1, "b": 3}]
    for sql in ("INSERT INTO t (k, K) VALUES (1, 2)", "UPDATE t SET b = 1, B = 2"):
        with pytest.raises(NameError_, match="is named twice"):
            ps.sql(sql)
    with pytest.raises(NameError_, match="its columns are k, b"):
        ps.sql("UPDATE t SET c = 1")


def test_half_a_character_is_refused_where_it_stands(ps):
    with pytest.raises(SqlSyntaxError, match="half of a surrogate pair") as caught:
        ps.query("SELECT k FROM r [RANGE 5]\nWHERE 'ä' = '\ud800'")
    assert (caught.value.place.line, caught.value.place.column) == (2, 14)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM r [RANGE 5] WHERE a = NULL",
        "SELECT k FROM r [RANGE 5] WHERE (NULL) <> a",
        "SELECT k FROM r [RANGE 5] WHERE k > 1 AND NOT (a != NULL)",
        "SELECT k FROM r [RANGE 5] WHERE a >= NULL",
        "SELECT a = NULL AS x FROM r [RANGE 5]",
        "SELECT CASE a WHEN NULL THEN 1 END AS x FROM r [RANGE 5]",
        "SELECT k FROM r [RANGE 5] GROUP BY k HAVING max(a) = NULL",
        "SELECT r.k FROM r [RANGE 5] JOIN t ON r.k = t.k AND t.b = NULL",
        "SELECT r.k FROM r [RANGE 5] LEFT JOIN t ON r.k = NULL",
        "SELECT k FROM r [RANGE 5] WHERE k IN (SELECT k FROM t WHERE b = NULL)",
        "UPDATE t SET b = 1 WHERE b = NULL",
        "DELETE FROM t WHERE b = NULL",
    ],
)
def test_a_comparison_with_null_is_refused_and_the_remedy_named(ps, sql):
    with pytest.raises(PenstockError, match=r"PS-TYPE-012[\s\S]*IS NULL") as caught:
        ps.sql(sql)
    assert caught.value.place is not None


def test_null_is_welcome_where_it_means_something(ps):
    ps.sql("INSERT INTO t VALUES (1, 2)")
    ps.sql("UPDATE t SET b = NULL WHERE k = 1")
    table = ps.query("SELECT k FROM t WHERE b IS NOT DISTINCT FROM NULL")
    some = ps.query_many("SELECT k FROM r [RANGE 5] WHERE a = $a", [{"a": None}, {"a": 1}])
    ps.query("SELECT k FROM r [RANGE 5] WHERE a IN (1, NULL) OR nullif(a, k) IS NULL")
    ps.query("SELECT k FROM r [RANGE 5] WHERE a = CAST(NULL AS INT)")
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    assert table.view().num_rows == 1
    assert [query.view().num_rows for query in some] == [0, 1]


@pytest.mark.parametrize("name", ["NUMERIC", "DECIMAL", "decimal"])
def test_a_decimal_without_digits_is_refused_rather_than_rounding(ps, name):
    for sql in (
        f"SELECT sum(a)::{name} AS s FROM r [RANGE 5]",
        f"SELECT CAST(a AS {name}) AS s FROM r [RANGE 5]",
        f"CREATE TABLE d (x {name})",
    ):
        with pytest.raises(PenstockError, match=r"PS-TYPE-013[\s\S]*\(18, 2\)") as caught:
            ps.sql(sql)
        assert caught.value.place is not None
    ps.query(f"SELECT sum(a)::{name}(18, 2) AS s, CAST(a AS {name}(9)) AS w FROM r [RANGE 5] "
             "GROUP BY a")  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER STREAM nope PAUSE",
        "ALTER STREAM nope SET RETAIN 5",
        "SHOW LATE nope",
        "SHOW QUARANTINE nope",
        "DROP VIEW nope",
        "DESCRIBE nope",
        "EXPLAIN nope",
        "CREATE SINK o FROM nope INTO console",
        "INSERT INTO nope VALUES (1)",
        "CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts",
    ],
)
@pytest.mark.parametrize("shards", [None, 2])
def test_an_error_about_a_name_says_in_which_statement(statement, shards):
    options = {} if shards is None else {"shards": shards}
    with penstock.connect(runner="inprocess", **options) as ps:
        ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
        with pytest.raises(NameError_) as caught:
            ps.sql(f"SHOW STREAMS;\n  {statement}")
        assert caught.value.place == Place(2, 3)
