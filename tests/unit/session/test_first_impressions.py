"""Messages, times and inputs as people meet them first."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.session import Session
from penstock.sql.units import UNITS, written

STREAMS = """
CREATE STREAM r (k INT, name STRING, ts TIMESTAMP) TIMESTAMP BY ts DELAY 5 SECONDS;
CREATE STREAM s (k INT, name STRING, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE STREAM u (k INT, ts BIGINT) TIMESTAMP BY ts
"""
NEW_YEAR = dt.datetime(2026, 1, 1)


@pytest.fixture
def ps() -> Session:
    session = penstock.connect(runner="inprocess")
    session.sql(STREAMS)
    return session


def refusal(ps: Session, text: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        ps.sql(text)
    return caught.value


# ---- lengths and times -----------------------------------------------------------------
@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (1, "1 MICROSECOND"),
        (1_500_000, "1500 MILLISECONDS"),
        (60_000_000, "1 MINUTE"),
        (90_000_000, "90 SECONDS"),
        (172_800_000_000, "2 DAYS"),
        (1_209_600_000_000, "2 WEEKS"),
    ],
)
def test_a_length_is_written_in_the_largest_unit_that_fits(micros: int, text: str) -> None:
    assert written(micros) == text
    amount, unit = text.split()
    assert int(amount) * UNITS[unit] == micros


def test_explain_shows_lengths_with_their_unit(ps: Session) -> None:
    assert "scan r [RANGE 10 MINUTES SLIDE 1 MINUTE]" in ps.sql(
        "EXPLAIN SELECT count(*) AS n FROM r [RANGE 600 SECONDS SLIDE 60 SECONDS]"
    )
    join = "SELECT r.k FROM r [RANGE 1 HOUR] JOIN s [RANGE 90 SECONDS] ON r.k = s.k"
    assert "r [RANGE 1 HOUR], s [RANGE 90 SECONDS]" in ps.query(join).explain()
    filtered = ps.query(join + " WHERE r.name = 'x'").explain()
    assert "= 1 HOUR" in filtered
    assert "= 90 SECONDS" in filtered
    assert "scan u [RANGE 600]" in ps.sql("EXPLAIN SELECT count(*) AS n FROM u [RANGE 600]")


def test_explain_of_a_restored_session_shows_the_same(tmp_path: Any) -> None:
    with penstock.connect(runner="inprocess", checkpoint=str(tmp_path / "c")) as ps:
        ps.sql(STREAMS)
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 10 MINUTES] GROUP BY k")
        before = ps["v"].explain()
    with penstock.connect(runner="inprocess", checkpoint=str(tmp_path / "c")) as ps:
        assert ps["v"].explain() == before
        assert "[RANGE 10 MINUTES]" in before


def test_explain_ends_with_a_legend_of_the_patterns_it_shows(ps: Session) -> None:
    text = ps.sql("EXPLAIN SELECT k FROM r [RANGE 1 HOUR] EXCEPT SELECT k FROM s [RANGE 1 HOUR]")
    assert text.splitlines()[-2:] == [
        "[WKS] results leave when their rows expire, first in, first out",
        "[STR] results may be deleted before their rows expire",
    ]


def test_show_streams_writes_watermarks_as_times(ps: Session) -> None:
    ps.push("r", [{"k": 1, "name": "a", "ts": NEW_YEAR}])
    ps.push("u", [{"k": 1, "ts": 7}])
    assert ps.sql("SHOW STREAMS")["watermark"].to_pylist() == ["2025-12-31 23:59:55", None, "7"]


def test_the_retention_to_ask_for_has_a_unit(ps: Session) -> None:
    for day in range(3):
        ps.push("s", [{"k": 1, "name": "a", "ts": NEW_YEAR + dt.timedelta(days=day)}])
    with pytest.raises(PenstockError) as caught:
        ps.query("SELECT k FROM s [RANGE 10 MINUTES]", history=True)
    assert "RETAIN 10 MINUTES" in caught.value.remedy


# ---- messages --------------------------------------------------------------------------
def test_a_string_in_double_quotes_is_told_to_take_single_ones(ps: Session) -> None:
    error = refusal(ps, 'SELECT k FROM r [NOW] WHERE name = "bob"')
    assert (error.code, "'bob'" in error.remedy) == ("PS-NAME-002", True)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT)\nINSERT INTO t VALUES (1)",
        "CREATE STREAM x (ts BIGINT) TIMESTAMP BY ts CREATE STREAM y (ts BIGINT) TIMESTAMP BY ts",
        "SELECT k FROM r [NOW]\nSELECT k FROM s [NOW]",
        "CREATE MATERIALIZED VIEW v AS SELECT k FROM r [NOW]\nCREATE SINK o FROM v INTO console",
        "SHOW STREAMS SHOW TABLES",
    ],
)
def test_a_missing_semicolon_is_named(ps: Session, text: str) -> None:
    assert "put a ; before " in refusal(ps, text).remedy


@pytest.mark.parametrize(
    "text", ["INSERT INTO r VALUES (1, 'a', NULL)", "UPDATE r SET k = 1", "DELETE FROM r"]
)
def test_a_stream_is_not_changed_by_statements_but_by_push(ps: Session, text: str) -> None:
    error = refusal(ps, text)
    assert error.code == "PS-NAME-011"
    assert "push('r', rows)" in error.remedy


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window(ts, '1 minute') FROM r [NOW]",
        "SELECT count(*) AS n FROM r GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        "SELECT count(*) AS n FROM TUMBLE(r, ts, INTERVAL '1' MINUTE)",
        "SELECT count(*) AS n FROM TABLE(HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "SELECT count(*) AS n FROM r [NOW] GROUP BY SESSION(ts, INTERVAL '1' MINUTE)",
    ],
)
def test_window_functions_of_other_dialects_lead_to_brackets(ps: Session, text: str) -> None:
    remedy = refusal(ps, text).remedy
    assert "[RANGE 10 MINUTES SLIDE 10 MINUTES]" in remedy
    assert "dow" not in remedy.replace("window", "")


def test_a_misspelt_column_in_double_quotes_is_still_suggested(ps: Session) -> None:
    assert refusal(ps, 'SELECT "nam" FROM r [NOW]').remedy == "did you mean name?"


# ---- frames ----------------------------------------------------------------------------
class Handed:
    """Only the interface of Arrow's C streams."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_rows_come_from_anything_that_streams_arrow(ps: Session) -> None:
    query = ps.query("SELECT k, name FROM r [UNBOUNDED]")
    columns = {"k": [1, 2], "name": ["a", None], "ts": [NEW_YEAR, NEW_YEAR]}
    ps.push("r", pl.DataFrame(columns))
    ps.push("r", pl.DataFrame(columns).with_columns(pl.col("name").cast(pl.Categorical)))
    ps.push("r", Handed(pa.table(columns)))
    ps.push("r", pa.Table.from_pydict(columns).to_reader())
    ps.advance("r", NEW_YEAR + dt.timedelta(minutes=1))
    assert query.changes().select(["k", "name"]).to_pylist() == [
        {"k": 1, "name": "a"}, {"k": 2, "name": None},
    ] * 4  # fmt: skip


def test_parameters_come_from_a_polars_frame(ps: Session) -> None:
    queries = ps.query_many(
        "SELECT k FROM r [RANGE 1 HOUR] WHERE k = $x", pl.DataFrame({"x": [1, 2]})
    )
    assert len(queries) == 2


def test_a_series_is_not_rows(ps: Session) -> None:
    with pytest.raises(PenstockError, match="cannot read rows"):
        ps.push("r", pl.Series([1, 2]))


def test_nanoseconds_of_pandas_are_cut_to_microseconds(ps: Session) -> None:
    times = pd.to_datetime([1_767_225_600_000_000_999, -1], unit="ns")
    query = ps.query("SELECT k, ts FROM s [UNBOUNDED]")
    ps.push("s", pd.DataFrame({"k": [1], "name": ["a"], "ts": times[1:]}))
    zoned = times[:1].tz_localize("UTC").tz_convert("Europe/Berlin")
    ps.push("s", pd.DataFrame({"k": [2], "name": ["a"], "ts": zoned}))
    assert query.changes()["ts"].to_pylist() == [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), NEW_YEAR,
    ]  # fmt: skip
    assert ps.quarantine("s").num_rows == 0
