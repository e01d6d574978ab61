"""The job on Spark gives what the shards give without it, whatever happens on the way."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import StateError
from penstock.spark.job import SparkJob
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
    entries = record(trades, 2)
    got = Deliveries()
    cuts = [0, 7, 20, len(entries)]
    for first, last in pairwise(cuts):
        job = SparkJob(spark, got, shards=2, checkpoint=tmp_path)
        assert job.next_entry == first + 1
        for entry in entries[first:last]:
            job.append(*entry)
        job.drain()
        job.close()
    check_results(got, entries, 2)
    assert got.repeated == 0


def test_a_second_driver_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path)
    with pytest.raises(StateError, match="PS-STATE-004"):
        SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path)
    job.close()
    SparkJob(spark, Deliveries(), shards=1, checkpoint=tmp_path).close()
