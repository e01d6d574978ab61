"""The workloads of the CACQ paper are what it says; plans that are compared answer alike."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import cacq_workloads as work
from benchmarks.cacq_fig12 import PLANS
from benchmarks.cacq_niagara import deliver, planned


@pytest.fixture
def ps() -> Session:
    return penstock.connect(runner="inprocess")


def taken(ps: Session, queries: list[str], rows: int) -> list[float]:
    """The share of the rows that each query takes."""
    work.create_sensors(ps, "s")
    standing = [ps.query(text) for text in queries]
    ps.push("s", work.readings(rows, 1))
    return [query.changes().num_rows / rows for query in standing]


def test_table_3_selects_ever_less(ps: Session) -> None:
    expected = np.cumprod([0.09, 0.29, 0.49, 0.69, 0.89])
    assert taken(ps, work.TABLE_3, 20_000) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (1, [0.69, 0.49, 0.89, 0.59, 0.09]),
        (2, np.cumprod([0.89] * 5)),
        (3, np.cumprod([0.89, 0.69, 0.49, 0.29, 0.09])),
    ],
)
def test_table_4(ps: Session, workload: int, expected: list[float]) -> None:
    assert taken(ps, work.TABLE_4[workload], 20_000) == pytest.approx(expected, abs=0.02)


def test_random_queries_compare_half_of_the_fields() -> None:
    queries = work.random_queries(1_000, 1)
    used = sum(text.count(" AND ") + ("WHERE" in text) for text in queries)
    assert used / 5_000 == pytest.approx(0.5, abs=0.03)


def test_an_update_has_articles_of_every_stock() -> None:
    update = work.update(50, 3, 1)
    stocks, articles = update["stocks"], update["articles"]
    assert pc.value_counts(articles["symbol"]).field("counts").to_pylist() == [3] * 50
    assert 0 < pc.min(stocks["price"]).as_py() <= pc.max(stocks["price"]).as_py() <= 100
    sizes = pc.utf8_length(articles["body"])
    assert pc.min(sizes).as_py() >= 200
    assert pc.max(sizes).as_py() <= 1_000


def test_all_plans_deliver_the_same() -> None:
    update, queries = work.update(60, 2, 1), work.price_queries(10, 2)
    plans = {}
    for plan in PLANS:

        def register(ps: Session, plan: str = plan) -> list[penstock.Query]:
            standing = [ps.query(text) for text in queries]
            plans[plan] = standing[0].explain()
            return standing

        found, _ = deliver(plan, register, update)
        assert found == sum(
            2 * int(pc.sum(pc.greater(update["stocks"]["price"], float(text.split()[-1]))).as_py())
            for text in queries
        )
    assert "flow" in plans["CACQ"]
    down, up = plans["PushDown"], plans["PullUp"]
    assert "flow" not in down + up
    assert down.index("join") < down.index("match")
    assert up.index("match") < up.index("join")


def test_a_join_per_query_remembers_earlier_updates() -> None:
    found = {}
    for plan in PLANS:
        ps = penstock.connect(runner="inprocess")
        work.create_stocks(ps)
        with planned(plan):
            standing = [ps.query(text) for text in work.price_queries(4, 2)]
        for at in range(3):
            for name, rows in work.update(20, 2, at).items():
                ts = pa.array([at] * rows.num_rows)
                ps.push(name, rows.set_column(rows.column_names.index("ts"), "ts", ts))
        found[plan] = [
            sorted((r["symbol"], r["price"], r["body"]) for r in query.changes().to_pylist())
            for query in standing
        ]
    assert found["PushDown"] == found["PullUp"] == found["CACQ"]
    assert len(found["CACQ"][0]) == 3 * 3 * 20 * 2


def test_a_selection_above_the_join_calls_a_function_once_per_article() -> None:
    update = work.update(3, 4, 1)
    calls = {}
    for plan in PLANS:
        judge = work.Judge(1)

        def register(ps: Session, judge: work.Judge = judge) -> list[penstock.Query]:
            judge.register(ps)
            return list(ps.query_many(work.JUDGED, [{"user": u} for u in range(5)]))

        deliver(plan, register, update)
        calls[plan] = judge.calls
    # a function may fail, so a selection below a join only leaves out what it rejects: what passes
    # (one article in three here) is judged again for each pair, and may fail the query there
    assert calls == {"CACQ": 3 * 5, "PushDown": 3 * 5 + 5 * 4, "PullUp": 3 * 5 * 4}
