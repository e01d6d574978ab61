from __future__ import annotations

import pytest
from sql_world import picture, plan, refused

from penstock.errors import SqlSyntaxError
from penstock.logical.nodes import Now, Range, Rows, Scan, Unbounded, Window, Windowed, walk
from penstock.sql.parser import parse_statement

MINUTE = 60_000_000


def window(sql: str) -> Window:
    (scan,) = [n for n in walk(plan(sql)) if isinstance(n, Scan)]
    return scan.window


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[RANGE 10 MINUTES]", Range(10 * MINUTE, micros=True)),
        ("[range 1 minute slide 30 seconds]", Range(MINUTE, MINUTE // 2, micros=True)),
        ("[RANGE 5 MICROSECONDS]", Range(5, micros=True)),
        ("[RANGE 5 MILLISECONDS]", Range(5_000, micros=True)),
        ("[RANGE 2 HOURS]", Range(120 * MINUTE, micros=True)),
        ("[RANGE 1 DAY]", Range(1440 * MINUTE, micros=True)),
        ("[RANGE 1 WEEK]", Range(7 * 1440 * MINUTE, micros=True)),
        ("[ROWS 10]", Rows(10)),
        ("[PARTITION BY k ROWS 3]", Rows(3, (0,))),
        ("[PARTITION BY name, K ROWS 3]", Rows(3, (5, 0))),
        ("[NOW]", Now()),
        ("[UNBOUNDED]", Unbounded(explicit=True)),
        ("", Unbounded(explicit=False)),
    ],
)
def test_windows_of_a_stream(text: str, expected: Window) -> None:
    for sql in (
        f"SELECT * FROM r {text}",
        f"SELECT * FROM r {text} AS x",
        f"SELECT * FROM r AS x {text}",
        f"SELECT * FROM r x {text} WHERE x.a > 1",
        f"SELECT x.k FROM r {text} x GROUP BY x.k",
    ):
        assert window(sql) == expected, sql


def test_plain_units_on_a_bigint_stream() -> None:
    assert window("SELECT * FROM u [RANGE 5 SLIDE 2]") == Range(5, 2)


def test_every_relation_of_a_join_has_its_own() -> None:
    node = plan("SELECT 1 FROM r [NOW] x JOIN s y [ROWS 4] ON x.k = y.k, u [RANGE 5]")
    scans = {n.stream: n.window for n in walk(node) if isinstance(n, Scan)}
    assert scans == {"r": Now(), "s": Rows(4), "u": Range(5)}


def test_subquery_view_and_cte_windows() -> None:
    inner = "π(k, a)[σ((a > 3))[r]]"
    for sql in (
        "SELECT * FROM (SELECT k, a FROM r WHERE a > 3) x [RANGE 5 SECONDS]",
        "SELECT * FROM (SELECT k, a FROM r WHERE a > 3) [RANGE 5 SECONDS] AS x",
        "WITH x AS (SELECT k, a FROM r WHERE a > 3) SELECT * FROM x [RANGE 5 SECONDS]",
    ):
        node = plan(sql)
        assert isinstance(node, Windowed)
        assert node.window == Range(5_000_000, micros=True)
        assert picture(node.input) == inner
    node = plan("SELECT * FROM plain [PARTITION BY a ROWS 2]")
    assert isinstance(node, Windowed)
    assert node.window == Rows(2, (1,))


def test_window_over_union_all_and_nrr_join() -> None:
    union = "SELECT k FROM r UNION ALL SELECT k FROM r"
    assert isinstance(plan(f"SELECT * FROM ({union}) x [NOW]"), Windowed)
    joined = "SELECT r.k, label FROM r JOIN nrr ON r.k = nrr.k"
    assert isinstance(plan(f"SELECT * FROM ({joined}) x [NOW]"), Windowed)


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("SELECT * FROM r [RANGE 5]", "PS-TYPE-007", "1:24"),
        ("SELECT * FROM u [RANGE 5 SECONDS]", "PS-TYPE-007", "1:24"),
        ("SELECT * FROM u [RANGE 5 SLIDE 2 SECONDS]", "PS-TYPE-007", "1:32"),
        ("SELECT * FROM u [RANGE 5 SLIDE 6]", "PS-PLAN-002", "1:17"),
        ("SELECT * FROM r [NOW] AS x [NOW]", "PS-SQL-020", "1:15"),
        ("SELECT * FROM tab [ROWS 5]", "PS-SQL-020", "1:15"),
        ("SELECT * FROM grouped [NOW]", "PS-SQL-020", "1:23"),
        ("SELECT *\nFROM (SELECT k FROM r [NOW]) x [ROWS 1]", "PS-SQL-020", "2:32"),
        ("SELECT * FROM r [PARTITION BY zz ROWS 2]", "PS-NAME-002", "1:17"),
        ("SELECT * FROM (SELECT v FROM u) x [RANGE 5 SECONDS]", "PS-TYPE-007", "1:42"),
    ],
)
def test_refused_windows(sql: str, code: str, place: str) -> None:
    refused(sql, code, place)


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("SELECT * FROM r [RANGE]", 23),
        ("SELECT * FROM r [RANGE 5 APPLES]", 26),
        ("SELECT * FROM r, s [ROWS]", 25),
        ("SELECT * FROM r [ROWS 0]", 23),
        ("SELECT * FROM r [RANGE 0 SECONDS]", 24),
        ("SELECT * FROM r [PARTITION BY ROWS 3]", 36),
        ("SELECT * FROM r [NOW", 21),
        ("SELECT * FROM r [NOW] [NOW]", 17),
    ],
)
def test_window_syntax_errors(sql: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (1, column)
    assert caught.value.remedy


def test_lengths_beyond_all_time_are_refused() -> None:
    longest = 2**61
    assert window(f"SELECT * FROM u [RANGE {longest}]") == Range(longest)
    error = refused(f"SELECT * FROM u [RANGE {longest + 1}]", "PS-TYPE-011", "1:24")
    assert "[UNBOUNDED]" in error.remedy
    refused(f"SELECT * FROM u [RANGE 5 SLIDE {2**63}]", "PS-TYPE-011", "1:32")
    refused("SELECT * FROM r [RANGE 9000000000 DAYS]", "PS-TYPE-011", "1:24")


def test_calendar_units_are_no_lengths() -> None:
    for unit in ("YEARS", "month", "QUARTER"):
        with pytest.raises(SqlSyntaxError, match="fixed length") as caught:
            parse_statement(f"SELECT * FROM r [RANGE 2 {unit}]")
        assert (caught.value.place.column, "DAYS" in caught.value.remedy) == (26, True)
