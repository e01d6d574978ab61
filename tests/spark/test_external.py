"""Rows of an external source: admitted and routed by tasks, as a push would be."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock import types as t
from penstock.arrays import BEGINNING
from penstock.engine import blocks as b
from penstock.engine.admission import admit
from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.session import Session
from penstock.session.changelog import CHANGE_TYPES
from penstock.shards import wire
from penstock.shards.intake import Intake
from penstock.shards.messages import Counts
from penstock.spark.job import SparkJob
from penstock.spark.sources import Source, parsed_values
from spark.kafka_broker import JARS
from spark.reading import counts
from spark.scenario import Deliveries, record

CREATE = "CREATE STREAM e (k INT, s STRING, ts BIGINT) TIMESTAMP BY ts DELAY 2"
QUERIES = (
    "SELECT k, count(*) AS n FROM e [RANGE 6] GROUP BY k",
    "SELECT count(*) AS n FROM e [RANGE 3] WHERE s = 'a'",
)
ROWS: list[list[dict[str, Any]]] = [
    [{"k": i % 3, "s": "ab"[i % 2], "ts": i} for i in range(20)],
    [{"k": 1, "s": "a", "ts": ts} for ts in (3, 16, 17, 22, None, 30)],
    [{"k": 2, "s": None, "ts": ts} for ts in (30, 49, 50, 55)],
]
COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string()), ("ts", pa.int64()), ("x", pa.int8())])


def script(session: Session) -> None:
    session.sql(CREATE)
    for query in QUERIES:
        session.query(query)


def expected_changes() -> Counter[tuple[Any, ...]]:
    session = penstock.connect(runner="inprocess")
    session.sql(CREATE)
    queries = [session.query(query) for query in QUERIES]
    for step, rows in enumerate(ROWS):
        if step == 2:
            session.advance("e", 50)
        session.push("e", rows)
    session.flush()
    found: Counter[tuple[Any, ...]] = Counter()
    for query in queries:
        for row in query.changes().drop_columns(["_query", "_batch", "_seq"]).to_pylist():
            kind, time, *values = row.values()
            found[(kind, BEGINNING if time is None else time, *values)] += 1
    session.close()
    return found


def changes(got: Deliveries) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for result in (r for batch in got.in_order() for r in batch.results if r.kind == "changes"):
        for row in wire.unpack_batch(result.data).to_pylist():
            _, kind, time, *values = row.values()
            found[(CHANGE_TYPES[kind].as_py(), time, *values)] += 1
    return found


@pytest.mark.parametrize("whole", [False, True])
def test_rows_of_files_are_rows_of_a_push(spark: SparkSession, tmp_path: Path, whole: bool) -> None:
    entries = record(script, 2)
    blocks = [block for entry, _ in entries for block in entry]
    schema = next(block.schema for block in blocks if isinstance(block, b.AddStream))
    if whole:
        entries = [(tuple(_retained(block) for block in entry), call) for entry, call in entries]
    routes = {r for d in blocks if isinstance(d, b.AddTemplate) for r in d.plan.routes}
    columns = None if whole else ("k", "s")
    intake = Intake(
        schema, "ts", 2, None, whole, tuple((r, columns) for r in sorted(routes, key=str))
    )
    folder = tmp_path / "in"
    folder.mkdir()
    frame = spark.readStream.schema("k long, s string, ts long, x byte").parquet(str(folder))
    got = Deliveries()
    job = SparkJob(
        spark, got, shards=2, sources={"e": Source(frame)}, intakes=lambda entry: {"e": intake}
    )
    for entry in entries:
        job.append(*entry)
    for step, rows in enumerate(ROWS):
        if step == 2:
            job.append((b.Heartbeat("e", 50),), None)
        pq.write_table(pa.Table.from_pylist(rows, COLUMNS), folder / f".{step}")
        (folder / f".{step}").rename(folder / f"{step}.parquet")
        job.drain()
    job.close()
    assert changes(got) == expected_changes()
    counts = [status["counts"].get("e", Counts()) for status in got.results("status")]
    assert sum(counts, Counts()) == Counts(30, 25, 4, 1)
    late = [
        wire.unpack_batch(data)
        for stream, kind, data in got.results("kept_out")
        if (stream, kind) == ("e", "late")
    ]
    assert sorted(t for batch in late for t in batch.column("ts").to_pylist()) == [3, 16, 30, 49]


def _retained(block: Any) -> Any:
    if isinstance(block, b.AddStream):
        return b.AddStream(block.name, block.schema, 100)
    return block


def test_rows_of_one_time_come_in_the_order_of_their_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Large files are read by several tasks, and the last row is that of the last group."""
    rows, sql = 300_000, "SELECT a FROM f [ROWS 3]"
    create = "CREATE STREAM f (a BIGINT, ts BIGINT) TIMESTAMP BY ts"
    tables = [
        pa.table({"a": [7 * n + i * rows for n in range(rows)], "ts": [5] * rows}) for i in (0, 1)
    ]
    (tmp_path / "in").mkdir()
    with (
        penstock.connect(spark=spark, shards=2) as ps,
        penstock.connect(runner="inprocess") as one,
    ):
        ps.sql(f"{create} FROM parquet OPTIONS (path '{tmp_path}/in')")
        one.sql(create)
        for n, table in enumerate(tables):
            pq.write_table(table, tmp_path / "in" / f"{n}.parquet", row_group_size=rows // 3)
            assert (tmp_path / "in" / f"{n}.parquet").stat().st_size > 1 << 20
        query, twin = ps.query(sql), one.query(sql)
        ps.flush()
        for table in tables:
            one.push("f", table)
        assert query.view().sort_by("a") == twin.view().sort_by("a")
        assert sum(batch["rows_in"] for batch in ps.progress()) == 2 * rows


def test_sources_of_one_shard_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads both in one task when nothing else is in the batch."""
    with penstock.connect(spark=spark, shards=1) as ps:
        for name in "rs":
            (tmp_path / name).mkdir()
            for n in (0, 1, 2):
                table = pa.table({"k": [n] * 5, "ts": range(5 * n, 5 * n + 5)})
                path = tmp_path / name / f"{n}.parquet"
                pq.write_table(table, path)
                os.utime(path, (1_000 + n, 1_000 + n))  # Spark reads files by age
            options = f"(path '{tmp_path}/{name}', maxFilesPerTrigger '1')"
            create = f"CREATE STREAM {name} (k INT, ts BIGINT) TIMESTAMP BY ts"
            ps.sql(f"{create} FROM parquet OPTIONS {options}")
        queries = [ps.query(f"SELECT count(*) AS n FROM {name} [RANGE 100]") for name in "rs"]
        ps.flush()
        assert [query.view()["n"].to_pylist() for query in queries] == [[15], [15]]


def test_a_source_joins_a_running_job(spark: SparkSession, tmp_path: Path) -> None:
    """The query starts again by itself; after a kill both sources go on where they were."""
    create = "CREATE STREAM {} (k INT, ts BIGINT) TIMESTAMP BY ts"
    join = "SELECT a.k, a.ts FROM a [RANGE 30] JOIN b_2 [RANGE 30] AS b ON a.k = b.k"

    def put(number: int) -> pa.Table:
        ts = list(range(20 * number, 20 * number + 20))
        table = pa.table({"k": [t % 5 for t in ts], "ts": ts})
        for stream in ("a", "b_2"):
            (tmp_path / stream).mkdir(exist_ok=True)
            pq.write_table(table, tmp_path / stream / f"{number}.parquet")
        return table

    def external(name: str) -> str:
        return f"{create.format(name)} FROM parquet OPTIONS (path '{tmp_path}/{name}')"

    one = penstock.connect(runner="inprocess")
    for name in ("a", "b_2"):
        one.sql(create.format(name))
    checkpoint = tmp_path / "checkpoint"
    table = put(0)
    ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=checkpoint)
    ps.sql(external("a"))
    for session in (ps, one):
        session.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM a [RANGE 30]")
    ps.start()
    ps.flush()
    one.push("a", table)
    assert answers(ps, "n") == answers(one, "n")
    ps.sql(external("b_2"))
    for session in (ps, one):
        session.sql(f"CREATE MATERIALIZED VIEW j AS {join}")
    pq.write_table(pa.table({"k": [7, 8], "ts": [None, 3]}), tmp_path / "bad.parquet")
    (tmp_path / "bad.parquet").rename(tmp_path / "a" / "bad.parquet")  # the job looks there
    ps.flush()
    one.push("b_2", table)
    assert answers(ps, "j") == answers(one, "j")
    ps._runner.job.close()  # as after a kill: nothing is saved
    ps._runner.answers.views.shut()
    table = put(1)
    with penstock.connect(spark=spark, checkpoint=checkpoint) as ps:
        assert (ps.late("a").num_rows, ps.quarantine("a").num_rows) == (1, 1)
        ps.flush()
        for name in ("a", "b_2"):
            one.push(name, table)
        for name in ("n", "j"):
            assert answers(ps, name) == answers(one, name) != Counter(), name
    one.close()


def test_formats_with_rows_of_their_own_are_sources(spark: SparkSession) -> None:
    """Rate has columns, a socket lines of JSON; neither comes to an end."""
    lines = "".join(json.dumps({"k": n % 3, "ts": n}) + "\n" for n in range(20)) + "no json\n"
    connections: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connections.append(server.accept()[0])
                connections[-1].sendall(lines.encode())

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        penstock.connect(spark=spark, shards=1) as ps,
    ):
        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(DataError, match=r"PS-SRC-009(.|\n)*timestamp TIMESTAMP, value BIGINT"):
            ps.sql(
                "CREATE STREAM r (n BIGINT, timestamp TIMESTAMP) TIMESTAMP BY timestamp FROM rate"
            )
        ps.sql(
            "CREATE STREAM r (Value BIGINT, timestamp TIMESTAMP) TIMESTAMP BY timestamp FROM rate"
        )
        port = server.getsockname()[1]
        ps.sql(
            "CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts "
            f"FROM socket OPTIONS (host '127.0.0.1', port {port})"
        )
        came = threading.Event()

        def look(record: dict[str, Any]) -> None:
            told = ps.stats()["streams"]
            if told["s"]["received"] == 21 and told["r"]["received"]:
                came.set()

        ps.on_progress(look)
        top = ps.query("SELECT max(value) AS top FROM r [RANGE 1 HOUR]")
        query = ps.query("SELECT k, count(*) AS n FROM s [RANGE 100] GROUP BY k")
        ps.start()
        assert came.wait(300)
        told = ps.stats()["streams"]
        assert (told["r"]["accepted"] > 0, told["r"]["quarantined"]) == (True, 0)
        assert top.view()["top"].to_pylist()[0] >= 0
        assert sorted(query.view()["n"].to_pylist()) == [6, 7, 7]
        assert ps.quarantine("s").num_rows == 1
    for connection in connections:
        connection.close()


JSON_TEXTS = [
    b'{"k": 1, "at": "2024-05-01T12:00:00Z", "more": [1]}',
    b'{"k": 2, "at": "2024-05-01T14:00:00.5+02:00"}',
    b'{"at": "2024-05-01 12:00:01.123456789"}',
    b"no json", b"\x00\x01\xff\xfe", b'{"k": 1, "s": "\xff", "at": "2024-05-01 12:00:00"}',
    b'{"k": 1.5, "at": "2024-05-01 12:00:00"}', b'{"k": 1, "at": 1714564800000}', b'{"k": 1}',
]  # fmt: skip
"""Three rows and what is none: bytes that are not UTF-8 must not stop a job for ever."""
JSON_TIMES = [f"2024-05-01 12:00:0{s}" for s in ("0", "0.500000", "1.123456")]
JSON_SCHEMA = Schema((Field("k", t.INT), Field("s", t.STRING), Field("at", t.TIMESTAMP)))


def test_messages_that_are_no_rows_are_kept_out(spark: SparkSession) -> None:
    twice, more = JSON_TEXTS[0] + b"\n" + JSON_TEXTS[1], JSON_TEXTS[0] + b" more"
    values = [(bytearray(text),) for text in [*JSON_TEXTS, twice, more, b""]]
    frame = spark.createDataFrame([*values, (None,)], "value binary")
    rows = parsed_values(frame, JSON_SCHEMA).toArrow()
    found = admit(rows, JSON_SCHEMA, "at", 0, None, BEGINNING, 0)
    assert sorted(str(at) for at in found.accepted.column("at").to_pylist()) == JSON_TIMES
    assert (found.received, found.quarantined.num_rows) == (13, 10)
    reasons = Counter(r.split(":")[0] for r in found.quarantined["_reason"].to_pylist())
    assert reasons == {"malformed row": 7, "at is a number, not a TIMESTAMP": 1, "at is NULL": 2}


def test_lines_that_are_no_rows_are_kept_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_bytes(b"\n".join(JSON_TEXTS))
    with penstock.connect(spark=spark, shards=1) as ps:
        columns = "k INT, s STRING, at TIMESTAMP"
        source = f"FROM json OPTIONS (path '{tmp_path}')"
        ps.sql(f"CREATE STREAM e ({columns}) TIMESTAMP BY at {source}")
        query = ps.query("SELECT at FROM e [RANGE 1 HOUR]")
        ps.flush()
        assert sorted(str(at) for at in query.view()["at"].to_pylist()) == JSON_TIMES
        assert counts(ps, "e")["quarantined"] == 6


@pytest.mark.skipif(JARS is not None, reason="Spark has the connector")
def test_kafka_without_its_connector_says_how_to_get_it(spark: SparkSession) -> None:
    with penstock.connect(spark=spark, shards=1) as ps:
        source = "FROM kafka OPTIONS (kafka.bootstrap.servers 'host:9092', subscribe 't')"
        with pytest.raises(DataError, match=r"(?s)PS-DATA-008.*remedy: .*spark-sql-kafka-0-10"):
            ps.sql(f"{CREATE} {source}")


def answers(session: Any, view: str) -> Counter[tuple[Any, ...]]:
    table = session[view].view()
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
