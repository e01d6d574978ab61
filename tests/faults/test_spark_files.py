"""Damaged files of a checkpoint on Spark: the right answer, or a clear stop that names the file.

PENSTOCK_FAULTS=all (`make faults`) damages every kind of file in every way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from faults import spark_world as world
from faults.disk import DAMAGES, damaged
from penstock.errors import PenstockError
from spark.conftest import spark

__all__ = ["spark"]
Find = Callable[[Path], Path]


def newest(pattern: str, back: int = 0) -> Find:
    """The newest of numbered files, or one before it."""

    def find(checkpoint: Path) -> Path:
        found = [(number(p), p) for p in checkpoint.glob(pattern) if number(p) >= 0]
        wanted = sorted({n for n, _ in found})[-1 - back]
        return min(p for n, p in found if n == wanted)

    return find


def number(path: Path) -> int:
    """The number that a file is of: `7`, `7.done`, `7_1f3a.changelog`; -1 of another."""
    first = path.name.split(".")[0].split("_")[0]
    return int(first) if first.isdigit() else -1


def named(name: str) -> Find:
    return lambda checkpoint: checkpoint / name


KINDS: dict[str, Find] = {
    "identity": named("penstock.json"),
    "session": named("session.pickle"),
    "log": newest("log/*.log"),
    "manifest": newest("manifests/*.batch"),
    "manifest before": newest("manifests/*.batch", 1),
    "mark": newest("manifests/*.done"),
    "mark before": newest("manifests/*.done", 1),
    "kept out": newest("kept_out/*.rows"),
    "views": named("views.duckdb"),
    "metadata": named("spark/metadata"),
    "offsets": newest("spark/offsets/*"),
    "offsets before": newest("spark/offsets/*", 1),
    "commits": newest("spark/commits/*"),
    "commits before": newest("spark/commits/*", 1),
    "source": newest("spark/sources/*/*"),
    "source before": newest("spark/sources/*/*", 1),
    "state": newest("spark/state/0/0/*"),
    "state before": newest("spark/state/0/0/*", 1),
    "state of level 2": newest("spark/state/1/1/*"),
}
ALL = os.environ.get("PENSTOCK_FAULTS") == "all"
FEW = [
    ("session", "flipped in the middle"), ("manifest", "flipped in the middle"),
    ("mark", "missing"), ("kept out", "cut in half"), ("views", "flipped in the middle"),
    ("offsets", "missing"), ("offsets", "flipped in the middle"), ("source", "missing"),
    ("commits", "missing"), ("state", "flipped in the middle"), ("state before", "missing"),
]  # fmt: skip


@pytest.fixture(scope="module")
def aside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    """Where the checkpoint is, a copy of it, and what an undamaged one comes to."""
    base = tmp_path_factory.mktemp("files")
    home, copy = base / "home", base / "copy"
    home.mkdir()
    world.abandon(world.begin(home, spark))
    world.keep(home, copy)
    whole = world.go_on(home, spark)
    return home, copy, whole


@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in KINDS for how in DAMAGES] if ALL else FEW,
    ids=lambda word: word.replace(" ", "-"),
)
def test_damage_is_harmless_or_named(
    spark: SparkSession, aside: tuple[Path, Path, Any], kind: str, how: str
) -> None:
    home, copy, whole = aside
    world.put_back(home, copy)
    path = KINDS[kind](home / "checkpoint")
    with damaged(path, how):
        found = world.outcome(home, spark)
    if isinstance(found, PenstockError):
        assert path.name in str(found) or path.parent.name in str(found), found
    else:
        assert found == whole
