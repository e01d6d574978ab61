"""Windows whose length is a parameter: which are, what is refused, what they ask of the past."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import DataError, HistoryError, PenstockError, SqlSyntaxError, TypeError_
from penstock.logical.expr import Literal, Param
from penstock.logical.nodes import Range, Scan, walk
from penstock.session.compile import Compiled, compile_select
from penstock.session.windows import MOST_LENGTHS
from penstock.sql.parser import parse_statement
from penstock.sql.statements import Select
from penstock.types import BIGINT


@pytest.fixture
def ps() -> Iterator[Any]:
    with penstock.connect(runner="inprocess") as session:
        for name in "rsu":
            session.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        session.sql("CREATE STREAM t (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        yield session


def compiled(ps: Any, sql: str) -> Compiled:
    select = parse_statement(sql)
    assert isinstance(select, Select)
    return compile_select(select, ps._books.catalog)


def lengths(ps: Any, sql: str) -> list[int | Param]:
    nodes = walk(compiled(ps, sql).template)
    return [n.window.length for n in nodes if isinstance(n, Scan) and isinstance(n.window, Range)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 4] ON r.k = s.k WHERE s.a > 5",
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 4] ON r.a - s.a BETWEEN 0 AND 2 WHERE s.a > 5",
        "SELECT x.a FROM r [RANGE 3] x JOIN r [RANGE 4] y ON x.k = y.a AND y.a = 5",
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 4] ON r.k = s.k JOIN u [NOW] ON u.k = s.k",
        "SELECT k, count(*) AS n FROM (SELECT r.k FROM r [RANGE 3], s [RANGE 4] "
        "WHERE r.k = s.k AND s.a < 5) d GROUP BY k",
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 4] ON r.k = s.k WHERE s.a > 5 "
        "EXCEPT ALL SELECT a FROM u [UNBOUNDED]",
    ],
)
def test_windows_of_joins_in_flows_are_parameters(ps: Any, sql: str) -> None:
    found = compiled(ps, sql)
    first = len(found.literals) - 2
    assert lengths(ps, sql) == [Param(BIGINT, first), Param(BIGINT, first + 1)]
    assert found.literals[first:] == (Literal(BIGINT, 3), Literal(BIGINT, 4))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM r [RANGE 3] WHERE a > 5",  # first in, first out
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 3] ON r.k = s.k",  # nothing to route
        "SELECT r.a FROM r [RANGE 3 SLIDE 3] JOIN s [RANGE 3] ON r.k = s.k WHERE s.a > 5",
        "SELECT r.a FROM r [RANGE 3] LEFT JOIN s [RANGE 3] ON r.k = s.k WHERE r.a > 5",
        "SELECT r.a FROM r [RANGE 3] JOIN s [RANGE 3] ON r.k = s.k "
        "JOIN u [RANGE 3] ON r.a = u.a",  # rows that join are not all on one shard
    ],
)
def test_other_windows_stay(ps: Any, sql: str) -> None:
    assert set(lengths(ps, sql)) == {3}


def test_a_cte_that_is_used_twice_has_one_length(ps: Any) -> None:
    sql = "WITH c AS (SELECT k, a FROM r [RANGE 3] WHERE a > 5) SELECT x.a FROM c x, c y WHERE "
    assert lengths(ps, sql + "x.k = y.k") == [Param(BIGINT, 1)] * 2


def test_texts_that_differ_in_the_windows_of_a_join_are_one_template(ps: Any) -> None:
    text = "SELECT r.a, s.a AS b FROM r [RANGE {}] JOIN s [RANGE {}] ON r.k = s.k WHERE s.a > {}"
    queries = [ps.query(text.format(n, 20 - n, n % 3)) for n in range(1, 20)]
    assert ps.sql("SHOW QUERIES").column("template").unique().to_pylist() == [1]
    ps.push("r", [{"k": 1, "a": 7, "ts": 0}])
    ps.push("s", [{"k": 1, "a": 8, "ts": 10}])
    ps.advance("r", 10)
    assert [q.view().num_rows for q in queries] == [0] * 10 + [1] * 9  # r's row is 10 old


@pytest.mark.parametrize("value", [None, 0, -1, 1 << 62])
def test_a_length_that_is_none_is_refused(ps: Any, value: int | None) -> None:
    with pytest.raises(DataError, match=r"\$w is .*: not a valid window length") as refused:
        ps.query_many("SELECT k FROM r [RANGE $w]", [{"w": 3}, {"w": value}])
    assert refused.value.code == "PS-DATA-011"
    assert not ps.sql("SHOW QUERIES").num_rows


def test_the_longest_length_counts_in_the_unit(ps: Any) -> None:
    days = (1 << 61) // 86_400_000_000
    ps.query_many("SELECT k FROM t [RANGE $d DAYS]", [{"d": days}])
    with pytest.raises(DataError, match=f"{days + 1}: not a valid window length") as refused:
        ps.query_many("SELECT k FROM t [RANGE $d DAYS]", [{"d": days + 1}])
    assert f"from 1 to {days}" in refused.value.remedy


def test_a_length_of_another_type_is_refused(ps: Any) -> None:
    with pytest.raises(DataError, match=r"\$w has the wrong type"):
        ps.query_many("SELECT k FROM r [RANGE $w]", [{"w": 2.5}])


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT k FROM t [RANGE $w]", TypeError_),
        ("SELECT k FROM r [RANGE $w SECONDS]", TypeError_),
        ("SELECT k FROM t [RANGE $w SECONDS] WHERE k > $w", TypeError_),
        ("SELECT k + $w AS n FROM t [RANGE $w SECONDS]", TypeError_),
        (
            "SELECT x.k FROM t [RANGE $w SECONDS] x, t [RANGE $w HOURS] y WHERE x.k = y.k",
            TypeError_,
        ),
        ("SELECT k FROM r [RANGE $w] WHERE a LIKE $w", TypeError_),
        ("SELECT k FROM r [RANGE $w SLIDE 3]", SqlSyntaxError),
        ("SELECT k FROM r [RANGE 3 SLIDE $w]", SqlSyntaxError),
        ("SELECT k FROM r [ROWS $w]", SqlSyntaxError),
        ("SELECT k FROM r [RANGE $]", SqlSyntaxError),
    ],
)
def test_what_is_no_length_is_refused_with_its_place(
    ps: Any, sql: str, error: type[PenstockError]
) -> None:
    with pytest.raises(error) as refused:
        ps.query_many(sql, [{"w": 3}])
    assert refused.value.place is not None
    assert refused.value.remedy


def test_plain_units_may_also_be_compared(ps: Any) -> None:
    (query,) = ps.query_many("SELECT k FROM r [RANGE $w] WHERE a > $w", [{"w": 3}])
    ps.push("r", [{"k": 1, "a": 3, "ts": 0}, {"k": 2, "a": 4, "ts": 1}])
    assert query.view().to_pylist() == [{"k": 2}]


def test_a_length_in_a_unit_of_time(ps: Any) -> None:
    one, two = ps.query_many("SELECT k FROM t [RANGE $m MINUTES]", [{"m": 1}, {"m": 2}])
    noon = datetime.datetime(2024, 5, 1, 12)
    ps.push("t", [{"k": 1, "at": noon}])
    ps.advance("t", noon + datetime.timedelta(seconds=59))
    assert [q.view().num_rows for q in (one, two)] == [1, 1]
    ps.advance("t", noon + datetime.timedelta(seconds=60))
    assert [q.view().num_rows for q in (one, two)] == [0, 1]


def test_each_query_is_warming_for_its_own_window(ps: Any) -> None:
    ps.push("r", [{"k": 1, "a": 3, "ts": 100}])
    queries = ps.query_many("SELECT k FROM r [RANGE $w]", [{"w": 5}, {"w": 50}])
    ps.advance("r", 104)
    assert [q.status for q in queries] == ["warming", "warming"]
    ps.advance("r", 105)
    assert [q.status for q in queries] == ["running", "warming"]
    assert ps.sql("SHOW QUERIES").column("status").to_pylist() == ["running", "warming"]


def test_history_must_be_retained_for_the_longest_that_is_asked_for(ps: Any) -> None:
    ps.sql("CREATE STREAM kept (k BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 10")
    ps.push("kept", [{"k": n, "ts": n} for n in range(100)])
    text = "SELECT k FROM kept [RANGE $w]"
    (query,) = ps.query_many(text, [{"w": 10}], history=True)
    assert query.view().num_rows == 10
    with pytest.raises(HistoryError) as refused:
        ps.query_many(text, [{"w": 10}, {"w": 12}], history=True)
    assert "RETAIN 12" in refused.value.remedy


def test_what_the_longest_window_needs_stays_until_its_query_goes(ps: Any) -> None:
    text = "SELECT r.a FROM r [RANGE {}] JOIN s [RANGE 5] ON r.k = s.k WHERE s.a > 0"
    short, long = ps.query(text.format(5)), ps.query(text.format(500))
    for ts in range(0, 100, 10):
        ps.push("r", [{"k": 1, "a": ts, "ts": ts}])
        ps.advance("s", ts)
    log = ps._books.engine.sources["r"]
    assert log.discarded == 0
    long.drop()
    ps.push("r", [{"k": 1, "a": 100, "ts": 100}])
    ps.advance("s", 100)
    assert log.discarded >= 9
    ps.push("s", [{"k": 1, "a": 1, "ts": 101}])
    ps.advance("r", 101)
    assert short.view().to_pylist() == [{"a": 100}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, a FROM r [RANGE {}] WHERE a > 5",
        "SELECT DISTINCT a FROM r [RANGE {}]",
        "SELECT k, count(*) AS n FROM (SELECT k, a FROM r) [RANGE {}] d WHERE a > 5 GROUP BY k",
    ],
)
def test_after_some_lengths_of_a_window_alone_the_others_share_a_template(
    ps: Any, text: str
) -> None:
    lengths = [*range(1, 31), *range(1, 31)]
    queries = [ps.query(text.format(n)) for n in lengths]
    templates = ps.sql("SHOW QUERIES").column("template").to_pylist()
    assert templates[:MOST_LENGTHS] == list(range(1, MOST_LENGTHS + 1))
    assert set(templates[MOST_LENGTHS:30]) == {MOST_LENGTHS + 1}
    assert templates[30:] == templates[:30]
    ps.push("r", [{"k": 1, "a": 7, "ts": 0}])
    ps.advance("r", 20)
    assert [q.view().num_rows for q in queries] == [int(n > 20) for n in lengths]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM r [RANGE {}] WHERE a > 5 EXCEPT ALL SELECT a FROM s [RANGE 3]",
        "SELECT r.a FROM r [RANGE {}] JOIN s [RANGE 3] ON r.k = s.k",
        "SELECT a FROM r [RANGE {} SLIDE 1] WHERE a > 5",
        "SELECT count(*) AS n FROM r [RANGE {}] WHERE a > 5 EMIT ON COMMIT",
        "SELECT a FROM r [RANGE {}] WHERE a > 5 EMIT CHANGES PER ROW",
        "SELECT r.a FROM r [RANGE {}] JOIN prices p ON r.k = p.k",
    ],
)
def test_other_plans_have_a_template_for_each_length(ps: Any, text: str) -> None:
    ps.sql("CREATE TABLE prices (k BIGINT, price DOUBLE)")
    for n in range(1, 2 * MOST_LENGTHS):
        ps.query(text.format(n))
    templates = ps.sql("SHOW QUERIES").column("template").to_pylist()
    assert templates == list(range(1, 2 * MOST_LENGTHS))


def test_explain_shows_the_plan_that_would_run(ps: Any) -> None:
    text = "SELECT a FROM r [RANGE {}] WHERE a > 5"
    for n in range(1, MOST_LENGTHS + 1):
        ps.query(text.format(n))
    assert "[RANGE 1] where (a > $1) [WKS]" in ps.sql("EXPLAIN " + text.format(1))
    assert "[RANGE $2] where (a > $1) [WK]" in ps.sql("EXPLAIN " + text.format(50))


def test_state_that_another_process_has_left_is_kept_for_its_longest_window() -> None:
    """Workers of Spark take over each other's arenas: what is cached must follow Q."""
    text = "SELECT r.a FROM r [RANGE {}] JOIN s [RANGE 5] ON r.k = s.k WHERE s.a > 0"
    one, two = (penstock.connect(runner="inprocess") for _ in range(2))
    for ps in (one, two):
        for name in "rs":
            ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        ps.query(text.format(5))
        ps.push("r", [{"k": 1, "a": 0, "ts": 0}])
        ps.push("s", [{"k": 2, "a": 1, "ts": 1}])
        ps.advance(ts=2)
    query = two.query(text.format(500))
    two.push("r", [{"k": 1, "a": 100, "ts": 100}])
    two.advance(ts=100)
    one._books.engine.arena.restore(two._books.engine.arena.snapshot())
    vars(two._books.engine).update(vars(one._books.engine))
    two.advance(ts=200)
    two.push("s", [{"k": 1, "a": 1, "ts": 201}])
    two.advance(ts=201)
    assert query.view().to_pylist() == [{"a": 100}]


def test_a_text_has_one_template_however_it_comes(ps: Any) -> None:
    text = "SELECT a FROM r [RANGE {}] WHERE a > 5"
    for n in range(100, 120):
        ps.sql("EXPLAIN " + text.format(n))  # which does not count
    for n in range(MOST_LENGTHS):
        ps.sql(text.format(n + 1))
    ps.query(text.format(50))
    ps.query(text.format(1))
    own = list(range(1, MOST_LENGTHS + 1))
    templates = ps.sql("SHOW QUERIES").column("template").to_pylist()
    assert templates == [*own, MOST_LENGTHS + 1, 1]
    with penstock.connect(runner="inprocess", snapshot=ps.snapshot()) as again:
        again.query(text.format(60))
        again.query(text.format(2))
        templates = again.sql("SHOW QUERIES").column("template").to_pylist()
        assert templates == [*own, MOST_LENGTHS + 1, 1, MOST_LENGTHS + 1, 2]


def test_windows_in_a_view_are_lifted_also_after_a_restart(ps: Any) -> None:
    ps.sql("CREATE MATERIALIZED VIEW late AS SELECT k, a FROM r [RANGE 9] WHERE a > 3")
    text = "SELECT x.a FROM late x JOIN s [RANGE {}] y ON x.k = y.k"
    ps.query(text.format(1))
    with penstock.connect(runner="inprocess", snapshot=ps.snapshot()) as again:
        again.query(text.format(2))
        joined = again.sql("SHOW QUERIES").column("template").to_pylist()[-2:]
        assert joined[0] == joined[1]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("window", ["RANGE {}", "ROWS {}"])
def test_a_number_of_thousands_of_digits_is_refused(ps: Any, window: str, known: bool) -> None:
    text = "SELECT r.a FROM r [{}] JOIN s [RANGE 4] ON r.k = s.k WHERE s.a > {}"
    if known:
        ps.query(text.format(window.format(3), 5))
    with pytest.raises(SqlSyntaxError):
        ps.query(text.format(window.format("9" * 5000), 5))
    with pytest.raises(TypeError_):
        ps.query(text.format(window.format(3), "9" * 5000))
