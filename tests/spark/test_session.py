"""Sessions on Spark against the same calls in process: sources, faults, time."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from oracle.fold import bag, rows_of
from penstock.errors import DataError, NameError_, PenstockError, QueryFailed, StateError
from property.crowds import seen, shown
from spark.goldens import net
from spark.ledger import SCHEMAS, make_input
from spark.reading import counts, views

R = "CREATE STREAM r (k INT, v BIGINT, ts BIGINT) TIMESTAMP BY ts DELAY 20"
S = "CREATE STREAM s (k INT, w STRING, ts BIGINT) TIMESTAMP BY ts DELAY 1000"
P = "CREATE STREAM p (k INT, n BIGINT, ts BIGINT) TIMESTAMP BY ts"
OVER_FILES = (
    "SELECT k, count(*) AS n, sum(v) AS total FROM r [RANGE 300] GROUP BY k",  # 97 % of one k
    "SELECT count(*) AS n, max(v) AS top FROM r [RANGE 100]",
    "SELECT r.k, r.v, s.w FROM r [RANGE 80], s [RANGE 80] WHERE r.k = s.k AND r.k <> 7",
    "SELECT k FROM r [RANGE 200] EXCEPT SELECT k FROM s [RANGE 200]",
    "SELECT k, w, ts FROM s [RANGE 50] WHERE w = 'a'",
)


@pytest.fixture
def sessions(spark: SparkSession) -> Iterator[tuple[Any, Any]]:
    """One on Spark, and its twin in process."""
    with penstock.connect(spark=spark, shards=2) as ps, penstock.connect(runner="inprocess") as one:
        yield ps, one


def files_of(directory: Path, stream: str) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted((directory / stream).glob("*.parquet"))]


def poisoned_json(directory: Path) -> Path:
    """The rows of s as JSON lines, some of which are none."""
    lines = []
    for table in files_of(directory, "s"):
        lines += [json.dumps(row) for row in table.to_pylist()]
    lines[5:5] = ["{not json", '{"k": "seven", "w": "a", "ts": 12}', '{"k": 1, "ts": []}']
    (directory / "s_json").mkdir()
    (directory / "s_json" / "0.json").write_text("\n".join(lines) + "\n")
    return directory / "s_json"


def test_external_streams_are_as_in_process(
    spark: SparkSession, sessions: tuple[Any, Any], tmp_path: Path
) -> None:
    make_input(tmp_path, seed=3, files=4)
    lines = poisoned_json(tmp_path)
    ps, one = sessions
    (tmp_path / "frame").mkdir()
    frame = spark.readStream.schema("k INT, n BIGINT, ts BIGINT").json(str(tmp_path / "frame"))
    ps.sql(f"{R} RETAIN 300 FROM parquet OPTIONS (path '{tmp_path}/r', maxFilesPerTrigger '1')")
    ps.sql(f"{S} FROM json OPTIONS (path '{lines}')")
    ps.stream("f", frame, time="ts", delay="0")
    ps.sql(f"{P}; CREATE TABLE names (k INT, name STRING)")
    one.sql(f"{R} RETAIN 300; {S} FROM json OPTIONS (path '{lines}/*.json')")
    one.sql(f"{P.replace(' p ', ' f ')}; {P}; CREATE TABLE names (k INT, name STRING)")
    texts = [*OVER_FILES, "SELECT sum(n) AS n FROM f [RANGE 10]"]
    queries = [[session.query(text) for text in texts] for session in (ps, one)]
    with pytest.raises(DataError, match="PS-DATA-010"):
        ps.push("r", [])
    with pytest.raises(NameError_, match="PS-NAME-009"):
        ps.sql("DROP STREAM f")

    ps.flush()
    for table in files_of(tmp_path, "r"):
        one.push("r", table)
    one.flush()
    with pytest.raises(StateError, match="PS-STATE-008"):
        ps.sql(f"{S.replace(' s ', ' more ')} FROM json OPTIONS (path '{lines}')")
    for stream in ("r", "s"):
        assert counts(ps, stream) == counts(one, stream)
        assert counts(ps, stream)["quarantined"] > 0
    assert counts(ps, "r")["late"] > 0
    assert bag(rows_of(ps.late("r").select(["k", "v", "ts"]))) == bag(
        rows_of(one.late("r").select(["k", "v", "ts"]))
    )
    assert ps.quarantine("s").num_rows == one.quarantine("s").num_rows
    assert all(ps.quarantine("s")["_reason"].to_pylist())

    history = "SELECT k, sum(v) AS total FROM r [RANGE 150] GROUP BY k"
    for found, session in zip(queries, (ps, one), strict=True):
        found.append(session.query(history, history=True))
        session.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
        found.append(session.query("SELECT name, n FROM p [RANGE 9], names WHERE p.k = names.k"))
        session.push("p", [{"k": k, "n": k, "ts": k} for k in range(4)])
        session.sql("UPDATE names SET name = 'eins' WHERE k = 1")
        session.advance("s", 390)  # f stays silent, and holds nobody back
        session.flush()
    same_answers(ps, one, queries)
    rows = [{"k": 0, "n": n, "ts": n} for n in range(5)]
    one.push("f", rows)
    (tmp_path / "frame" / "0.json").write_text("\n".join(map(json.dumps, rows)))
    ps.flush()
    assert ps[queries[0][5].name].view().to_pylist() == [{"n": 10}]
    assert queries[1][5].view().to_pylist() == [{"n": 10}]
    latest = ps.progress()[-1]
    assert latest.keys() >= {"batch", "rows_in", "changes_out", "seconds", "streams", "entry"}
    assert sum(record["rows_in"] for record in ps.progress()) == sum(
        counts(ps, stream)["received"] for stream in ("r", "s", "f", "p")
    )


def same_answers(ps: Any, one: Any, queries: list[list[Any]]) -> None:
    """The queries of two sessions changed alike, and hold the same."""
    held = views(ps, queries[0])
    for ours, theirs in zip(*queries, strict=True):
        assert net(ours.changes(), True) == net(theirs.changes(), True), ours.name
        assert held[ours] == bag(rows_of(theirs.view())), ours.name


def test_faults_stay_local(sessions: tuple[Any, Any]) -> None:
    ps, one = sessions
    told: list[pa.Table] = []
    trouble: list[PenstockError] = []
    params = [{"qid": f"over{i}", "low": i} for i in range(1000)]
    queries: list[list[Any]] = []
    for session in (ps, one):
        session.sql(P)
        session.register_udf("half", lambda n: pc.divide(n, 2), ["BIGINT"], "BIGINT")
        queries.append(
            [
                session.query(
                    "SELECT half(n) AS h, count(*) AS c FROM p [RANGE 9] GROUP BY half(n)"
                ),
                *session.query_many("SELECT k, n FROM p [RANGE 9] WHERE n > $low", params)[:20],
            ]
        )
    overflows = ps.query("SELECT k, n FROM p [RANGE 9] WHERE n * 4 > 8")
    gone = ps.query("SELECT n FROM p [RANGE 9] WHERE k = 3")

    def listen(table: pa.Table) -> None:
        told.append(table)
        if not trouble:
            with pytest.raises(PenstockError) as caught:
                gone.view()
            trouble.append(caught.value)
            raise ValueError("a subscriber's fault")

    ps["over0"].subscribe(listen)
    frames: list[tuple[int, int, set[str]]] = []

    def take(frame: DataFrame, batch: int) -> None:
        rows = frame.select("_query", "_batch").collect()
        frames.append((batch, len(rows), {r._query for r in rows}))
        assert {r._batch for r in rows} <= {batch}

    ps["over1"].foreach_batch(take, whole_template=True)
    for session in (ps, one):
        session.push("p", [{"k": i % 5, "n": i, "ts": i // 10} for i in range(60)])
    with pytest.raises(PenstockError, match="PS-RUN-002"):
        ps.flush()
    assert trouble[0].code == "PS-RUN-004"
    assert set.union(*(names for _, _, names in frames)) == {f"over{i}" for i in range(59)}
    assert sum(rows for _, rows, _ in frames) == sum(range(60))  # n > low, inserted once
    for session in (ps, one):
        session.push("p", [{"k": 9, "n": 2**63 - 1, "ts": 7}, {"k": 3, "n": -1, "ts": 8}])
    ps.flush()
    ps.flush()  # the failed query is dropped everywhere
    assert overflows.status == "failed"
    assert not net(overflows.changes(), False)
    with pytest.raises(QueryFailed):
        overflows.view()
    gone.drop()
    assert not net(gone.changes(), False)  # waits for the shards
    ps.stop()
    for session in (ps, one):
        session.push("p", [{"k": 2, "n": 5, "ts": 12}])
        session.flush()
    assert len(ps.sql("SHOW QUERIES")) == 1002
    assert sum(map(len, told)) == len(ps["over0"].changes())
    for found in queries:
        del found[1]
    same_answers(ps, one, queries)


def test_many_queries_at_once_are_as_in_process(sessions: tuple[Any, Any], tmp_path: Path) -> None:
    text = "SELECT k, n FROM p [RANGE 4] WHERE n BETWEEN $lo AND $hi EMIT CHANGES PER ROW"
    params = [{"qid": f"from{i}", "lo": i, "hi": i + 3} for i in range(40)]
    told: list[list[Counter[Any]]] = []
    for session in sessions:
        heard: list[pa.Table] = []
        session.sql(P)
        queries = session.query_many(text, params)
        queries.subscribe(heard.append)
        options = f"path '{tmp_path / str(len(told))}', whole_template 'true'"
        session.sql(f"CREATE SINK s FROM from7 INTO json OPTIONS ({options})")
        session.push("p", [{"k": i % 5, "n": i % 50, "ts": i // 20} for i in range(100)])
        queries[3].drop()
        answer = shown(queries.view())
        session.sql("DROP SINK s")
        queries.drop()
        told.append([answer, seen(queries.changes()), sum(map(seen, heard), Counter())])
    assert told[0] == told[1]
    assert told[0][1] == told[0][2]
    shares = [(flow["streams"], flow["templates"]) for flow in sessions[0].stats()["flows"]]
    assert shares == []  # they are dropped, and so are their flows
    assert {shard["level"] for shard in sessions[0].stats()["shards"]} == {1, 2}
    files = [[p.read_text() for p in (tmp_path / n).rglob("*.json")] for n in "01"]
    written = [
        Counter(
            (str(sorted(row["_query"])), row["k"], row["n"], row["_change_type"]) for row in rows
        )
        for rows in ([json.loads(x) for text in some for x in text.splitlines()] for some in files)
    ]
    assert written[0] == written[1] != Counter()


def test_time_moves_on_a_silent_stream(spark: SparkSession) -> None:
    ps: Any = penstock.connect(spark=spark, shards=1)
    ps.sql("CREATE STREAM r (k INT, ts TIMESTAMP) TIMESTAMP BY ts TICK 200 MILLISECONDS")
    q = ps.query("SELECT k FROM r [RANGE 1 SECOND]")
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)  # a tick may have come
    ps.push("r", [{"k": 1, "ts": soon}])
    seen = threading.Event()
    q.subscribe(lambda t: seen.set() if "delete" in t["_change_type"].to_pylist() else None)
    ps.start()
    assert seen.wait(120), "the row never left its window"
    ps.close()
    with pytest.raises(PenstockError, match="PS-RUN-003"):
        q.view()


def test_the_schemas_of_the_ledger_are_those_of_the_streams() -> None:
    session = penstock.connect(runner="inprocess")
    session.sql(R)
    session.sql(S)
    for name, schema in SCHEMAS.items():
        assert session._books.catalog.relation(name).schema.arrow() == schema  # type: ignore[union-attr]
