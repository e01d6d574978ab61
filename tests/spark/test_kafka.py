"""Streams from Kafka and sinks into it, on a broker of the tests' own (`make kafka`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from oracle.fold import SIGNS, bag, rows_of
from penstock.errors import DataError, PenstockError
from spark.kafka_broker import JARS, broker, free_ports
from spark.reading import counts

pytestmark = pytest.mark.skipif(
    JARS is None, reason="PENSTOCK_KAFKA_JARS names no folder with Kafka's jars: make kafka"
)
CREATE = "CREATE STREAM clicks (k INT, a BIGINT, s STRING, ts BIGINT) TIMESTAMP BY ts DELAY 3"
VIEWS = {
    "groups": "SELECT k, count(*) AS n, sum(a) AS total FROM clicks [RANGE 20] GROUP BY k",
    "some": "SELECT k, a, s FROM clicks [RANGE 20] WHERE a > 10",
}
Row = dict[str, Any]
PARTITIONS = 2


@pytest.fixture(scope="module")
def kafka(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    assert JARS is not None
    with broker(JARS, tmp_path_factory.mktemp("broker")) as address:
        yield Kafka(spark, address)


class Kafka:
    """Topics of a broker."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self.spark = spark
        self.address = address

    def make(self, *topics: str) -> None:
        jvm: Any = self.spark._jvm
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", self.address)
        clients = jvm.org.apache.kafka.clients.admin
        admin = clients.AdminClient.create(settings)
        admin.createTopics([clients.NewTopic(t, PARTITIONS, 1) for t in topics]).all().get()
        admin.close()

    def send(self, topic: str, values: Sequence[Row | str | bytes | None]) -> None:
        """Messages, to one partition after the other."""
        rows = [(as_bytes(value), n % PARTITIONS) for n, value in enumerate(values)]
        frame = self.spark.createDataFrame(rows, "value binary, partition int").coalesce(1)
        options = {"kafka.bootstrap.servers": self.address, "topic": topic}
        frame.write.format("kafka").options(**options).save()

    def read(self, topic: str) -> list[tuple[str, Row]]:
        """Keys and values, in the order of partitions and offsets."""
        options = {"kafka.bootstrap.servers": self.address, "subscribe": topic}
        frame = self.spark.read.format("kafka").options(**options).load()
        found = frame.orderBy("partition", "offset").collect()
        return [(row["key"].decode(), json.loads(row["value"])) for row in found]

    def source(self, topic: str, more: str = "") -> str:
        return (
            f"FROM kafka OPTIONS (kafka.bootstrap.servers '{self.address}', subscribe '{topic}', "
            f"startingOffsets 'earliest'{more})"
        )

    def sink(self, topic: str, more: str = "") -> str:
        return (
            f"INTO kafka OPTIONS (kafka.bootstrap.servers '{self.address}', topic '{topic}'{more})"
        )


def as_bytes(value: Row | str | bytes | None) -> bytearray | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return bytearray(value)
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())


def rows(*times: int) -> list[Row]:
    return [{"k": ts % 3, "a": ts, "s": f"é{ts}", "ts": ts} for ts in times]


POISON: list[str | bytes | None] = [
    "no json", "", None, b"\x00\x00\x01\xff\xfe", b'{"k": 1, "s": "\xff", "ts": 40}', "7", "null",
    '{"k": 1, "a": 1}', '{"k": "x", "ts": 40}', '{"k": 1.5, "ts": 40}', '{"k": 1, "ts": 40',
    '{"k": 100000000000, "ts": 40}', '[{"k": 1, "ts": 40}, {"k": 2, "ts": 40}]',
    '{"k": 1, "ts": 40}\n{"k": 2, "ts": 40}',
]  # fmt: skip
BATCHES: list[list[Row]] = [
    rows(*range(20)),
    rows(25, 21, 24, 2, 22, 5, 23, 40),  # 2 and 5 are late
    rows(39, 41, 38, 30, 45),  # 30 too
    rows(50, 49, 52),
]
LATE = [2, 5, 30]


def test_nothing_is_lost_or_doubled(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """Out of order, late and malformed messages; a batch that fails after it was sent; restarts."""
    kafka.make("clicks", "groups")
    one: Any = penstock.connect(runner="inprocess")
    one.sql(CREATE)
    ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=tmp_path)
    kafka.send("clicks", BATCHES[0])
    ps.sql(f"{CREATE} {kafka.source('clicks')}")
    for name, select in VIEWS.items():
        for session in (ps, one):
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {select}")
    ps.sql(f"CREATE SINK out FROM groups {kafka.sink('groups')}")
    step(ps, one, BATCHES[0])
    kafka.send("clicks", [*POISON, *BATCHES[1]])
    step(ps, one, BATCHES[1])
    ps = abandoned(ps, spark, tmp_path)
    kafka.send("clicks", BATCHES[2])
    ps["groups"].foreach_batch(broken)  # the sink before it has the batch
    with pytest.raises(PenstockError, match=r"PS-RUN-002"):
        ps.flush()
    ps = abandoned(ps, spark, tmp_path)
    step(ps, one, BATCHES[2])
    ps.close()
    kafka.send("clicks", BATCHES[3])
    ps = penstock.connect(spark=spark, checkpoint=tmp_path)
    step(ps, one, BATCHES[3])
    assert counts(ps, "clicks") == {
        "received": sum(map(len, BATCHES)) + len(POISON),
        "accepted": sum(map(len, BATCHES)) - len(LATE),
        "late": len(LATE),
        "quarantined": len(POISON),
    }
    assert sorted(ps.late("clicks")["ts"].to_pylist()) == LATE
    sent = kafka.read("groups")
    assert {key for key, _ in sent} == {"groups"}
    known = {(change["_batch"], change["_seq"]): change for _, change in sent}
    assert len(known) < len(sent), "no batch came again"
    assert all(known[change["_batch"], change["_seq"]] == change for _, change in sent)
    assert folded(known.values()) == bag(rows_of(one["groups"].view()))
    ps.close()
    one.close()


def step(ps: Any, one: Any, batch: list[Row]) -> None:
    """The same rows in both sessions give the same answers."""
    ps.flush()
    one.push("clicks", batch)
    for name in VIEWS:
        assert bag(rows_of(ps[name].view())) == bag(rows_of(one[name].view())) != Counter(), name


def abandoned(ps: Any, spark: SparkSession, checkpoint: Path) -> Any:
    """Go on as after a kill: the session has no time to save anything."""
    ps._runner.job.close()
    ps._runner.answers.views.shut()
    return penstock.connect(spark=spark, checkpoint=checkpoint)


def broken(frame: DataFrame, batch: int) -> None:
    raise OSError("the disk is full")


def folded(changes: Any) -> Counter[Any]:
    """The view that a topic's changes amount to."""
    held: Counter[Any] = Counter()
    for change in changes:
        row = tuple(value for name, value in change.items() if not name.startswith("_"))
        held[row] += SIGNS[change["_change_type"]]
    assert min(held.values()) >= 0
    return +held


def test_options_are_sparks(spark: SparkSession, kafka: Kafka) -> None:
    kafka.make("bounded", "keyed")
    kafka.send("bounded", rows(*range(10)))
    with penstock.connect(spark=spark, shards=1) as ps:
        bounded = kafka.source("bounded", ", maxOffsetsPerTrigger 4")
        ps.sql(f"{CREATE} {bounded}")
        offsets = json.dumps({"bounded": {"0": 3, "1": -1}})
        later = bounded.replace("earliest", offsets)
        ps.sql(f"{CREATE.replace('clicks', 'later')} {later}")
        select = "SELECT k, count(*) AS n FROM clicks [RANGE 50] GROUP BY k"
        ps.sql(f"CREATE MATERIALIZED VIEW q AS {select}")
        keyed = kafka.sink("keyed", ", KEY 'k'")
        ps.sql(f"CREATE SINK out FROM q {keyed}")
        ps.flush()
        assert max(batch["streams"]["clicks"]["rows_in"] for batch in ps.progress()) == 4
        told = ps.stats()["streams"]
        assert (told["clicks"]["accepted"], told["later"]["accepted"]) == (10, 2)
        assert sum(ps["q"].view()["n"].to_pylist()) == 7  # up to the DELAY
    assert {int(key) == change["k"] for key, change in kafka.read("keyed")} == {True}


def test_times_are_text_with_or_without_a_zone(spark: SparkSession, kafka: Kafka) -> None:
    kafka.make("times")
    times = ["2024-05-01T12:00:00Z", "2024-05-01T14:00:00.5+02:00", "2024-05-01 12:00:01"]
    kafka.send("times", [{"at": at} for at in [*times, 1714564800000, "yesterday"]])
    with penstock.connect(spark=spark, shards=1) as ps:
        ps.sql(f"CREATE STREAM t (at TIMESTAMP) TIMESTAMP BY at {kafka.source('times')}")
        query = ps.query("SELECT at FROM t [RANGE 1 HOUR]")
        ps.flush()
        found = sorted(str(at) for at in query.view()["at"].to_pylist())
        assert found == ["2024-05-01 12:00:00", "2024-05-01 12:00:00.500000", "2024-05-01 12:00:01"]
        assert counts(ps, "t")["quarantined"] == 2


def test_what_is_not_there_is_told_at_once(spark: SparkSession, kafka: Kafka) -> None:
    kafka.make("there")
    (port,) = free_ports(1)
    with penstock.connect(spark=spark, shards=1) as ps:
        ps.sql(f"{CREATE}; CREATE MATERIALIZED VIEW v AS {VIEWS['groups']}")
        stream, sink = "CREATE STREAM x (ts BIGINT) TIMESTAMP BY ts ", "CREATE SINK o FROM v "
        nobody, unknown = (Kafka(spark, at) for at in (f"127.0.0.1:{port}", "no.such.host:9092"))
        for sql, said in {
            stream + kafka.source("there, missing"): "PS-DATA-008.*no topic missing",
            stream + nobody.source("there"): f"PS-DATA-008.*no server answers .*{port}",
            stream + unknown.source("there"): "PS-DATA-008.*no server answers at no.such",
            stream + "FROM kafka OPTIONS (subscribe 't')": "PS-DATA-008.*bootstrap.servers",
            sink + kafka.sink("missing"): "PS-SINK-004.*no topic missing",
            sink + nobody.sink("there"): f"PS-SINK-004.*no server answers .*{port}",
        }.items():
            with pytest.raises(DataError, match=f"(?s){said}.*remedy: ") as error:
                ps.sql(sql)
            assert "\tat " not in str(error.value)
