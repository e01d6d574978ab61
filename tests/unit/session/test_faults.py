"""Faults stay local: failing queries, callbacks and extreme input do not touch the others."""

import threading

import pyarrow as pa
import pytest

import penstock
from penstock.errors import HistoryError, PenstockError, QueryFailed


@pytest.fixture
def ps():
    with penstock.connect(runner="inprocess") as session:
        session.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
        yield session


def row(ts, a, k=1):
    return {"k": k, "a": a, "ts": ts}


def bag(changes):
    fold: dict[str, int] = {}
    for c in changes.to_pylist():
        key = str({n: v for n, v in c.items() if not n.startswith("_")})
        fold[key] = fold.get(key, 0) + (
            1 if c["_change_type"] in ("insert", "update_postimage") else -1
        )
    return {k: n for k, n in fold.items() if n}


def test_overflow_above_a_group_by_fails_that_query_only(ps):
    q = ps.query("SELECT k, max(a) AS n FROM r [RANGE 10] GROUP BY k HAVING max(a) + 1 > 0")
    other = ps.query("SELECT count(*) AS n FROM r [RANGE 10]")
    ps.push("r", [row(0, 5)])
    ps.push("r", [row(1, 2**63 - 1)])
    assert q.status == "failed"
    assert other.view().to_pylist() == [{"n": 2}]


def test_a_failed_query_is_retracted_and_leaves_its_row(ps):
    text = "SELECT k, a FROM r [RANGE 10] WHERE a * $p > 5"
    good, bad = ps.query_many(text, pa.table({"p": [2, 2**62]}), history=True)
    ps.push("r", [row(1, 3)])
    assert [good.status, bad.status] == ["running", "failed"]
    with pytest.raises(QueryFailed, match="overflow"):
        bad.changes()
    (third,) = ps.query_many(text, pa.table({"p": [3]}), history=True)
    (again,) = ps.query_many(text, pa.table({"p": [2**62]}), history=True)
    assert again.status == "failed"
    assert third.view().num_rows == 1
    ps.push("r", [row(2, 4)])
    with pytest.raises(QueryFailed):  # not a row of who has its row of Q now
        bad.changes()
    third.drop()
    for q in (bad, again):
        q.drop()
    assert good.view().num_rows == 2
    good.drop()
    assert ps.stats()["templates"] == 0


def test_a_query_that_fails_at_once_has_a_handle(ps):
    ps.push("r", [row(1, 2**40)])
    q = ps.query("SELECT a * a AS x FROM r [RANGE 10]", history=True)
    assert q.status == "failed"
    assert "overflow" in str(ps.sql("SHOW QUERIES").to_pylist()) or q.status == "failed"
    q.drop()


def test_a_snapshot_with_a_failed_query_can_be_resumed(ps):
    q = ps.query("SELECT a * a AS x FROM r [RANGE 10]")
    ps.push("r", [row(1, 2**40)])
    other = penstock.connect(runner="inprocess", snapshot=ps.snapshot())
    other.push("r", [row(2, 1)])
    assert other[q.name].status == "failed"
    again = other.query("SELECT a * a AS x FROM r [RANGE 10]")
    other.push("r", [row(3, 3)])
    assert again.view().to_pylist() == [{"x": 9}]


def test_history_is_judged_from_the_clock_of_the_query(ps):
    ps.sql("CREATE STREAM s (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
    ps.push("s", [row(50, 1)])
    ps.push("r", [row(45, 1)])
    ps.push("r", [row(148, 1, k=2)])
    ps.push("r", [row(300, 1, k=3)])
    text = "SELECT r.k FROM r [RANGE 10], s [RANGE 10] WHERE r.k = s.k"
    with pytest.raises(HistoryError, match="RETAIN 260"):
        ps.query(text, history=True)


def test_a_subscriber_that_raises_does_not_starve_the_others(ps):
    q = ps.query("SELECT k FROM r [RANGE 10]")
    seen = []

    def broken(_):
        raise ValueError("no")

    q.subscribe(broken)
    q.subscribe(seen.append)
    with pytest.raises(PenstockError, match="subscriber"):
        ps.push("r", [row(1, 1)])
    assert len(seen) == 1
    assert q.view().num_rows == 1


def test_event_times_at_the_edge_are_quarantined(ps):
    q = ps.query("SELECT k FROM r [RANGE 10]")
    ps.push("r", [row(2**63 - 4, 1), row(-(2**63), 1), row(5, 1)])
    assert ps.quarantine("r").num_rows == 2
    assert q.view().num_rows == 1


def test_silence_is_counted_from_the_declaration():
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, ts TIMESTAMP) TIMESTAMP BY ts TICK 10 MINUTES")
    ps.sql("CREATE STREAM u (k INT, ts BIGINT) TIMESTAMP BY ts IDLE AFTER 10 MINUTES")
    ps.query("SELECT count(*) AS n FROM r [RANGE 1 SECOND]")
    ps.push("u", [{"k": 1, "ts": 10**15}])
    ps.push("r", [{"k": 1, "ts": "2020-01-01 00:00:00"}])
    assert ps.late("r").num_rows == 0


def test_an_idle_stream_follows_only_streams_it_is_queried_with():
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts IDLE AFTER 1 MICROSECOND")
    ps.sql("CREATE STREAM u (k INT, ts BIGINT) TIMESTAMP BY ts")
    ps.query("SELECT k FROM r [RANGE 5]")
    ps.push("u", [{"k": 1, "ts": 10**9}])
    ps.push("r", [{"k": 1, "ts": 5}])
    assert ps.late("r").num_rows == 0


def test_a_function_that_hangs_fails_its_query_only(ps):
    release = threading.Event()

    def hang(values):
        release.wait(20)
        return values

    ps.register_udf("hang", hang, ["BIGINT"], "BIGINT", timeout_s=0.2)
    stuck = ps.query("SELECT hang(a) AS x FROM r [RANGE 5]")
    other = ps.query("SELECT a FROM r [RANGE 5]")
    ps.push("r", [row(1, 7)])
    release.set()
    assert stuck.status == "failed"
    assert other.view().to_pylist() == [{"a": 7}]


def test_what_a_failed_query_showed_is_taken_back(ps):
    q = ps.query("SELECT k, max(a) AS n FROM r [RANGE 10] GROUP BY k HAVING max(a) + 1 > 0")
    ps.push("r", [{**row(0, 5), "k": k} for k in (0, 1)])
    ps.push("r", [{**row(1, 2**63 - 1), "k": 0}, {**row(1, 7), "k": 1}])
    assert q.status == "failed"
    assert bag(q.changes()) == {}


def _raises(table):
    raise RuntimeError("no")


@pytest.fixture(params=[None, 2])
def any_ps(request):
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
        yield session


@pytest.mark.parametrize("same", [1, 2])
def test_a_query_whose_subscriber_raises_can_be_dropped(any_ps, same):
    ps = any_ps
    many = ps.query_many("SELECT k FROM r [RANGE 5] WHERE a > $x", [{"x": 1}] * same)
    ps.push("r", [row(1, 5)])
    many.subscribe(_raises)
    with pytest.raises(PenstockError, match="PS-RUN-002"):
        many[0].drop()
    assert many[0].status == "dropped"
    assert many[0].changes()["_change_type"].to_pylist() == ["insert", "delete"]
    if same > 1:
        with pytest.raises(PenstockError, match="PS-RUN-002"):
            many.drop()
    assert ps.stats()["templates"] == 0
    ps.push("r", [row(2, 5)])


def test_a_subscriber_may_drop_its_query(any_ps):
    ps, heard = any_ps, []
    query = ps.query("SELECT k FROM r [RANGE 5] WHERE a > 1")

    def once(table):
        heard.extend(table["_change_type"].to_pylist())
        if query.status != "dropped":
            query.drop()

    query.subscribe(once)
    ps.push("r", [row(1, 5)])
    assert heard == ["insert", "delete"]
    assert query.status == "dropped"
    assert ps.stats()["templates"] == 0


def test_a_subscriber_is_told_no_half_answers(any_ps):
    ps, heard = any_ps, []
    query = ps.query("SELECT k FROM r [RANGE 5] WHERE a > 1")

    def look(_):
        try:
            heard.append(query.view().num_rows)
        except PenstockError as error:
            heard.append(error.code)

    query.subscribe(look)
    ps.push("r", [row(1, 5)])
    assert heard in ([1], ["PS-RUN-004"])
    assert query.view().num_rows == 1
