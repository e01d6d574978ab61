"""The Python of Spark's workers: refused by name when it cannot run the job."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.spark.failure import essential
from penstock.spark.workers import check_workers

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def session(python: str, master: str = "local[2]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))


def script(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_this_python_is_fit_and_one_on_other_machines_is_not_asked() -> None:
    check_workers(session(sys.executable))
    check_workers(session("/no/python", "spark://host:7077"))


def test_another_path_to_this_python_is_fit(tmp_path: Path) -> None:
    check_workers(session(script(tmp_path, f'exec "{sys.executable}" "$@"')))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 3.9", "Python 3.9"),
        (f"echo {HERE}; echo pyarrow", "no package pyarrow"),
        ("exit 3", "cannot start"),
    ],
)
def test_a_python_that_cannot_run_the_job_is_named(tmp_path: Path, text: str, message: str) -> None:
    python = script(tmp_path, text)
    with pytest.raises(PenstockError) as caught:
        check_workers(session(python))
    assert caught.value.code == "PS-SPARK-005"
    assert python in caught.value.message
    assert message in caught.value.message
    assert f"PYSPARK_PYTHON to {sys.executable}" in caught.value.remedy


def test_a_missing_python_is_named() -> None:
    with pytest.raises(PenstockError, match="cannot start /no/python"):
        check_workers(session("/no/python"))


@pytest.mark.parametrize(
    "said",
    [
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver",
        'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory',
        "ModuleNotFoundError: No module named 'penstock'",
    ],
)
def test_a_job_that_failed_for_it_says_so(said: str) -> None:
    error = essential(f"Job aborted due to stage failure:\n  {said}\n\tat java.base/x\n")
    assert error.code == "PS-SPARK-005"
    assert "workers run another Python" in error.message
