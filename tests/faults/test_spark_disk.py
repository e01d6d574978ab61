"""On Spark: a disk that is full for a while, and a sink's directory that goes or is in the way."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from faults import spark_world as world
from faults.books import clear_stop
from faults.disk import read_only, small_disk
from oracle.fold import SIGNS, Values, bag, rows_of
from penstock.errors import PenstockError
from penstock.spark import job
from spark.conftest import spark

__all__ = ["spark"]


def bring_all(session: Any, home: Path, n: int) -> None:
    """Rows of both streams."""
    world.bring(home, n)
    session.push("p", [{"k": n % 3, "a": n, "ts": 20 * n}])


def fails(session: Any) -> PenstockError:
    """Going on ends with a clear stop."""
    with pytest.raises(PenstockError) as caught:
        session.flush()
    return clear_stop(caught.value)


def fill(path: Path) -> None:
    """Take all the room there is."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def written(directory: Path) -> Counter[Values]:
    """What the files of a sink fold to, in the order of their batches."""
    held: Counter[Values] = Counter()
    seen: set[tuple[int, int]] = set()
    for path in sorted(directory.glob("part-*.json")):
        for found in map(json.loads, path.read_text().splitlines()):
            key = (found["_batch"], found["_seq"])
            assert key not in seen, f"{key} is there twice"
            seen.add(key)
            values = tuple(v for name, v in found.items() if not name.startswith("_"))
            held[values] += SIGNS[found["_change_type"]]
    return +held


def check(session: Any, home: Path, files: int, sink: bool = True) -> None:
    """The answers are those of all rows, in the views and in the sink."""
    rows = [row for n in range(files) for row in world.rows(n)]
    counts = session.stats()["streams"]["e"]
    assert counts["received"] == len(rows)
    assert counts["accepted"] + counts["late"] + counts["quarantined"] == len(rows)
    groups = bag(rows_of(session["groups"].view()))
    counted = sum(int(str(n)) for _, n, _ in groups.elements())
    assert counted == counts["accepted"] - 5  # of the last file, DELAY holds back all rows but one
    assert not sink or written(home / "out") == groups
    pushed = bag(rows_of(session["pushed"].view()))
    wanted: Counter[int] = Counter()
    for n in range(files):
        wanted[n % 3] += n
    assert dict(pushed) == {(k, wanted[k]): 1 for k in {n % 3 for n in range(files)}}


def test_a_sink_whose_directory_is_in_the_way(spark: SparkSession, tmp_path: Path) -> None:
    session = world.begin(tmp_path, spark)
    try:
        kept = tmp_path / "kept"
        (tmp_path / "out").rename(kept)
        (tmp_path / "out").write_text("in the way")
        bring_all(session, tmp_path, 3)
        assert fails(session).code == "PS-SINK-004"
        (tmp_path / "out").unlink()
        kept.rename(tmp_path / "out")
        session.start()
        session.flush()
        check(session, tmp_path, 4)
        shutil.copytree(tmp_path / "out", kept)
        shutil.rmtree(tmp_path / "out")  # deleted while it runs: made again
        bring_all(session, tmp_path, 4)
        session.flush()
        shutil.copytree(kept, tmp_path / "out", dirs_exist_ok=True)
        check(session, tmp_path, 5)
        with read_only(tmp_path / "out") as done:
            bring_all(session, tmp_path, 5)
            if done:
                assert fails(session).code in ("PS-SINK-003", "PS-SINK-004")
        session.start()
        session.flush()
        check(session, tmp_path, 6)
    finally:
        session.close()


def block(home: Path) -> Path:
    """Put a file where the directory of the sink was; where that is now."""
    (home / "out").rename(home / "kept")
    (home / "out").write_text("in the way")
    return home / "kept"


def test_a_checkpoint_opens_while_a_sink_cannot_be_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    world.begin(tmp_path, spark).close()
    kept = block(tmp_path)
    session = world.connect(tmp_path, spark)
    bring_all(session, tmp_path, 3)
    error = fails(session)
    assert error.code == "PS-SINK-003"
    assert "DROP SINK out" in error.remedy
    session.close()
    session = world.connect(tmp_path, spark)  # the batch was not done, and comes again
    assert fails(session).code == "PS-SINK-003"
    (tmp_path / "out").unlink()
    kept.rename(tmp_path / "out")
    session.start()
    session.flush()
    check(session, tmp_path, 4)
    session.close()
    block(tmp_path)
    session = world.connect(tmp_path, spark)
    bring_all(session, tmp_path, 4)
    assert fails(session).code == "PS-SINK-003"
    session.sql("DROP SINK out")
    session.flush()
    check(session, tmp_path, 5, sink=False)
    session.close()


def test_a_full_temporary_directory_slows_and_does_not_stop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards keep their arenas there, which are a cache: without room they do without."""
    with small_disk(tmp_path / "temporary", "64m") as disk:
        if disk is None:
            pytest.skip("mounting a small disk needs rights that this user does not have")
        monkeypatch.setattr(job, "lasting_folder", lambda spark: disk)
        session = world.begin(tmp_path, spark)
        try:
            assert list(disk.glob("penstock-*/*")), "no arena is there"
            fill(disk / "filler")
            for n in (3, 4):
                bring_all(session, tmp_path, n)
                session.flush()
                check(session, tmp_path, n + 1)
            session.stop()
            for arena in disk.glob("penstock-*"):
                shutil.rmtree(arena)
            fill(disk / "more")
            bring_all(session, tmp_path, 5)
            session.flush()
            check(session, tmp_path, 6)
            for filler in ("filler", "more"):
                (disk / filler).unlink()
            bring_all(session, tmp_path, 6)
            session.flush()
            check(session, tmp_path, 7)
        finally:
            session.close()


def test_a_full_disk_then_room(spark: SparkSession, tmp_path: Path) -> None:
    """The checkpoint and the sink are on a disk that is full for a while."""
    home = tmp_path / "home"
    with small_disk(home, "24m") as disk:
        if disk is None:
            pytest.skip("mounting a small disk needs rights that this user does not have")
        session = world.begin(home, spark)
        try:
            bring_all(session, home, 3)
            filler = home / "filler"
            fill(filler)
            fails(session)
            filler.unlink()
            session.start()
            session.flush()
            check(session, home, 4)
        finally:
            session.close()
        session = world.connect(home, spark)
        try:
            check(session, home, 4)
        finally:
            session.close()
