"""A session on Spark lets its directory go, also when Spark is gone or it was never open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.errors import StateError
from penstock.session import on_spark
from penstock.session.on_spark import OnSpark
from penstock.spark.config import SparkError


class Gone:
    """A Spark, and a query on it, without its Java process."""

    def __init__(self) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=1)
        self.stopped = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        raise Py4JNetworkError("Answer from Java side is empty")

    def stop(self) -> None:
        self.stopped += 1
        raise ConnectionRefusedError


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Gone:
    made = Gone()
    monkeypatch.setattr(on_spark, "build_session", lambda *_: made)
    monkeypatch.setattr(on_spark, "is_running", lambda: False)
    return made


def test_a_session_without_its_java_process_can_be_closed(tmp_path: Path, gone: Gone) -> None:
    session: Any = OnSpark(checkpoint=tmp_path, shards=1)
    session.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
    streaming = session._spark_job._streaming
    streaming.query, streaming._delivered = gone, session._spark_job.next_entry
    with pytest.raises(SparkError, match="its Java process is gone"):
        session.close()
    session.close()
    assert gone.stopped == 1
    again: Any = OnSpark(checkpoint=tmp_path, shards=1)  # nobody has it
    assert again.sql("SHOW STREAMS").num_rows == 1
    again.close()


def test_a_session_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path, gone: Gone) -> None:
    OnSpark(checkpoint=tmp_path, shards=1).close()
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(StateError, match="PS-STATE-003"):
        OnSpark(checkpoint=tmp_path, shards=1)
    (tmp_path / "secrets.json").unlink()
    first = OnSpark(checkpoint=tmp_path, shards=1)
    with pytest.raises(StateError, match="PS-STATE-004"):
        OnSpark(checkpoint=tmp_path, shards=1)
    first.close()
    assert gone.stopped == 4


def test_a_spark_that_was_there_before_is_not_stopped(
    tmp_path: Path, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_spark, "is_running", lambda: True)
    OnSpark(checkpoint=tmp_path, shards=1).close()
    assert gone.stopped == 0
