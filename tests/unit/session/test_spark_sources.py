"""Sources on Spark as a session sees them, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.session import spark_sources
from penstock.session.source_state import BY_USER, SourceState
from penstock.session.vault import Vault


def test_what_failed_is_looked_at_again_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_sources, "_LOOK_S", 0.01)
    looks = threading.Semaphore(0)
    retrying = spark_sources.Retrying(looks.release)
    for _ in range(3):
        assert looks.acquire(timeout=10)
    retrying.end()
    retrying._thread.join(10)
    assert not retrying._thread.is_alive()


def test_a_source_that_was_paused_is_so_before_its_frame_comes() -> None:
    paused: list[str] = []
    meters = {
        name: SimpleNamespace(source=SourceState(paused=why))
        for name, why in {"f": BY_USER, "g": "", "h": "it failed"}.items()
    }
    job = SimpleNamespace(sources=SimpleNamespace(pause=paused.append))
    spark_sources.SparkSources(
        None, cast(Any, job), cast(Any, SimpleNamespace(meters=meters)), Vault(), cast(Any, None)
    ).pause_again()
    assert paused == ["f"]
