"""IF NOT EXISTS passes what is there as written, and refuses another definition."""

from __future__ import annotations

import pytest

import penstock
from penstock.errors import PenstockError

STREAM = (
    "CREATE STREAM IF NOT EXISTS r (k INT, a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts "
    "DELAY 5 SECONDS RETAIN 1 HOUR"
)
TABLE = "CREATE TABLE IF NOT EXISTS t (k INT, b STRING)"
VIEW = (
    "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS "
    "SELECT k, count(*) AS n FROM r [RANGE 1 MINUTE] WHERE a > 3 GROUP BY k"
)


def sink(path, more=""):
    return f"CREATE SINK IF NOT EXISTS s FROM v INTO json OPTIONS (path '{path}'{more})"


@pytest.fixture(params=[None, 2, "restart"], ids=["one", "shards", "restart"])
def ps(request, tmp_path):
    """A session that has all four; `restart`: from a checkpoint."""
    restart = request.param == "restart"
    options = {"checkpoint": tmp_path / "cp"} if restart else {"shards": request.param}
    session = penstock.connect(runner="inprocess", **options)
    session.sql(f"{STREAM}; {TABLE}; {VIEW}; {sink(tmp_path / 'out')}")
    if restart:
        session.close()
        session = penstock.connect(runner="inprocess", **options)
    with session:
        yield session


@pytest.mark.parametrize(
    "sql",
    [
        STREAM,
        TABLE,
        VIEW,
        "create stream if not exists R (K int, A long, TS timestamp)\n retain 60 minutes "
        "delay 5000 milliseconds timestamp by TS max ahead 24 hours",
        "create table if not exists T (k integer, b varchar)",
        "create materialized view if not exists V as\n select K, COUNT(*) as n "
        "from R [range 60 seconds] where A > 3 group by 1",
    ],
)
def test_the_same_definition_passes(ps, sql):
    before = ps.sql("SHOW QUERIES").num_rows
    ps.sql(sql)
    assert ps.sql("SHOW QUERIES").num_rows == before


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (
            STREAM.replace("5 SECONDS", "9 SECONDS"),
            "it has DELAY 5 SECONDS, the statement has DELAY 9 SECONDS",
        ),
        (STREAM.replace("RETAIN 1 HOUR", ""), "it has RETAIN 1 HOUR, the statement has no RETAIN"),
        (
            STREAM.replace("a BIGINT", "a INT"),
            r"it has .*a BIGINT, .*, the statement has .*a INT, ",
        ),
        (STREAM + " FROM csv OPTIONS (path 'x')", "it has no FROM, the statement has FROM csv"),
        (TABLE.replace("b STRING", "b STRING, c INT"), "c INT"),
        (TABLE + " NONRETROACTIVE", "it has no NONRETROACTIVE"),
        (TABLE.replace(" t ", " r "), "r is not a table"),
        (STREAM.replace(" r ", " v "), "v is not a stream"),
        (VIEW.replace(" v ", " t "), "t is not a view"),
        (
            VIEW.replace("a > 3", "a > 4"),
            r"it is defined as .* a > 3 .*, the statement as .* a > 4 ",
        ),
        (VIEW.replace("1 MINUTE", "2 MINUTES"), "RANGE 2 MINUTES"),
        (VIEW + " EMIT ON COMMIT", "EMIT ON COMMIT"),
        (VIEW + " WITH HISTORY", "WITH HISTORY"),
    ],
)
def test_another_definition_is_refused_and_both_are_shown(ps, new, told):
    with pytest.raises(PenstockError, match=rf"(?s)PS-NAME-012.*{told}") as caught:
        ps.sql(new)
    assert caught.value.remedy
    assert caught.value.place is not None


def test_sinks_too(ps, tmp_path):
    ps.sql(sink(tmp_path / "out"))
    ps.sql(sink(tmp_path / "out").replace("path", "PATH").replace("json", "JSON"))
    with pytest.raises(PenstockError, match=r"PS-NAME-012.*/out', the statement has .*/other'"):
        ps.sql(sink(tmp_path / "other"))
    with pytest.raises(
        PenstockError, match=r"it has no OPTIONS mode, the statement has OPTIONS mode 'error'"
    ):
        ps.sql(sink(tmp_path / "out", ", mode 'error'"))
    with pytest.raises(PenstockError) as caught:
        ps.sql(sink(tmp_path / "out", ", sasl_password 'hunter2'"))
    assert "hunter2" not in str(caught.value)
    assert "it has no OPTIONS sasl_password" in str(caught.value)


def test_a_view_whose_inputs_went_is_still_what_it_was(ps):
    ps.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM v WHERE n > 1")
    ps.sql("DROP SINK s; DROP VIEW v")
    ps.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS w AS SELECT k FROM v WHERE n > 1")


def test_a_string_is_not_a_column_of_its_name(ps):
    view = "CREATE MATERIALIZED VIEW IF NOT EXISTS q AS SELECT {} AS x FROM t"
    ps.sql(view.format("'b'"))
    ps.sql(view.format("'b'"))
    with pytest.raises(PenstockError) as error:
        ps.sql(view.format('"b"'))
    assert error.value.code == "PS-NAME-012"
