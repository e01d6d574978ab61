from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.delta import Emission
from penstock.errors import PenstockError, Place, SqlSyntaxError
from penstock.schema import Field, Schema
from penstock.sql.catalog import stream_def
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import (
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    Select,
    Show,
    Update,
)
from penstock.types import BIGINT, INT, STRING, TIMESTAMP, decimal

SECOND = 1_000_000


def test_create_stream_with_every_clause_in_any_order() -> None:
    schema = Schema((Field("k", INT), Field("ts", TIMESTAMP)))
    expected = CreateStream(
        name="s", schema=schema, time="ts", delay=5 * SECOND, max_ahead=86_400 * SECOND * 2,
        idle_after=10 * SECOND, tick=SECOND, retain=3600 * SECOND, format="parquet",
        options=(("path", "in/*.parquet"), ("header", "true"), ("a.b", "7"), ("c", "8")),
        if_not_exists=True,
    )  # fmt: skip
    clauses = [
        "TIMESTAMP BY ts", "DELAY 5 SECONDS", "MAX AHEAD 2 DAYS", "IDLE AFTER 10 SECONDS",
        "TICK 1 SECOND", "RETAIN 1 HOUR",
        "FROM parquet OPTIONS (path 'in/*.parquet', header 'true', a.b 7, c '8')",
    ]  # fmt: skip
    for order in (clauses, clauses[::-1]):
        sql = f"CREATE STREAM IF NOT EXISTS s (k INT, ts TIMESTAMP) {' '.join(order)}"
        assert parse_statement(sql) == expected


def test_stream_defaults() -> None:
    timed = parse_statement("create stream s (ts timestamp) timestamp by TS")
    assert isinstance(timed, CreateStream)
    assert (timed.time, timed.delay, timed.max_ahead) == ("ts", 0, 86_400 * SECOND)
    assert timed.format is None
    assert not stream_def(timed).unit_time
    counted = parse_statement("create stream s (t bigint) timestamp by t delay 3 retain 9")
    assert isinstance(counted, CreateStream)
    assert (counted.delay, counted.retain, counted.max_ahead) == (3, 9, None)
    assert stream_def(counted).unit_time


def test_types_and_their_other_names() -> None:
    sql = (
        "CREATE TABLE t (a INTEGER, b LONG, c REAL, d DOUBLE PRECISION, e DECIMAL(10, 2), "
        "f VARCHAR(20), g TEXT, h BOOLEAN, i DATE, j NUMERIC(10))"
    )
    statement = parse_statement(sql)
    assert isinstance(statement, CreateTable)
    assert [str(t) for t in statement.schema.types] == [
        "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "STRING", "STRING", "BOOLEAN", "DATE",
        "DECIMAL(10,0)",
    ]  # fmt: skip


def test_create_table() -> None:
    schema = Schema((Field("k", INT), Field("name", STRING)))
    assert parse_statement("CREATE TABLE names (k INT, name STRING)") == CreateTable(
        name="names", schema=schema
    )
    assert parse_statement(
        "create table if not exists names (k int, name string) nonretroactive"
    ) == CreateTable(name="names", schema=schema, nonretroactive=True, if_not_exists=True)


def test_insert() -> None:
    sql = "INSERT INTO t (a, b) VALUES (-1, 'it''s'), (1.50, NULL), (TIMESTAMP '1970-01-02', TRUE)"
    statement = parse_statement(sql)
    assert isinstance(statement, Insert)
    assert statement.columns == ("a", "b")
    assert [[v.value for v in row] for row in statement.rows] == [
        [-1, "it's"], [150, None], [86_400 * SECOND, True],
    ]  # fmt: skip
    assert [v.type for v in (statement.rows[0][0], statement.rows[1][0])] == [INT, decimal(3, 2)]
    everything = parse_statement("INSERT INTO t VALUES (9999999999)")
    assert isinstance(everything, Insert)
    assert everything.columns is None
    assert everything.rows[0][0].type == BIGINT


def test_update_and_delete() -> None:
    update = parse_statement("UPDATE t SET a = a + 1, b = concat('x', b) WHERE a > 3 AND b = 'c'")
    assert isinstance(update, Update)
    assert [name for name, _ in update.assignments] == ["a", "b"]
    assert isinstance(update.assignments[0][1], exp.Add)
    assert isinstance(update.where, exp.And)
    delete = parse_statement("DELETE FROM t WHERE a IN (1, 2)")
    assert isinstance(delete, Delete)
    assert isinstance(delete.where, exp.In)
    everything = parse_statement("delete from t")
    assert isinstance(everything, Delete)
    assert everything.where is None


@pytest.mark.parametrize(
    ("tail", "history", "on_commit", "per_row"),
    [
        ("", False, False, False),
        ("WITH HISTORY", True, False, False),
        ("EMIT CHANGES", False, False, False),
        ("EMIT ON COMMIT", False, True, False),
        ("WITH HISTORY EMIT ON COMMIT", True, True, False),
        ("EMIT CHANGES WITH HISTORY", True, False, False),
        ("EMIT CHANGES PER ROW", False, False, True),
        ("emit on commit per row with history", True, True, True),
    ],
)
def test_views_and_selects(tail: str, history: bool, on_commit: bool, per_row: bool) -> None:
    body = "SELECT k, count(*) AS n FROM r [RANGE 10 MINUTES] GROUP BY k"
    view = parse_statement(f"CREATE MATERIALIZED VIEW IF NOT EXISTS hot AS {body} {tail}")
    assert isinstance(view, CreateView)
    assert (view.name, view.if_not_exists) == ("hot", True)
    select = parse_statement(f"{body} {tail}")
    assert isinstance(select, Select)
    for part in (view.select, select):
        assert part.history == history
        assert part.emission == Emission(on_commit, per_row)
        assert part.source == f"{body} {tail}".strip()


def test_sinks_drops_and_questions() -> None:
    assert parse_statement(
        "CREATE SINK o FROM hot INTO parquet OPTIONS (path 'out')"
    ) == CreateSink(name="o", view="hot", format="parquet", options=(("path", "out"),))
    assert parse_statement("CREATE SINK IF NOT EXISTS o FROM hot INTO console") == CreateSink(
        name="o", view="hot", format="console", if_not_exists=True
    )
    for kind in ("STREAM", "TABLE", "VIEW", "SINK"):
        assert parse_statement(f"DROP {kind} x") == Drop(kind=kind, name="x")
    assert parse_statement("DROP MATERIALIZED VIEW IF EXISTS x") == Drop(
        kind="VIEW", name="x", if_exists=True
    )
    for what in ("STREAMS", "TABLES", "QUERIES", "SINKS"):
        assert parse_statement(f"show {what.lower()}") == Show(what=what)
    for what in ("LATE", "QUARANTINE"):
        assert parse_statement(f"show {what.lower()} s") == Show(what=what, of="s")
    assert parse_statement("DESCRIBE x") == parse_statement("DESC x") == Describe(name="x")
    assert parse_statement("EXPLAIN hot") == Explain(target="hot")
    explain = parse_statement("EXPLAIN SELECT k FROM r [NOW]")
    assert isinstance(explain, Explain)
    assert isinstance(explain.target, Select)


def test_script_keeps_sources_and_places() -> None:
    text = "-- first; not a statement\nSHOW STREAMS;\n\n  SHOW TABLES ; /* ; */ ;\nSHOW SINKS"
    statements = parse_script(text)
    assert [s.source for s in statements] == ["SHOW STREAMS", "SHOW TABLES", "SHOW SINKS"]
    assert [s.place for s in statements] == [Place(2, 1), Place(4, 3), Place(5, 1)]
    assert parse_script(" -- nothing\n") == []


def test_quoted_names_and_strings_hide_keywords() -> None:
    statement = parse_statement('CREATE TABLE "from" ("select" INT)')
    assert isinstance(statement, CreateTable)
    assert (statement.name, statement.schema.names) == ("from", ("select",))
    insert = parse_statement("INSERT INTO t VALUES (', ) WHERE', ';')")
    assert isinstance(insert, Insert)
    assert [v.value for v in insert.rows[0]] == [", ) WHERE", ";"]


@pytest.mark.parametrize(
    ("sql", "code", "line", "column"),
    [
        ("FOO", "PS-SQL-001", 1, 1),
        ("SHOW STREAMS; BAR", "PS-SQL-001", 1, 15),
        ("SHOW FISH", "PS-SQL-001", 1, 6),
        ("SHOW STREAMS now", "PS-SQL-001", 1, 14),
        ("CREATE STREAM s (k INT)", "PS-SQL-001", 1, 24),
        ("CREATE STREAM s (k INT) TIMESTAMP BY t", "PS-NAME-002", 1, 38),
        ("CREATE STREAM s (k INT) TIMESTAMP BY k", "PS-TYPE-009", 1, 38),
        ("CREATE STREAM s (k INT, K INT)", "PS-NAME-005", 1, 25),
        ("CREATE STREAM s (k BLOB)", "PS-TYPE-008", 1, 20),
        ("CREATE STREAM s (k DECIMAL(30,2))", "PS-TYPE-008", 1, 20),
        ("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t DELAY 5", "PS-TYPE-007", 1, 52),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t DELAY 5 SECONDS", "PS-TYPE-007", 1, 49),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t TICK 5", "PS-SQL-001", 1, 49),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t DELAY 5 DELAY 6", "PS-SQL-001", 1, 51),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t FISH 5", "PS-SQL-001", 1, 43),
        ("CREATE TABLE t (k INT NOT NULL)", "PS-SQL-024", 1, 23),
        ("CREATE VIEW v AS SELECT 1", "PS-SQL-001", 1, 8),
        ("CREATE MATERIALIZED VIEW v SELECT 1", "PS-SQL-001", 1, 28),
        ("CREATE SINK o FROM v INTO f OPTIONS (a 'x', a 'y')", "PS-NAME-005", 1, 45),
        ("INSERT INTO t VALUES (k)", "PS-SQL-001", 1, 23),
        ("INSERT INTO t VALUES (1", "PS-SQL-001", 1, 24),
        ("INSERT INTO t SELECT 1", "PS-SQL-024", 1, 15),
        ("UPDATE t a = 1", "PS-SQL-001", 1, 10),
        ("DELETE FROM t WHERE", "PS-SQL-001", 1, 20),
        ("SELECT a FROM r\nWHERE a >", "PS-SQL-001", 2, 9),
        ("SELECT (a FROM r", "PS-SQL-001", 1, 11),
        ("SELECT a FROM r;\nSELECT 'abc", "PS-SQL-001", 2, 8),
        ("SELECT 1 /* open", "PS-SQL-001", 1, 10),
        ("SELECT a FROM r WITH HISTORY WITH HISTORY", "PS-SQL-001", 1, 17),
        ("DROP FISH x", "PS-SQL-001", 1, 6),
    ],
)
def test_errors_point_at_the_place(sql: str, code: str, line: int, column: int) -> None:
    with pytest.raises(PenstockError) as caught:
        parse_script(sql)
    error = caught.value
    assert (error.code, error.place) == (code, Place(line, column)), error
    assert error.remedy


def test_one_statement_is_one() -> None:
    for sql in ("", "SHOW TABLES; SHOW SINKS"):
        with pytest.raises(SqlSyntaxError):
            parse_statement(sql)


@pytest.mark.parametrize(
    ("sql", "column"),
    [("CREATE STREM r (k INT)", 8), ("INSERT r VALUES (1)", 8), ("DELETE r", 8), ("CREATE", 7)],
)
def test_a_wrong_second_word_is_pointed_at(sql: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    assert caught.value.place == Place(1, column)


def test_column_names_of_our_own_are_refused() -> None:
    for name in ("_time", "_Query", "_malformed", "_row"):
        with pytest.raises(PenstockError, match="reserved") as caught:
            parse_statement(f"CREATE STREAM s (k INT, {name} INT, ts BIGINT) TIMESTAMP BY ts")
        assert (caught.value.code, caught.value.place) == ("PS-NAME-007", Place(1, 25))
    with pytest.raises(PenstockError, match="reserved"):
        parse_statement("CREATE TABLE t (_seq INT)")
    parse_statement("CREATE TABLE t (_row INT)")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("SELECT a FORM r", "did you mean FROM instead of FORM"),
        ("SELECT a FROM r WHER a > 1", "did you mean WHERE instead of WHER"),
        ("SELECT a FROM r [NOW] GRUOP BY a", "did you mean GROUP instead of GRUOP"),
        ("SELECT a FROM r x 5", "check the text"),
    ],
)
def test_a_misspelt_keyword_is_named(text: str, remedy: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    assert remedy in caught.value.remedy
