"""Odd statements and odd columns: answered, quarantined or refused, never an internal error."""

from __future__ import annotations

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
    with pytest.raises(PenstockError, match=r"PS-TYPE-011.*longer than any time"):
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
