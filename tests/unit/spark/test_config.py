"""Starting Spark, or saying why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.config import SparkError, _retrying, build_session


def test_without_java_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SparkError, match="Spark needs Java") as raised:
        build_session()
    assert raised.value.code == "PS-SPARK-001"
    assert "inprocess" in raised.value.remedy


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
