"""A session on Spark lets its directory go, also when Spark is gone or it was never open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.errors import StateError
from penstock.session.opening_spark import open_on_spark
from penstock.session.runners import on_spark
from penstock.shards.messages import Counts
from penstock.spark.config import SparkError
from penstock.spark.manifest import Mark
from penstock.spark.sources import Source


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
    session: Any = open_on_spark(checkpoint=tmp_path, shards=1)
    session.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
    streaming = session._runner.job._streaming
    streaming.query, streaming._delivered = gone, session._runner.job.next_entry
    with pytest.raises(SparkError, match="its Java process is gone"):
        session.close()
    session.close()
    assert gone.stopped == 1
    again: Any = open_on_spark(checkpoint=tmp_path, shards=1)  # nobody has it
    assert again.sql("SHOW STREAMS").num_rows == 1
    again.close()


def test_a_session_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path, gone: Gone) -> None:
    open_on_spark(checkpoint=tmp_path, shards=1).close()
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(StateError, match="PS-STATE-003"):
        open_on_spark(checkpoint=tmp_path, shards=1)
    (tmp_path / "secrets.json").unlink()
    first = open_on_spark(checkpoint=tmp_path, shards=1)
    with pytest.raises(StateError, match="PS-STATE-004"):
        open_on_spark(checkpoint=tmp_path, shards=1)
    first.close()
    assert gone.stopped == 4


def test_a_spark_that_was_there_before_is_not_stopped(
    tmp_path: Path, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_spark, "is_running", lambda: True)
    open_on_spark(checkpoint=tmp_path, shards=1).close()
    assert gone.stopped == 0


def test_files_that_cannot_be_written_are_told_as_ours(tmp_path: Path, gone: Gone) -> None:
    session: Any = open_on_spark(checkpoint=tmp_path, shards=1)
    session.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
    for file in ("session.pickle", "secrets.json", "penstock.json.new"):
        (tmp_path / file).mkdir()
    (tmp_path / "session.pickle" / "in the way").touch()
    with pytest.raises(StateError, match="cannot hold a checkpoint"):
        session.stop()
    with pytest.raises(StateError, match="cannot hold a checkpoint"):
        session.sql("CREATE SINK o FROM v INTO kafka OPTIONS (password 'x')")
    with pytest.raises(StateError, match="cannot hold a checkpoint"):
        session._runner.job._sources.begin(1)
    assert session._runner.job._checkpoint.identity.sources is None
    with pytest.raises(StateError, match="cannot hold a checkpoint"):
        session.close()
    (tmp_path / "session.pickle" / "in the way").unlink()
    for file in ("session.pickle", "secrets.json", "penstock.json.new"):
        (tmp_path / file).rmdir()
    again: Any = open_on_spark(checkpoint=tmp_path, shards=1)
    assert again.sql("SHOW STREAMS").num_rows == 1
    again.close()


def test_a_kill_forgets_no_time_and_counts_nothing_twice(tmp_path: Path, gone: Gone) -> None:
    """Of external streams, the log says nothing: the mark of the last batch does."""
    session: Any = open_on_spark(checkpoint=tmp_path / "cp", shards=1)
    for name in "ab":
        session._runner.sources.frames[name] = Source(cast(Any, None), lambda _: cast(Any, None))
        session.sql(f"CREATE STREAM {name} (k INT, ts BIGINT) TIMESTAMP BY ts FROM dataframe")
    last = session._runner.job.next_entry - 1
    status = {"counts": {"b": Counts(3, 3)}, "watermarks": {"b": 9}}
    session._runner.counting.take_counts(status, last)  # of a batch that was not marked as done
    session._runner.save()
    status = {"counts": {"a": Counts(5, 4, 1)}, "watermarks": {"a": 70}}
    session._runner.counting.take_counts(status, last)
    session.sql("ALTER STREAM a SET RETAIN 50")
    since = session._books.catalog.meters["a"].retained_from
    mark = Mark(0, last, {"a": 70}, {"a": Counts(5, 4, 1)})
    session._runner.job._manifests.finish(mark)
    (session._runner.job.path / "spark" / "offsets").mkdir(parents=True)
    session._runner.durable = False  # no image of the end
    session.close()
    again: Any = open_on_spark(checkpoint=tmp_path / "cp", shards=1)
    meters = again._books.catalog.meters
    assert (meters["a"].received, meters["a"].late_rows, meters["b"].received) == (5, 1, 0)
    assert again._books.engine.sources["a"].watermark == 70
    assert again._books.engine.sources["a"].discarded == 4  # so that no history is promised of them
    assert meters["a"].retained_from == since == 71
    again.close()
