"""A batch of the job, without Spark: what a full disk interrupts comes again as it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.engine import blocks as b
from penstock.shards.intake import Intake
from penstock.shards.job import JobBatch
from penstock.spark.job import SparkJob
from penstock.spark.sources import Source

FRAME = cast(Any, None)


def fail_once(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method of a job's files finds no room at its first call."""
    works = getattr(owner, name)

    def fail(*_: Any) -> None:
        monkeypatch.setattr(owner, name, works)
        raise OSError("no room")

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("what", ["propose", "finish"])
def test_a_batch_that_cannot_be_noted_is_noted_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    delivered: list[JobBatch] = []
    intake = cast(Intake, "how its rows are taken in")
    job: Any = SparkJob(
        cast(Any, SimpleNamespace()), delivered.append, shards=1, checkpoint=tmp_path,
        sources={"s": Source(FRAME)}, intakes=lambda entry: {"s": intake},
    )  # fmt: skip
    job.append((b.Heartbeat("s", 50), b.Drop("t")), None)
    monkeypatch.setattr(job, "_planned_entry", lambda number: 1)
    monkeypatch.setattr(job, "_results", lambda *_: [])
    fail_once(job._manifests, what, monkeypatch)
    with pytest.raises(OSError, match="no room"):
        job._run_batch(FRAME, 0)
    job._run_batch(FRAME, 0)
    assert len(delivered) == 1
    assert job._manifests.find(0).watermarks == {"s": 50}
    assert job._manifests.last_mark().batch == 0
    job.close()
