"""The session as a user meets it: registration, sharing, history, failures, time, sinks."""

import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import (
    HistoryError,
    NameError_,
    PenstockError,
    QueryFailed,
    StateError,
    UnsupportedError,
)
from penstock.session import clock


@pytest.fixture
def ps():
    with penstock.connect(runner="inprocess") as session:
        session.sql("CREATE STREAM r (k INT, a BIGINT, name STRING, ts BIGINT) TIMESTAMP BY ts")
        yield session


def row(ts, k=1, a=1, name="x"):
    return {"k": k, "a": a, "name": name, "ts": ts}


def rows(query):
    return sorted(query.view().to_pylist(), key=str)


def test_queries_that_differ_in_constants_share_a_template(ps):
    qs = [ps.query(f"SELECT k FROM r [RANGE 5] WHERE a > {c}") for c in (1, 5, 9)]
    assert ps.stats()["templates"] == 1
    ps.push("r", [row(1, a=6)])
    assert [q.view().num_rows for q in qs] == [1, 1, 0]


def test_identical_queries_share_a_row_and_each_sees_all(ps):
    first = ps.query("SELECT count(*) AS n FROM r [RANGE 5]")
    second = ps.query("SELECT count(*) AS n FROM r [RANGE 5]")
    assert "shared by: q1, q2" in first.explain()
    assert second.changes().column("n").to_pylist() == [0]
    ps.push("r", [row(1)])
    assert first.view() == second.view()
    assert second.changes().column("_query").to_pylist() == ["q2", "q2"]
    first.drop()
    assert second.view().column("n").to_pylist() == [1]


@pytest.mark.parametrize("shards", [None, 2])
def test_a_query_without_a_view_takes_nothing_back_of_what_its_stream_retains(shards):
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql("CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts RETAIN 10")
    query = ps.query("SELECT k FROM r")
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    query.drop()
    assert query.changes()["_change_type"].to_pylist() == ["insert"]


def test_an_ungrouped_aggregate_has_a_row_for_every_query(ps):
    params = pa.table({"lo": [0, 10, 20]})
    qs = ps.query_many("SELECT count(*) AS n, max(a) AS m FROM r [RANGE 5] WHERE a >= $lo", params)
    assert [q.view().to_pylist() for q in qs] == [[{"n": 0, "m": None}]] * 3
    ps.push("r", [row(1, a=15)])
    assert [q.view().column("n")[0].as_py() for q in qs] == [1, 1, 0]
    ps.advance("r", 6)
    assert [q.view().column("n")[0].as_py() for q in qs] == [0, 0, 0]


def test_a_query_sees_only_rows_after_it_unless_it_asks_for_history():
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts RETAIN 10")
    ps.push("r", [{"k": 1, "a": 1, "ts": t} for t in (1, 5, 8)])
    text = "SELECT k, count(*) AS n FROM r [RANGE 10] GROUP BY k"
    cold, warm = ps.query(text), ps.query(text, history=True)
    assert cold.view().num_rows == 0
    assert cold.status == "warming"
    assert warm.view().to_pylist() == [{"k": 1, "n": 3}]
    again = ps.query(text, history=True)
    assert again.changes().column("n").to_pylist() == [3]
    ps.push("r", [{"k": 1, "a": 1, "ts": 11}])
    assert cold.view().to_pylist() == [{"k": 1, "n": 1}]
    assert warm.view().to_pylist() == again.view().to_pylist() == [{"k": 1, "n": 3}]
    ps.push("r", [{"k": 1, "a": 1, "ts": 30}])
    assert cold.status == "running"
    assert cold.view() == warm.view()


def test_missing_history_is_refused_with_the_retention_to_ask_for(ps):
    ps.push("r", [row(1), row(2)])
    with pytest.raises(HistoryError, match="RETAIN 7"):
        ps.query("SELECT k FROM r [RANGE 7]", history=True)


def test_history_joins_what_is_there():
    ps = penstock.connect(runner="inprocess")
    for s in "rs":
        ps.sql(f"CREATE STREAM {s} (k INT, v INT, ts BIGINT) TIMESTAMP BY ts RETAIN 20")
    text = "SELECT r.v AS a, s.v AS b FROM r [RANGE 9] JOIN s [RANGE 9] ON r.k = s.k WHERE r.v > {}"
    early = ps.query(text.format(0))
    ps.push("r", [{"k": 1, "v": 5, "ts": 1}, {"k": 2, "v": 6, "ts": 2}])
    ps.push("s", [{"k": 1, "v": 7, "ts": 2}, {"k": 2, "v": 8, "ts": 3}])
    ps.advance(ts=4)
    late = ps.query(text.format(5), history=True)
    assert rows(early) == [{"a": 5, "b": 7}, {"a": 6, "b": 8}]
    assert rows(late) == [{"a": 6, "b": 8}]
    ps.push("s", [{"k": 2, "v": 9, "ts": 5}])
    ps.advance(ts=5)
    assert rows(late) == [{"a": 6, "b": 8}, {"a": 6, "b": 9}]


def test_drop_retracts_the_answer_and_frees_the_state(ps):
    changes = []
    q = ps.query("SELECT k, count(*) AS n FROM r [RANGE 50] WHERE a > 3 GROUP BY k")
    other = ps.query("SELECT k, count(*) AS n FROM r [RANGE 50] WHERE a > 4 GROUP BY k")
    q.subscribe(changes.append)
    ps.push("r", [row(t, k=t % 3, a=9) for t in range(30)])
    before = sum(o["rows"] for o in ps.stats()["operators"])
    q.drop()
    assert changes[-1].column("_change_type").to_pylist() == ["delete"] * 3
    assert sum(o["rows"] for o in ps.stats()["operators"]) < before
    assert other.view().num_rows == 3
    with pytest.raises(NameError_):
        ps[q.name]
    other.drop()
    assert ps.stats()["templates"] == 0


def test_overflow_fails_one_query_and_the_others_go_on(ps):
    total = ps.query("SELECT sum(a) AS s FROM r [RANGE 5]")
    product = ps.query("SELECT a * a AS p FROM r [RANGE 5]")
    count = ps.query("SELECT count(*) AS n FROM r [RANGE 5]")
    big = 2**62
    ps.push("r", [row(1, a=big), row(2, a=big)])
    for failed in (total, product):
        assert failed.status == "failed"
        with pytest.raises(QueryFailed, match="overflow"):
            failed.view()
    assert count.view().to_pylist() == [{"n": 2}]
    ps.push("r", [row(3)])
    assert count.view().to_pylist() == [{"n": 3}]
    total.drop()


def test_overflow_of_one_parameter_row_leaves_its_siblings(ps):
    qs = ps.query_many("SELECT sum(a) AS s FROM r [RANGE 5] WHERE k = $k", pa.table({"k": [1, 2]}))
    ps.push("r", [row(1, k=1, a=2**62), row(2, k=1, a=2**62), row(2, k=2, a=5)])
    assert [q.status for q in qs] == ["failed", "running"]
    assert qs[1].view().to_pylist() == [{"s": 5}]


def test_udfs_take_and_return_arrow(ps):
    ps.register_udf("twice", lambda x: pc.multiply(x, 2), ["BIGINT"], "BIGINT")
    ps.register_udf("boom", lambda x: 1 / 0, ["BIGINT"], "BIGINT")
    good = ps.query("SELECT twice(a) AS d FROM r [RANGE 5] WHERE twice(a) > 3")
    bad = ps.query("SELECT boom(a) AS d FROM r [RANGE 5]")
    ps.push("r", [row(1, a=1), row(2, a=4)])
    assert good.view().to_pylist() == [{"d": 8}]
    assert bad.status == "failed"


def test_a_mon_query_has_changes_but_no_view(ps):
    q = ps.query("SELECT k FROM r WHERE a > 3")
    ps.push("r", [row(1, a=9)])
    assert q.changes().column("_change_type").to_pylist() == ["insert"]
    with pytest.raises(UnsupportedError, match="no view"):
        q.view()


def test_names_are_checked(ps):
    ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 5]")
    with pytest.raises(NameError_, match="already exists"):
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 5]")
    ps.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT k FROM r [RANGE 5]")
    with pytest.raises(NameError_, match="is read by v"):
        ps.sql("DROP STREAM r")
    ps.sql("DROP VIEW v; DROP STREAM r")
    with pytest.raises(NameError_):
        ps.push("r", [row(1)])
    ps.sql("DROP STREAM IF EXISTS r")


def test_emit_on_commit_shows_the_net_change_of_a_batch(ps):
    q = ps.query("SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k EMIT ON COMMIT")
    ps.push("r", [row(t) for t in range(1, 5)])
    got = q.changes()
    assert got.column("n").to_pylist() == [4]
    assert got.column("_time").to_pylist() == [4]
    ps.push("r", [row(20)])
    assert q.changes().select(["_change_type", "n"]).to_pylist() == [
        {"_change_type": "update_preimage", "n": 4},
        {"_change_type": "update_postimage", "n": 1},
    ]


def test_batches_are_numbered_and_rows_are_sequenced(ps):
    q = ps.query("SELECT k FROM r [RANGE 2]")
    ps.push("r", [row(1), row(2), row(3)])
    got = q.changes()
    assert got.column("_seq").to_pylist() == list(range(got.num_rows))
    assert len(set(got.column("_batch").to_pylist())) == 1


def test_snapshot_and_restore_go_on_where_they_were(ps):
    q = ps.query("SELECT name, count(*) AS n FROM r [RANGE 5] GROUP BY name")
    ps.push("r", [row(1, name="a"), row(2, name="b")])
    q.changes()
    other = penstock.connect(runner="inprocess", snapshot=ps.snapshot())
    for session in (ps, other):
        session.push("r", [row(4, name="b"), row(7, name="c")])
    assert other[q.name].view() == q.view()
    assert other[q.name].changes() == q.changes()


def test_checkpoint_directory_continues(tmp_path):
    script = """
        CREATE STREAM IF NOT EXISTS r (k INT, ts BIGINT) TIMESTAMP BY ts;
        CREATE TABLE IF NOT EXISTS t (k INT, label STRING);
        CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT count(*) AS n FROM r [RANGE 100];
    """
    for turn in (1, 2, 3):
        with penstock.connect(runner="inprocess", checkpoint=tmp_path / "c") as session:
            session.sql(script)
            session.push("r", [{"k": 1, "ts": turn}])
            assert session["v"].view().to_pylist() == [{"n": turn}]
    (tmp_path / "c" / "session.pickle").write_bytes(b"torn")
    with pytest.raises(StateError, match=r"session\.pickle"):
        penstock.connect(runner="inprocess", checkpoint=tmp_path / "c")


def test_file_sources_and_sinks(tmp_path):
    table = pa.table({"k": pa.array([1, 2, 1], pa.int32()), "ts": [1, 2, 3]})
    pq.write_table(table, tmp_path / "in.parquet")
    ps = penstock.connect(runner="inprocess")
    ps.sql(f"""
        CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts FROM parquet
          OPTIONS (path '{tmp_path}/in.parquet');
        CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 2] GROUP BY k;
        CREATE SINK out FROM v INTO parquet OPTIONS (path '{tmp_path}/out');
    """)
    ps.flush()
    ps.flush()  # nothing is read twice
    written = pq.read_table(tmp_path / "out")
    assert (
        written.select(["_time", "n"]).to_pylist()
        == ps["v"].changes().select(["_time", "n"]).to_pylist()
    )
    assert ps.stats()["streams"]["r"]["received"] == 3
    ps.close()


def awaited(reached):
    """Wait until a thread of the session has done something; fail if it never does."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def wall(monkeypatch):
    """A wall clock that a test moves: however slow the machine is, no time passes by itself."""
    times = [1_767_225_600_000_000]
    monkeypatch.setattr(clock, "now_us", lambda: times[0])
    return times


def test_idle_streams_no_longer_hold_others_back(wall):
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
    ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts IDLE AFTER 50 MILLISECONDS")
    q = ps.query(
        "SELECT r.k FROM r [RANGE 5] WHERE NOT EXISTS (SELECT * FROM s [RANGE 5] WHERE s.k = r.k)"
    )
    ps.push("s", [{"k": 9, "ts": 1}])
    ps.push("r", [{"k": 1, "ts": 3}])
    ps.start()
    wall[0] += 49_000
    ps.flush()
    assert q.view().num_rows == 0
    wall[0] += 2_000
    awaited(lambda: q.view().num_rows > 0)
    ps.stop()
    assert q.view().to_pylist() == [{"k": 1}]


def test_tick_follows_the_wall_clock(wall):
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, ts TIMESTAMP) TIMESTAMP BY ts TICK 20 MILLISECONDS")
    q = ps.query("SELECT count(*) AS n FROM r [RANGE 100 MILLISECONDS]")
    ps.push("r", pa.table({"k": [1], "ts": pa.array(wall, pa.timestamp("us"))}))
    ps.start()
    wall[0] += 99_000
    ps.flush()
    assert q.view().to_pylist() == [{"n": 1}]
    wall[0] += 21_000
    awaited(lambda: q.view().to_pylist() == [{"n": 0}])
    ps.stop()


def test_late_and_quarantined_rows_are_counted_and_readable(ps):
    ps.push("r", [row(10), row(12)])
    ps.push("r", [row(11), {"k": "?", "ts": 13}, row(13)])
    stats = ps.stats()["streams"]["r"]
    assert (stats["received"], stats["accepted"], stats["late"], stats["quarantined"]) == (
        5,
        3,
        1,
        1,
    )
    assert ps.late("r").column("ts").to_pylist() == [11]
    assert ps.quarantine("r").column("_reason").to_pylist() == ["k is not a valid INT"]
    assert ps.sql("SHOW LATE r") == ps.late("r")
    assert ps.sql("SHOW QUARANTINE r") == ps.quarantine("r")
    for text in ("SHOW LATE", "SHOW QUARANTINE nope", "SHOW ROWS"):
        with pytest.raises(PenstockError):
            ps.sql(text)
