"""The streaming query of a job, without Spark: who starts it, who waits, what they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.checkpoint import Checkpoint
from penstock.spark.config import SparkError
from penstock.spark.source_set import SourceSet
from penstock.spark.streaming import Streaming


class Query:
    """Runs until it is stopped; batches are run by the test."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.error: Exception | None = None

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self._ended.is_set()

    def awaitTermination(self) -> None:  # noqa: N802
        self._ended.wait()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self._ended.set()


class Job:
    """A `Streaming` whose queries are counted."""

    def __init__(self, directory: Path) -> None:
        self.queries: list[Query] = []
        sources = SourceSet(Checkpoint(directory, 1), {})
        self.streaming: Any = Streaming(
            self._ready, sources, lambda: True, 0, lambda error: False, lambda error: False
        )

    @contextmanager
    def _ready(self) -> Iterator[Any]:
        threading.Event().wait(0.02)  # what Spark takes, for others to come between
        yield self

    def start(self) -> Query:
        self.queries.append(Query())
        return self.queries[-1]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path / "checkpoint")
    yield made
    made.streaming.stop()


def started(call: Callable[[], Any], said: list[str]) -> threading.Thread:
    def run() -> None:
        try:
            call()
        except SparkError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_threads_that_wait_start_one_query(job: Job) -> None:
    said: list[str] = []
    threads = [started(lambda: job.streaming.wait(1), said) for _ in range(4)]
    with job.streaming.batch():
        job.streaming.reach(1)
    for thread in threads:
        thread.join(20)
    assert (len(job.queries), said) == (1, [])


def test_who_waits_is_told_that_the_job_was_stopped(job: Job) -> None:
    said: list[str] = []
    job.streaming.start()
    thread = started(lambda: job.streaming.wait(1), said)
    job.streaming.stop()
    thread.join(20)
    assert len(said) == 1
    assert "PS-RUN-005" in said[0]
    assert not job.streaming.dead  # the next call goes on


def test_a_query_that_ends_is_told_until_it_is_started_again(job: Job) -> None:
    job.streaming.start()
    with pytest.raises(SparkError, match="no room"), job.streaming.batch():
        raise SparkError("no room")
    assert job.streaming.dead
    assert not job.streaming.told
    for _ in range(2):
        with pytest.raises(SparkError, match="no room"):
            job.streaming.check()
    assert job.streaming.told
    job.streaming.start()
    job.streaming.check()
    assert len(job.queries) == 2


def test_a_query_that_somebody_else_stops_is_a_dead_job(job: Job) -> None:
    job.streaming.start()
    job.queries[0].stop()
    with pytest.raises(SparkError, match=r"PS-RUN-005.*from outside this session"):
        job.streaming.wait(1)
    assert job.streaming.dead


def test_what_is_no_error_of_ours_is_told_as_one(job: Job) -> None:
    job.streaming.start()
    with pytest.raises(OSError, match="no room"), job.streaming.batch():
        raise OSError("no room for a manifest")
    with pytest.raises(SparkError, match=r"PS-SPARK-002.*OSError: no room for a manifest"):
        job.streaming.check()


def test_a_function_that_exits_ends_the_job_not_its_thread(job: Job) -> None:
    job.streaming.start()
    with pytest.raises(SparkError, match="SystemExit: 3"), job.streaming.batch():
        raise SystemExit(3)
    with pytest.raises(SparkError, match=r"PS-SPARK-002.*SystemExit: 3"):
        job.streaming.check()
