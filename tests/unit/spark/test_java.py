"""What makes Spark start quickly: recorded classes, and workers with the installed pyspark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.config import _worker_python

SPARKS = "/home/python/lib/pyspark.zip:/home/python/lib/py4j-src.zip:/home/jars/spark-core.jar"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(java, "_place", lambda: tmp_path / "spark")
    monkeypatch.setattr(java, "_end_java", lambda: 0)
    return tmp_path


def record(text: str) -> None:
    """Have Java write so much."""
    with java.recorded() as options:
        assert options is not None
        Path(options[java.OPTIONS].partition("=")[2]).write_text(text)


def test_recorded_classes_are_used_beside_the_users_options(place: Path) -> None:
    assert java.start_options({"a": "b"}) == {"a": "b"}
    record("classes")
    [classes] = place.iterdir()
    used = java.start_options({java.OPTIONS: "-Xss4m"})
    assert used == {java.OPTIONS: f"-XX:SharedArchiveFile={classes} -Xss4m"}
    with java.recorded() as options:  # once is enough
        assert options is None


def test_what_java_has_not_written_whole_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_end_java", lambda: 1)
    record("half of the cla")
    assert list(place.iterdir()) == []


def test_what_is_not_whole_any_more_is_recorded_again(place: Path) -> None:
    record("classes")
    [classes] = place.iterdir()
    classes.write_text("cla")
    assert java.start_options({}) == {}
    record("classes")
    assert java.start_options({}) == {java.OPTIONS: f"-XX:SharedArchiveFile={classes}"}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (SPARKS, ""),
        (f"{SPARKS}:/mine:/a.jar", "/mine:/a.jar"),
        (f"{SPARKS}:{SPARKS}:/mine", "/mine"),
        ("/mine", "/mine"),
    ],
)
def test_workers_import_the_installed_pyspark(given: str, used: str) -> None:
    script = _worker_python("local[2,4]")
    assert script != sys.executable
    environment = {"PYTHONPATH": given, "PENSTOCK_PYTHON": sys.executable}
    command = [script, "-c", "import os; print(os.environ['PYTHONPATH'])"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == used


def test_elsewhere_workers_have_the_python_of_the_driver() -> None:
    assert _worker_python("spark://host:7077") == sys.executable
