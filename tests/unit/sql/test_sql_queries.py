"""Subqueries, grouping, set operations, WITH and views."""

from __future__ import annotations

import pytest
from sql_world import plan, refused, shape

from penstock.logical.nodes import GroupBy, walk
from penstock.types import BIGINT, DOUBLE, INT, STRING, decimal


# ---- EXISTS and IN -------------------------------------------------------------------
def test_exists_is_a_semi_join() -> None:
    sql = (
        "SELECT k FROM r [NOW] WHERE a > 1 AND EXISTS "
        "(SELECT * FROM s [NOW] WHERE s.k = r.k AND s.a > 5 AND s.p > r.p)"
    )
    assert shape(sql) == "π(k)[semi(0=0 if (p > p))[σ((a > 1))[r], σ((a > 5))[s]]]"


def test_not_exists_is_an_anti_join() -> None:
    for negation in ("NOT EXISTS ({})", "NOT (EXISTS ({}))", "NOT (NOT (NOT EXISTS ({})))"):
        sql = "SELECT * FROM u [NOW] WHERE " + negation.format("SELECT 1 FROM s [NOW]")
        assert shape(sql) == "anti()[u, s]"


def test_correlation_by_band_and_expression() -> None:
    sql = "SELECT * FROM u [NOW] WHERE NOT EXISTS (SELECT 1 FROM s [NOW] WHERE s.b >= u.v)"
    assert shape(sql) == "anti( band 1,2)[u, s]"
    sql = "SELECT * FROM u [NOW] WHERE EXISTS (SELECT 1 FROM s [NOW] WHERE s.k + 1 = u.k * 2)"
    assert shape(sql) == (
        "π(k, v, t)[semi(3=7)[π(k, v, t, (CAST(k AS BIGINT) * 2))[u], "
        "π(k, a, b, p, d, name, ts, (k + 1))[s]]]"
    )


def test_in_is_a_semi_join_on_the_value() -> None:
    assert shape("SELECT * FROM u [NOW] WHERE k IN (SELECT a FROM s [NOW])") == (
        "semi(0=0)[u, π(a)[s]]"
    )
    sql = "SELECT * FROM u [NOW] WHERE k IN (SELECT a FROM s [NOW] WHERE s.b = u.v)"
    assert shape(sql) == "semi(0=1,1=2)[u, s]"
    sql = "SELECT * FROM u [NOW] WHERE (k, v) IN (SELECT a, k FROM s [NOW])"
    assert shape(sql) == "semi(0=0,1=1)[u, π(a, k)[s]]"


def test_in_of_grouped_and_combined_subqueries() -> None:
    sql = "SELECT * FROM u [NOW] WHERE k IN (SELECT max(a) FROM s [NOW] GROUP BY name)"
    assert shape(sql) == "semi(0=0)[u, π(max_0)[γ(5; max(a))[s]]]"
    sql = "SELECT * FROM u [NOW] WHERE k IN (SELECT k FROM r [NOW] UNION SELECT v FROM u [NOW])"
    assert shape(sql) == "semi(0=0)[u, union[π(k)[r], π(v)[u]]]"


def test_not_in_follows_sql_for_nulls() -> None:
    sql = "SELECT * FROM u [NOW] WHERE k NOT IN (SELECT a FROM s [NOW] WHERE s.b = u.v)"
    assert shape(sql) == (
        "union all["
        "anti(1=2)[anti(0=1,1=2)[σ(is_not_null(k))[u], s], σ(is_null(a))[s]], "
        "anti(1=2)[σ(is_null(k))[u], s]]"
    )


def test_uncorrelated_not_in() -> None:
    sql = "SELECT * FROM u [NOW] WHERE NOT k IN (SELECT a FROM s [NOW])"
    assert shape(sql) == (
        "union all[anti()[anti(0=0)[σ(is_not_null(k))[u], π(a)[s]], σ(is_null(a))[π(a)[s]]], "
        "anti()[σ(is_null(k))[u], π(a)[s]]]"
    )


def test_subqueries_nest() -> None:
    sql = (
        "SELECT * FROM u [NOW] WHERE EXISTS (SELECT 1 FROM s [NOW] WHERE s.k = u.k AND NOT EXISTS "
        "(SELECT 1 FROM tab WHERE tab.k = s.a))"
    )
    assert shape(sql) == "semi(0=0)[u, anti(1=0)[s, tab]]"


SUBQUERY = "(SELECT max(a) FROM s [NOW])"


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        (f"SELECT {SUBQUERY} FROM r [NOW]", "PS-SQL-016", "1:16"),
        (f"SELECT * FROM r [NOW] WHERE a > {SUBQUERY}", "PS-SQL-016", "1:41"),
        (
            "SELECT * FROM r [NOW] WHERE a > 1 OR EXISTS (SELECT 1 FROM s [NOW])",
            "PS-SQL-016", "1:38",
        ),
        (
            "SELECT k FROM r [NOW] GROUP BY k HAVING k IN (SELECT k FROM s [NOW])",
            "PS-SQL-016", "1:41",
        ),
        ("SELECT * FROM r [NOW] WHERE a > ALL (SELECT a FROM s [NOW])", "PS-SQL-016", "1:33"),
        (
            "SELECT * FROM r [NOW] WHERE a IN (SELECT max(a) FROM s [NOW] WHERE s.k = r.k)",
            "PS-SQL-017", "1:42",
        ),
        (
            "SELECT * FROM r [NOW] WHERE EXISTS (SELECT s.k FROM s [NOW] WHERE s.k = r.k "
            "GROUP BY s.k)",
            "PS-SQL-017", "1:44",
        ),
        (
            "SELECT * FROM u [NOW] WHERE (k, v) NOT IN (SELECT a, k FROM s [NOW])",
            "PS-SQL-017", "1:30",
        ),
        ("SELECT * FROM r [NOW] WHERE k IN (SELECT k, a FROM s [NOW])", "PS-TYPE-005", "1:29"),
        ("SELECT * FROM r [NOW] WHERE name IN (SELECT k FROM s [NOW])", "PS-TYPE-002", "1:29"),
        ("SELECT * FROM r [NOW] JOIN s [NOW] ON EXISTS (SELECT 1 FROM tab)", "PS-SQL-016", "1:39"),
    ],
)  # fmt: skip
def test_refused_subqueries(sql: str, code: str, place: str) -> None:
    refused(sql, code, place)


# ---- GROUP BY ------------------------------------------------------------------------
def test_columns_are_grouped_as_they_are() -> None:
    sql = "SELECT k, count(*) AS n FROM u [NOW] GROUP BY k HAVING count(*) > 100"
    assert shape(sql) == "π(k, count_0)[σ((count_0 > 100))[γ(0; count(*))[u]]]"


def test_expressions_are_projected_below() -> None:
    sql = (
        "SELECT k % 2, sum(v + 1), sum(v) FILTER (WHERE k > 3), count(DISTINCT v), min(DISTINCT v) "
        "FROM u [NOW] GROUP BY k % 2"
    )
    node = plan(sql)
    (group,) = [n for n in walk(node) if isinstance(n, GroupBy)]
    assert [str(a) for a in group.aggs] == [
        "sum(_expr1)", "sum(v) FILTER (WHERE _expr3)", "count(DISTINCT v)", "min(v)",
    ]  # fmt: skip
    assert group.keys == (0,)
    assert node.schema.names == ("col1", "sum", "sum_1", "count", "min")


def test_keys_by_position_alias_and_expression() -> None:
    expected = "π(_expr0, count_0)[γ(0; count(*))[π((CAST(k AS BIGINT) % 2))[u]]]"
    for key in ("1", "x", "k % 2", "(k % 2)", "1, x"):
        assert shape(f"SELECT k % 2 AS x, count(*) FROM u [NOW] GROUP BY {key}") == expected


def test_a_column_wins_over_an_alias() -> None:
    sql = "SELECT v AS k, count(*) AS n FROM u [NOW] GROUP BY v, k"
    assert shape(sql).startswith("π(v, count_0)[γ(1,0;")


def test_having_may_use_aliases_and_other_aggregates() -> None:
    sql = "SELECT k, sum(v) AS total FROM u [NOW] GROUP BY k HAVING total > 5 AND max(v) < 3"
    assert shape(sql) == ("π(k, sum_0)[σ(((sum_0 > 5) AND (max_1 < 3)))[γ(0; sum(v), max(v))[u]]]")


def test_expressions_over_aggregates_and_keys() -> None:
    sql = "SELECT k + 1 + sum(v) / count(*) FROM u [NOW] GROUP BY k"
    assert shape(sql).startswith(
        "π((CAST((CAST(k AS BIGINT) + 1) AS DOUBLE) + (CAST(sum_0 AS DOUBLE)"
    )


def test_no_keys_and_no_aggregates() -> None:
    assert shape("SELECT count(*) AS n, sum(v) FROM u [NOW]") == (
        "π(count_0, sum_1)[γ(; count(*), sum(v))[u]]"
    )
    assert shape("SELECT k FROM u [NOW] GROUP BY k") == "distinct[π(k)[u]]"
    assert shape("SELECT DISTINCT k FROM u [NOW]") == "distinct[π(k)[u]]"
    assert shape("SELECT DISTINCT count(*) AS count_0 FROM u [NOW] GROUP BY k") == (
        "distinct[π(count_0)[γ(0; count(*))[u]]]"
    )


def test_types_of_aggregates() -> None:
    sql = (
        "SELECT count(*), count(name), sum(a), sum(b), sum(p), sum(d), avg(a), stddev(d), "
        "stddev_samp(p), median(a), min(name), max(d), sum(DISTINCT a), avg(DISTINCT p) "
        "FROM r [NOW]"
    )
    assert plan(sql).schema.types == (
        BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE, decimal(18, 2), DOUBLE, DOUBLE, DOUBLE, DOUBLE,
        STRING, decimal(10, 2), BIGINT, DOUBLE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("SELECT k, v FROM u [NOW] GROUP BY k", "PS-NAME-006", "1:11"),
        ("SELECT k, count(*) FROM u [NOW]", "PS-NAME-006", "1:8"),
        ("SELECT k FROM u [NOW] GROUP BY 2", "PS-NAME-002", "1:32"),
        ("SELECT k FROM u [NOW] GROUP BY k HAVING v > 1", "PS-NAME-006", "1:41"),
        ("SELECT sum(count(*)) FROM u [NOW]", "PS-SQL-021", "1:12"),
        ("SELECT count(*) AS n FROM u [NOW] GROUP BY n", "PS-SQL-021", "1:8"),
        ("SELECT sum(name) FROM r [NOW]", "PS-TYPE-001", "1:8"),
        ("SELECT sum(*) FROM u [NOW]", "PS-TYPE-005", "1:8"),
        ("SELECT count(DISTINCT k, v) FROM u [NOW]", "PS-SQL-024", "1:8"),
        ("SELECT k FROM u [NOW] GROUP BY ROLLUP (k)", "PS-SQL-015", "1:40"),
        ("SELECT k FROM u [NOW] GROUP BY GROUPING SETS ((k), (v))", "PS-SQL-015", "1:48"),
        ("SELECT sum(v) OVER (PARTITION BY k) FROM u [NOW]", "PS-SQL-012", "1:8"),
        ("SELECT upper(k) FILTER (WHERE k > 1) FROM u [NOW]", "PS-SQL-024", "1:8"),
    ],
)
def test_refused_grouping(sql: str, code: str, place: str) -> None:
    refused(sql, code, place)


# ---- set operations, WITH, views -----------------------------------------------------
@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT"])
def test_set_operations(word: str) -> None:
    for tail, all_ in (("", ""), (" ALL", " all"), (" DISTINCT", "")):
        sql = f"SELECT k FROM u [NOW] {word}{tail} SELECT v FROM u [NOW]"
        assert shape(sql) == f"{word.lower()}{all_}[π(k)[u], π(v)[u]]"


def test_set_operation_precedence_and_types() -> None:
    sql = "SELECT k FROM u [NOW] UNION SELECT v FROM u [NOW] INTERSECT SELECT a FROM s [NOW]"
    assert shape(sql) == "union[π(k)[u], intersect[π(v)[u], π(a)[s]]]"
    sql = "(SELECT k FROM u [NOW] EXCEPT SELECT v FROM u [NOW]) UNION ALL SELECT t FROM u [NOW]"
    node = plan(sql)
    assert node.schema.types == (BIGINT,)
    assert node.schema.names == ("k",)
    assert plan("SELECT NULL AS x FROM u UNION ALL SELECT 1 FROM u").schema.types == (INT,)
    assert plan("SELECT NULL AS x FROM u UNION ALL SELECT 'a' FROM u").schema.types == (STRING,)


def test_with_names_are_local_and_may_rename() -> None:
    sql = (
        "WITH x (q, w) AS (SELECT k, v FROM u), y AS (SELECT q FROM x WHERE w > 1) "
        "SELECT y.q FROM y [NOW], x [NOW] WHERE x.q = y.q"
    )
    inner = "π(k, v)[u]"
    assert shape(sql) == (
        f"π(q)[inner(0=0)[window(Now())[π(q)[σ((w > 1))[{inner}]]], window(Now())[{inner}]]]"
    )
    assert shape("WITH r AS (SELECT k FROM u) SELECT * FROM r") == "π(k)[u]"
    sql = "SELECT * FROM (WITH z AS (SELECT k FROM u [NOW]) SELECT * FROM z) q"
    assert shape(sql) == "π(k)[u]"


def test_views_are_inlined() -> None:
    assert shape("SELECT n FROM grouped WHERE n > 3") == (
        "π(n)[σ((n > 3))[π(k, count_0)[γ(0; count(*))[r]]]]"
    )
    assert shape("SELECT g.k FROM grouped g, tab WHERE g.k = tab.k").startswith("π(k)[inner(0=0)")


def test_subquery_columns_can_be_renamed() -> None:
    assert plan("SELECT * FROM (SELECT k, v FROM u) x (a, b)").schema.names == ("a", "b")


def test_stars() -> None:
    node = plan("SELECT t.*, r.k AS key, * FROM tab t, r [NOW] WHERE t.k = r.k")
    assert node.schema.names[:5] == ("k", "label", "key", "k_1", "label_1")
    assert shape("SELECT * FROM u [NOW]") == "u"


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("SELECT k FROM r [NOW] ORDER BY k", "PS-SQL-010", "1:32"),
        ("SELECT k FROM r [NOW]\nLIMIT 5", "PS-SQL-011", "2:7"),
        ("SELECT k FROM r [NOW] UNION SELECT k FROM r [NOW] ORDER BY 1", "PS-SQL-010", "1:60"),
        ("SELECT * FROM (SELECT k FROM r [NOW] LIMIT 1) x", "PS-SQL-011", "1:44"),
        ("WITH RECURSIVE x AS (SELECT k FROM u) SELECT * FROM x", "PS-SQL-013", "1:16"),
        ("SELECT 1", "PS-SQL-023", "1:8"),
        ("SELECT FROM r", "PS-SQL-001", "1:1"),
        ("SELECT DISTINCT ON (k) k FROM u", "PS-SQL-024", "1:21"),
        ("SELECT * EXCLUDE (k) FROM u", "PS-SQL-024", "1:19"),
        ("SELECT k FROM u UNION SELECT k, v FROM u", "PS-TYPE-005", "1:8"),
        ("SELECT k FROM r UNION SELECT name FROM r", "PS-TYPE-002", "1:8"),
        ("SELECT k FROM u UNION BY NAME SELECT k FROM u", "PS-SQL-024", "1:8"),
        ("SELECT * FROM (SELECT k FROM u) x (a, b)", "PS-TYPE-005", "1:23"),
        ("SELECT k FROM r [NOW] QUALIFY k > 1", "PS-SQL-012", "1:31"),
    ],
)
def test_refused_queries(sql: str, code: str, place: str) -> None:
    refused(sql, code, place)
