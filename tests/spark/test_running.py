"""Calls while batches run, calls of a job that is dead, reads of queries that have failed."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from oracle.failing import NAMES, expected, told
from oracle.fold import SIGNS
from oracle.running import CALLS, R, Running, rows_of_file
from penstock.errors import PenstockError

FILES, FIRST, THREADS, LENGTH = 7, 3, 3, 6
P = "CREATE STREAM p (k BIGINT, n BIGINT, ts BIGINT) TIMESTAMP BY ts"


def put_file(directory: Path, n: int) -> None:
    """One file of rows; Spark reads the oldest first, and sees none that is half written."""
    path = directory.parent / f"{n}.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of_file(n), schema=R), path)
    os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))
    path.rename(directory / path.name)


def test_a_dead_job_is_told_by_every_call_until_it_is_started_again(spark: SparkSession) -> None:
    ps: Any = penstock.connect(spark=spark, shards=2)
    ps.sql(f"{P}; CREATE TABLE t (x BIGINT)")
    query, other = ps.query("SELECT k, n FROM p [RANGE 50]"), ps.query("SELECT k FROM p [RANGE 5]")
    many = ps.query_many("SELECT n FROM p [RANGE 50] WHERE k > $k", [{"k": 1}, {"k": 2}])
    ps.push("p", [{"k": 3, "n": 1, "ts": 1}])
    assert query.view().num_rows == 1  # kept from here on
    broken = ["the disk is full"]

    def write(frame: Any, batch: int) -> None:
        if broken:
            raise OSError(broken[0])

    query.foreach_batch(write)
    ps.start()
    ps.push("p", [{"k": 4, "n": 2, "ts": 2}])
    wait_for(lambda: bool(query.status == "failed"))
    with pytest.raises(PenstockError, match=r"(?s)the disk is full.*remedy: ") as caught:
        ps.flush()
    calls: list[Callable[[], Any]] = [
        query.view, other.view, many.view, query.explain, ps.stats, ps.flush,
        lambda: query.subscribe(print), lambda: many.subscribe(print),
        lambda: query.foreach_batch(print), lambda: ps.on_progress(print),
        lambda: ps.push("p", [{"k": 5, "n": 3, "ts": 3}]), lambda: ps.advance("p", 9),
        lambda: ps.sql("SHOW QUERIES"), lambda: ps.sql("INSERT INTO t VALUES (1)"),
        lambda: ps.sql("CREATE TABLE u (x BIGINT)"), lambda: ps.late("p"),
        lambda: ps.quarantine("p"), lambda: ps.query("SELECT n FROM p [RANGE 5]"),
        lambda: ps.query_many("SELECT n FROM p [RANGE 50] WHERE k > $k", [{"k": 3}]),
        lambda: ps.register_udf("same", lambda x: x, ["BIGINT"], "BIGINT"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(PenstockError) as found:
            call()
        assert str(found.value) == str(caught.value)
    for read in (query, many):
        assert read.changes().num_rows > 0  # what had come before
        with pytest.raises(PenstockError, match="the disk is full"):
            read.changes()
    assert [r for r in ps.progress() if r["rows_in"]]
    ps.stop()
    with pytest.raises(PenstockError, match="the disk is full"):
        query.view()
    other.drop()  # what may mend a job can be dropped
    broken.clear()
    ps.start()
    assert query.view().to_pylist() == [{"k": 3, "n": 1}, {"k": 4, "n": 2}]
    assert query.changes()["k"].to_pylist() == [4]
    assert ps.stats()["streams"]["p"]["received"] == 2
    assert ps.sql("SHOW QUERIES").num_rows == 3
    broken.append("full again")
    ps.push("p", [{"k": 5, "n": 3, "ts": 3}])
    wait_for(lambda: bool(query.status == "failed"))
    with pytest.raises(PenstockError, match="full again"):  # nobody was told
        ps.close()
    with pytest.raises(PenstockError, match="PS-RUN-003"):
        query.view()


def test_the_first_read_of_a_failed_query_says_why(spark: SparkSession) -> None:
    def choosy(values: pa.Array) -> pa.Array:
        if 9 in values.to_pylist():
            raise ValueError("9 is too much")
        return values

    with penstock.connect(spark=spark, shards=2) as ps:
        assert told(ps, choosy) == expected(NAMES)


def test_answers_of_a_running_job_are_those_of_its_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, out = tmp_path / "r", tmp_path / "out"
    files.mkdir()
    for n in range(FIRST):
        put_file(files, n)
    rng = Random(12)
    plans = [[rng.choice(CALLS) for _ in range(LENGTH)] for _ in range(THREADS)]
    plans[0] = ["view", "view", *plans[0]]
    with penstock.connect(spark=spark, shards=2) as ps:
        source = f" FROM parquet OPTIONS (path '{files}', maxFilesPerTrigger 1)"
        running = Running(ps, source, tick="2 SECONDS")
        ps.sql(f"CREATE SINK out FROM grouped INTO json OPTIONS (path '{out}')")
        ps.start()
        wait_for(lambda: sum(r["rows_in"] > 0 for r in ps.progress()) >= FIRST)

        def feed() -> None:
            for n in range(FIRST, FILES):
                put_file(files, n)
                time.sleep(0.4)

        running.call_all(plans, 12, feed)
        running.check(FILES)
        assert written(out) == Counter(
            (batch, sign, row[1:]) for batch, sign, row in running.queries["grouped"].changes
        )


def written(directory: Path) -> Counter[tuple[Any, ...]]:
    """The changes in a sink's files."""
    lines = [
        line for path in directory.glob("part-*.json") for line in path.read_text().splitlines()
    ]
    found = map(json.loads, lines)
    return Counter(
        (c["_batch"], SIGNS[c["_change_type"]], (c["k"], c["n"], c["total"])) for c in found
    )


def wait_for(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + 90
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.05)
