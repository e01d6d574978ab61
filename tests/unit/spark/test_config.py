"""Starting Spark, or saying why not."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from penstock.spark import config
from penstock.spark.config import SparkError, _retrying, build_session, log_remedy


def test_without_java_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SparkError, match="Spark needs Java") as raised:
        build_session()
    assert raised.value.code == "PS-SPARK-001"
    assert "inprocess" in raised.value.remedy


def test_a_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SparkError, match=str(tmp_path)) as raised:
        build_session()
    assert "JAVA_HOME" in raised.value.remedy


def test_a_package_that_cannot_be_fetched_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "spark.log"

    def exits(*_: object) -> None:
        log.write_text("RuntimeException: [unresolved dependency: org.a#b_2.13;4.3.0: not found]\n")
        raise RuntimeError("Java gateway process exited before sending its port number.")

    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("penstock.spark.config._check_java", lambda: None)
    monkeypatch.setattr("penstock.spark.config._log", None)
    monkeypatch.setattr("penstock.spark.config.launch_gateway", exits)
    with pytest.raises(SparkError, match=r"the package org\.a:b_2\.13:4\.3\.0 cannot") as raised:
        build_session(log=log)
    assert "spark.jars" in raised.value.remedy


def test_a_log_that_an_error_names_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, kept = tmp_path / "log", list[object]()
    monkeypatch.setattr("penstock.spark.config._log", log)
    monkeypatch.setattr("atexit.unregister", kept.append)
    assert log_remedy() == ""  # nobody can read it
    log.touch()
    assert str(log) in log_remedy()
    assert kept == [log.unlink]


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(SparkError, match="PS-SPARK-003"):
        build_session(spark=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("master", "used"),
    [
        (None, "local[*,4]"),
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_masters_run_failed_tasks_again(master: str | None, used: str) -> None:
    assert _retrying(master) == used


def test_spark_does_not_take_ctrl_c() -> None:
    """It would cancel the batch that runs, and so end the job."""
    mine = signal.getsignal(signal.SIGINT)
    with config._own_interrupts():
        signal.signal(signal.SIGINT, lambda *_: None)
    assert signal.getsignal(signal.SIGINT) is mine
