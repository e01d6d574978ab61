"""The job on Spark gives what the shards give without it, whatever happens on the way."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import PenstockError, StateError
from penstock.session import Session
from penstock.shards import wire
from penstock.shards.job import JobBatch
from penstock.spark import pickling
from penstock.spark.job import SparkJob
from penstock.spark.shard_processor import LOG_WEIGHT
from spark.scenario import Deliveries, check_results, record, trades


@pytest.mark.parametrize("shards", [1, 2])
def test_results_are_those_of_the_shards_without_spark(spark: SparkSession, shards: int) -> None:
    entries = record(trades, shards)
    got = Deliveries()
    job = SparkJob(spark, got, shards=shards)
    try:
        for n, entry in enumerate(entries):
            assert job.append(*entry) == n + 1
            if n in (2, len(entries) // 2):
                job.drain()
        job.drain()
    finally:
        job.close()
    check_results(got, entries, shards)
    assert got.results("status")[-1]["watermarks"] == {"r": 40, "t": 40}


def test_a_restart_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """From the arenas, from the log without them, and from a snapshot without them."""
    entries = record(trades, 2)
    got = Deliveries()
    lives = [(LOG_WEIGHT, False), (LOG_WEIGHT, True), (1, True), (1, False)]
    cuts = [0, 9, 17, 25, len(entries)]
    for (first, last), (log_weight, lose_arenas) in zip(pairwise(cuts), lives, strict=True):
        before = len(got.results("shard"))
        job = SparkJob(spark, got, shards=2, checkpoint=tmp_path, log_weight=log_weight)
        assert job.next_entry == first + 1
        for entry in entries[first:last]:
            job.append(*entry)
        job.drain()
        job.close()
        told = got.results("shard")[before:]
        written = {(t["level"], t["shard"]) for t in told if t["snapshot_bytes"]}
        assert len(written) == 4 or (log_weight, lose_arenas) != (1, True)
        if lose_arenas:
            shutil.rmtree(job._arenas())
    check_results(got, entries, 2)
    assert got.repeated == 0


def test_a_batch_that_was_not_committed_is_delivered_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    entries = record(trades, 2)
    got = Deliveries()

    def fails_once(batch: JobBatch) -> None:
        got(batch)
        if batch.number == 2 and not got.repeated:
            raise PenstockError("the disk of the receiver is full")

    job = SparkJob(spark, fails_once, shards=2, checkpoint=tmp_path)
    for entry in entries[:10]:
        job.append(*entry)
    job.drain()
    for entry in entries[10:]:
        job.append(*entry)
    with pytest.raises(PenstockError, match="the disk of the receiver is full"):
        job.drain()
    job.close()
    job = SparkJob(spark, fails_once, shards=2, checkpoint=tmp_path)
    job.drain()
    job.close()
    assert got.repeated == 1
    check_results(got, entries, 2)


def test_a_worker_that_dies_does_no_harm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "dumps", pickling.dumps)  # the shards without Spark need it too
    died, driver = tmp_path / "died", os.getpid()

    def dies_once(values: pa.Array) -> pa.Array:
        if os.getpid() != driver and not died.exists():
            died.touch()
            os._exit(1)
        return values

    def script(session: Session) -> None:
        session.register_udf("same", dies_once, ["BIGINT"], "BIGINT")
        session.sql("CREATE STREAM r (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
        session.query("SELECT same(k) AS k, count(*) AS n FROM r [RANGE 5] GROUP BY same(k)")
        session.push("r", [{"k": i % 3, "ts": i} for i in range(20)])

    entries = record(script, 2)
    got = Deliveries()
    job = SparkJob(spark, got, shards=2)
    for entry in entries:
        job.append(*entry)
    job.drain()
    job.close()
    assert died.exists()
    check_results(got, entries, 2)


def test_a_second_driver_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path)
    with pytest.raises(StateError, match="PS-STATE-004"):
        SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path)
    job.close()
    SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path).close()


def test_what_fails_in_a_shard_is_said_without_java(spark: SparkSession) -> None:
    got = Deliveries()
    job = SparkJob(spark, got, shards=1)
    job.append(("no block",), None)  # type: ignore[arg-type]
    with pytest.raises(PenstockError) as raised:
        job.drain()
    job.close()
    assert raised.value.code == "PS-SPARK-002"
    assert "KeyError: <class 'str'>" in raised.value.message
    assert "\tat " not in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 2


def test_the_session_keeps_its_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    job = SparkJob(spark, Deliveries(), shards=1)
    job.start()
    job.close()
    assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
