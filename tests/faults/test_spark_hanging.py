"""On Spark: a subscriber that does not return stops neither close() nor another session."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from faults import spark_world as world
from faults.books import clear_stop
from faults.test_spark_disk import bring_all, check
from penstock.errors import PenstockError
from penstock.session import ticker
from penstock.spark import streaming
from spark.conftest import spark

__all__ = ["spark"]


def test_a_subscriber_that_hangs_is_named_and_its_batch_comes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_PATIENCE", 1.0)
    monkeypatch.setattr(ticker, "_PATIENCE", 0.5)
    called, released = threading.Event(), threading.Event()

    def hangs(changes: Any) -> None:
        called.set()
        released.wait(200)

    session = world.begin(tmp_path, spark)
    try:
        session["groups"].subscribe(hangs)
        session.start()
        bring_all(session, tmp_path, 3)
        assert called.wait(100)
        with pytest.raises(PenstockError) as caught:
            session.stop()
        assert clear_stop(caught.value).code == "PS-RUN-007"
        with pytest.raises(PenstockError) as caught:
            session.close()
        assert clear_stop(caught.value).code == "PS-RUN-007"
    finally:
        released.set()
    for _ in range(600):
        if not spark.streams.active:
            break
        time.sleep(0.1)
    monkeypatch.undo()
    session = world.connect(tmp_path, spark)
    try:
        heard: list[int] = []
        session["groups"].subscribe(lambda table: heard.append(table.num_rows))
        session.flush()
        check(session, tmp_path, 4)
        assert heard
    finally:
        session.close()
