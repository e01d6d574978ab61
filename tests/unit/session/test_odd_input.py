"""Odd statements and odd columns: answered, quarantined or refused, never an internal error."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError

STREAM = "CREATE STREAM r (k INT, a BIGINT, s STRING, ts BIGINT) TIMESTAMP BY ts"
HUGE = 2**63


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def ps(request):
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql(STREAM)
        yield session


def row(ts, s="x"):
    return {"k": 1, "a": ts, "s": s, "ts": ts}


def test_queries_like_one_that_failed_can_all_be_dropped(ps):
    text = "SELECT CAST(s AS INT) AS n FROM r [RANGE 10]"
    first = ps.query(text)
    ps.push("r", [row(1, "two")])
    assert first.status == "failed"
    again = ps.query(text)
    first.drop()
    third = ps.query(text)
    ps.push("r", [row(2, "2")])
    assert again.view().to_pylist() == third.view().to_pylist() == [{"n": 2}]
    again.drop()
    third.drop()
    ps.flush()
    assert ps.stats()["templates"] == 0


@pytest.mark.parametrize(
    "window",
    [
        f"[ROWS {HUGE}]",
        f"[PARTITION BY k ROWS {HUGE}]",
        f"[RANGE {HUGE}]",
        f"[RANGE {HUGE} SLIDE 1]",
        f"[RANGE 5 SLIDE {HUGE}]",
        f"[ROWS {10**39}]",
    ],
)
def test_windows_beyond_all_lengths_are_refused_however_often(ps, window):
    ps.query("SELECT k FROM r [ROWS 3]")
    ps.query("SELECT k FROM r [RANGE 3]")
    for _ in range(2):
        with pytest.raises(PenstockError, match=r"PS-TYPE-011|PS-PLAN") as caught:
            ps.query(f"SELECT k FROM r {window}")
        assert caught.value.place is not None
    ps.push("r", [row(1)])


def test_the_longest_window_of_rows_runs(ps):
    query = ps.query(f"SELECT a FROM r [ROWS {2**61}]")
    ps.push("r", [row(1), row(2)])
    assert query.view().num_rows == 2


@pytest.mark.parametrize("w", [HUGE, 2**61 + 1, 0, -1, None])
def test_lengths_in_parameters_have_the_same_bounds(ps, w):
    with pytest.raises(PenstockError, match="PS-DATA"):
        ps.query_many("SELECT k FROM r [RANGE $w]", [{"w": w}])


@pytest.mark.parametrize("clause", ["DELAY", "MAX AHEAD", "IDLE AFTER", "TICK", "RETAIN"])
def test_clauses_of_a_stream_have_the_same_bounds(ps, clause):
    with pytest.raises(PenstockError, match=r"PS-TYPE-011.*longer than the range of event time"):
        ps.sql(f"CREATE STREAM z (at TIMESTAMP) TIMESTAMP BY at {clause} {HUGE} DAYS")


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("'' IN ()", 0), ("s IN ()", 0), ("s NOT IN ()", 1), ("NULL IN ()", 0), ("1 NOT IN ()", 1)],
)
def test_nothing_is_in_an_empty_list(ps, condition, rows):
    query = ps.query(f"SELECT k FROM r [RANGE 5] WHERE {condition}")
    ps.push("r", [row(1)])
    assert query.view().num_rows == rows


def test_names_before_an_empty_list_are_looked_up(ps):
    with pytest.raises(PenstockError, match="PS-NAME"):
        ps.query("SELECT k FROM r [RANGE 5] WHERE nope IN ()")


# ---- columns -------------------------------------------------------------------------
def given(ps, type_, column):
    """What a column of three values becomes in a stream, and how many rows are quarantined."""
    ps.sql(f"CREATE STREAM c (c {type_}, ts BIGINT) TIMESTAMP BY ts")
    query = ps.query("SELECT c FROM c [RANGE 100]")
    ps.push("c", pa.table({"c": column, "ts": [1, 2, 3]}))
    counts = ps.stats()["streams"]["c"]
    assert counts["accepted"] + counts["quarantined"] == counts["received"] == 3
    assert ps.quarantine("c").num_rows == counts["quarantined"]
    return query.view()["c"].to_pylist(), counts["quarantined"]


def runs(values):
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), values)


JANUARY = dt.datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("type_", "column", "answer"),
    [
        ("INT", runs(pa.array([7, 8])), ([7, 8, 8], 0)),
        ("INT", runs(pa.array([1, 7, 8])).slice(0, 3), ([1, 7, 7], 0)),
        ("STRING", runs(pa.array(["a", None])), (["a", None, None], 0)),
        ("STRING", runs(pa.array(["a", "b"]).dictionary_encode()), (["a", "b", "b"], 0)),
        ("STRING", runs(pa.array(["a", "b"], pa.string_view())), (["a", "b", "b"], 0)),
        ("TIMESTAMP", runs(pa.array([JANUARY, None])), ([JANUARY, None, None], 0)),
        ("INT", runs(pa.array(["7", "x"])), ([7], 2)),
        ("INT", pa.array(["7", "x", None], pa.string_view()), ([7, None], 1)),
        ("INT", pa.array(["7", "x", None], pa.large_string()), ([7, None], 1)),
        ("TIMESTAMP", pa.array(["2026-01-01", "x", None], pa.large_string()), ([JANUARY, None], 1)),
        ("STRING", pa.array([b"a", b"\xff", None], pa.binary_view()), (["a", None], 1)),
        ("STRING", pa.array([[1], [2], None]), ([None], 2)),
        ("STRING", pa.array([{"a": 1}, {"a": 2}, None]), ([None], 2)),
        ("STRING", pa.nulls(3), ([None] * 3, 0)),
        ("BIGINT", pa.array([1, 2**64 - 1, None], pa.uint64()), ([1, None], 1)),
        ("DECIMAL(9, 2)", pa.array(np.array([1, 1.5, 2], np.float16)),
         ([Decimal(1), Decimal("1.5"), Decimal(2)], 0)),
        ("FLOAT", pa.array([1, 10**40, None], pa.decimal256(50, 2)), ([1, None], 1)),
        ("DOUBLE", pa.array([Decimal("1.555"), None, None], pa.decimal128(9, 3)),
         ([1.555, None, None], 0)),
        ("INT", pa.array([1, 2, None], pa.time32("s")), ([None], 2)),
        ("BIGINT", pa.array([1, 2, None], pa.duration("s")), ([None], 2)),
        ("BIGINT", pa.array([1, 2, None], pa.timestamp("s")), ([None], 2)),
        ("BOOLEAN", pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
         ([True, False, None], 0)),
        ("BIGINT", pa.array([b"x" * 16, None, None], pa.uuid()), ([None, None], 1)),
    ],
    ids=lambda value: str(getattr(value, "type", "")) or None,
)  # fmt: skip
def test_columns_of_any_arrow_type_are_read_or_quarantined(ps, type_, column, answer):
    assert given(ps, type_, column) == answer


def test_parameters_come_in_any_encoding(ps):
    queries = ps.query_many(
        "SELECT a FROM r [RANGE 5] WHERE s = $s AND k = $k",
        pa.table({"s": pa.array(["x", "y"], pa.string_view()).slice(0, 2),
                  "k": runs(pa.array([1, 2])).slice(1, 2)}),
    )  # fmt: skip
    ps.push("r", [{"k": 2, "a": 5, "s": "x", "ts": 1}])
    assert [query.view().num_rows for query in queries] == [1, 0]


@pytest.mark.parametrize(
    "values",
    [[5, 6], pa.array([5, 6]), pa.array([5, 6], pa.uint8()), [np.int64(5), 6], ["5", "1767225600"]],
)
@pytest.mark.parametrize("type_", ["TIMESTAMP", "DATE"])
def test_numbers_are_no_times_and_the_reason_says_what_is(ps, type_, values):
    ps.sql(f"CREATE STREAM c (c {type_}, ts BIGINT) TIMESTAMP BY ts")
    if isinstance(values, list):
        ps.push("c", [{"c": v, "ts": 1} for v in values])
    else:
        ps.push("c", pa.table({"c": values, "ts": [1, 1]}))
    told = ps.quarantine("c")["_reason"].to_pylist()
    assert len(told) == 2
    assert all(f"c is a number, not a {type_}: give a date" in reason for reason in told)


def test_times_of_all_kinds_are_times(ps):
    ps.sql("CREATE STREAM c (c TIMESTAMP, ts BIGINT) TIMESTAMP BY ts")
    query = ps.query("SELECT c FROM c [RANGE 100]")
    ps.push("c", [{"c": "2026-01-01", "ts": 1}, {"c": pd.Timestamp(JANUARY), "ts": 1}])
    ps.push("c", [{"c": "2026-01-01T01:00:00+01:00", "ts": 1}, {"c": JANUARY, "ts": 1}])
    ps.push("c", pd.DataFrame({"c": [JANUARY], "ts": [1]}))
    ps.push("c", pa.table({"c": pa.array([JANUARY], pa.timestamp("s", "UTC")), "ts": [1]}))
    assert query.view()["c"].to_pylist() == [JANUARY] * 6


def test_a_number_is_no_time_in_statements_and_parameters_either(ps):
    ps.sql("CREATE TABLE t (at TIMESTAMP)")
    ps.sql("CREATE STREAM e (at TIMESTAMP) TIMESTAMP BY at")
    with pytest.raises(PenstockError, match="PS-DATA-013"):
        ps.sql("INSERT INTO t VALUES (5)")
    with pytest.raises(PenstockError, match="wrong type"):
        ps.query_many("SELECT at FROM e [RANGE 1 DAY] WHERE at > $t", [{"t": 5}])


@pytest.mark.parametrize(
    ("params", "code", "named"),
    [
        ([{}, {}], "PS-DATA-012", "empty"),
        ([{"lo": 1}], "PS-DATA-012", r"\$hi"),
        ([{"lo": 1, "hi": "x"}], "PS-DATA-013", r"\$hi .* 'x' is not a BIGINT"),
        ([{"lo": math.nan, "hi": 2}], "PS-DATA-013", r"\$lo .* nan is not a BIGINT"),
        ([{"lo": 1, "hi": 1.5}], "PS-DATA-013", r"\$hi .* 1.5 is not a BIGINT"),
        ([{"lo": 1, "hi": 2**63}], "PS-DATA-001", "column hi"),
        ([{"lo": 1, "hi": 2}, {"lo": "x", "hi": 2}], "PS-DATA-001", "column lo"),
        (pa.table([[1], [2], [3]], ["lo", "hi", "lo"]), "PS-DATA-002", "lo"),
        ([{"lo": 1, "hi": 2, "qid": "a"}] * 2, "PS-NAME-005", "qid a"),
    ],
)  # fmt: skip
def test_parameters_of_a_band_that_are_refused_register_nothing(ps, params, code, named):
    ps.sql("CREATE STREAM p (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
    text = "SELECT r.a FROM r [RANGE 5], p [RANGE 5] WHERE p.k - r.k BETWEEN $lo AND $hi"
    with pytest.raises(PenstockError, match=named) as caught:
        ps.query_many(text, params)
    assert caught.value.code == code
    assert caught.value.remedy
    assert len(ps.sql("SHOW QUERIES")) == 0
