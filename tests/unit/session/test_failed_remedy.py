"""What a query that failed tells its reader to do: ON ERROR where that covers what failed."""

from __future__ import annotations

import pytest

import penstock
from penstock.errors import QueryFailed

STREAM = "CREATE STREAM s (v STRING, ts BIGINT) TIMESTAMP BY ts"
CAST = "SELECT CAST(v AS INT) AS v FROM s [RANGE 10]"


@pytest.fixture(params=[1, 2])
def session(request: pytest.FixtureRequest) -> penstock.Session:
    ps = penstock.connect(runner="inprocess", shards=request.param)
    ps.sql(STREAM)
    return ps


def test_the_remedy_of_an_expression_that_failed_names_on_error(session: penstock.Session) -> None:
    query = session.query(CAST)
    session.push("s", [{"v": "x", "ts": 1}])
    with pytest.raises(QueryFailed, match="corrected, or with ON ERROR NULL or SKIP ROW"):
        query.view()


def test_the_remedy_of_a_plan_without_such_an_expression_does_not(
    session: penstock.Session,
) -> None:
    session.sql(f"CREATE MATERIALIZED VIEW numbers AS {CAST}")
    session.push("s", [{"v": "7", "ts": 1}])
    query = session.query("SELECT DISTINCT v FROM numbers")
    assert query.view().num_rows == 1
    session.push("s", [{"v": "x", "ts": 2}])
    with pytest.raises(QueryFailed, match="reads view numbers, which failed") as caught:
        query.view()
    assert caught.value.remedy == "drop it and register it again"


def test_the_remedy_of_a_select_that_is_evaluated_once_names_it_too(
    session: penstock.Session,
) -> None:
    session.sql("CREATE MATERIALIZED VIEW texts AS SELECT v FROM s [RANGE 10]")
    session.push("s", [{"v": "x", "ts": 1}])
    with pytest.raises(QueryFailed, match="or add ON ERROR NULL or SKIP ROW"):
        session.sql("SELECT CAST(v AS INT) AS v FROM texts")
    found = session.sql("SELECT CAST(v AS INT) AS v FROM texts ON ERROR NULL")
    assert found.to_pylist() == [{"v": None}]
