"""On Spark: a batch that is run twice, and files of a source that are written again.

A change is told once, and a row is read once, whatever comes again.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from faults import spark_world as world
from faults.test_spark_disk import bring_all, check, fails, written
from oracle.fold import Fold, Values, bag, changes_of, rows_of
from penstock.spark.job import SparkJob
from spark.conftest import spark

__all__ = ["spark"]


def folded(session: Any, name: str) -> Counter[Values]:
    """What the changes of a query come to; none takes back what is not there."""
    fold = Fold()
    for _, instant in groupby(changes_of(session[name].changes()), key=lambda change: change.time):
        fold.apply(instant)
    return fold.held


def test_a_batch_that_is_run_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SparkJob._run_batch
    numbers: list[int] = []

    def twice(job: SparkJob, frame: DataFrame, number: int) -> None:
        numbers.append(number)
        run(job, frame, number)
        run(job, frame, number)

    monkeypatch.setattr(SparkJob, "_run_batch", twice)
    session = world.begin(tmp_path, spark)
    try:
        heard: Counter[int] = Counter()
        session["groups"].subscribe(lambda table: heard.update(table["_batch"].to_pylist()))
        bring_all(session, tmp_path, 3)
        session.flush()
        assert heard
        check(session, tmp_path, 4)
        told = session["groups"].changes()
        assert heard.items() <= Counter(told["_batch"].to_pylist()).items()
        for name in ("pushed", "joined"):
            assert folded(session, name) == bag(rows_of(session[name].view())), name
        assert len(set(numbers)) == len(numbers) > 3
    finally:
        session.close()


def write_again(home: Path, n: int) -> None:
    """File `n` has other rows, and more of them, than it had."""
    rows = [{"k": 2, "a": 1000, "ts": 20 * n + i % 6} for i in range(50)]
    pq.write_table(pa.Table.from_pylist(rows, schema=world.SCHEMA), home / "in" / f"{n}.parquet")


def test_files_that_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    session = world.begin(tmp_path, spark)
    write_again(tmp_path, 2)
    bring_all(session, tmp_path, 3)
    session.flush()
    check(session, tmp_path, 4)
    session.close()
    (tmp_path / "in" / "3.parquet").write_bytes(b"rubbish")
    session = world.connect(tmp_path, spark)
    bring_all(session, tmp_path, 4)
    session.flush()
    check(session, tmp_path, 5)
    session.close()


def test_a_file_that_is_written_again_before_its_batch_is_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = world.begin(tmp_path, spark)
    (tmp_path / "out").rename(tmp_path / "kept")
    (tmp_path / "out").write_text("in the way")
    bring_all(session, tmp_path, 3)
    fails(session)  # the batch has run, and could not be written
    write_again(tmp_path, 3)
    (tmp_path / "out").unlink()
    (tmp_path / "kept").rename(tmp_path / "out")
    session.start()
    session.flush()
    counts = session.stats()["streams"]["e"]
    assert counts["received"] == 3 * len(world.rows(0)) + 50  # those that are there now
    assert counts["accepted"] + counts["late"] + counts["quarantined"] == counts["received"]
    held = bag(rows_of(session["groups"].view()))
    assert sum(int(str(n)) for _, n, _ in held) == counts["accepted"] - 41  # DELAY holds them back
    assert written(tmp_path / "out") == folded(session, "groups") == held
    session.close()
