"""The directory of a job: refused when it is another's, of another version, or not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock
from penstock.errors import StateError
from penstock.spark.checkpoint import FORMAT, Checkpoint


def test_what_it_is_stays(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 3)
    first.note_sources(("a", "b"), named=False)
    first.close()
    again = Checkpoint(tmp_path, 5)
    assert again.identity == first.identity
    assert again.identity.shards == 3
    again.note_sources(("a", "b"), named=False)
    with pytest.raises(StateError, match="PS-STATE-008"):
        again.note_sources(("a",), named=True)
    again.close()


def test_sources_with_names_may_become_more(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 1)
    first.note_sources(("a",), named=True)
    first.note_sources(("a", "b"), named=True)
    first.close()
    again = Checkpoint(tmp_path, 1)
    assert (again.identity.sources, again.identity.by_name) == (("a", "b"), True)
    again.close()


def test_one_driver_has_it(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 1)
    with pytest.raises(StateError, match="PS-STATE-004"):
        Checkpoint(tmp_path, 1)
    first.close()
    Checkpoint(tmp_path, 1).close()


def test_another_version_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path, 1).close()
    path = tmp_path / "penstock.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "penstock": "0.0.1"}))
    with pytest.raises(StateError, match=r"PS-STATE-002.*0\.0\.1"):
        Checkpoint(tmp_path, 1)


def test_another_format_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path, 1).close()
    path = tmp_path / "penstock.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": FORMAT - 1}))
    with pytest.raises(StateError, match=rf"PS-STATE-002.*format {FORMAT - 1}.*format {FORMAT}"):
        Checkpoint(tmp_path, 1)


def in_process(directory: Path, shards: int) -> None:
    penstock.connect(runner="inprocess", checkpoint=directory).close()


def test_what_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/self")):
        for open_ in (Checkpoint, in_process):
            with pytest.raises(StateError, match="PS-STATE-001") as raised:
                open_(path, 1)
            assert str(path) in raised.value.message
            assert raised.value.remedy


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', "[]"])
def test_a_torn_file_is_named(tmp_path: Path, text: str) -> None:
    Checkpoint(tmp_path, 1).close()
    path = tmp_path / "penstock.json"
    path.write_text(text)
    with pytest.raises(StateError, match=str(path)):
        Checkpoint(tmp_path, 1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(StateError, match=r"penstock\.json is damaged: it is missing"):
        Checkpoint(tmp_path, 1)


def test_runners_tell_their_checkpoints_apart(tmp_path: Path) -> None:
    penstock.connect(runner="inprocess", checkpoint=tmp_path / "one").close()
    with pytest.raises(StateError, match=r"PS-STATE-013.*in-process"):
        Checkpoint(tmp_path / "one", 1)
    penstock.connect(runner="inprocess", checkpoint=tmp_path / "one").close()  # as it was
    Checkpoint(tmp_path / "spark", 1).close()
    with pytest.raises(StateError, match=r"PS-STATE-013.*Spark"):
        penstock.connect(runner="inprocess", checkpoint=tmp_path / "spark")


def test_a_temporary_one_goes() -> None:
    made = Checkpoint(None, 1)
    assert made.path.exists()
    made.close()
    assert not made.path.exists()


def test_another_number_of_shards_is_refused_before_spark_starts(tmp_path: Path) -> None:
    Checkpoint(tmp_path, 2).close()
    with pytest.raises(StateError, match=r"PS-STATE-011.*has 2 shards, not 7"):
        penstock.connect(checkpoint=tmp_path, shards=7)
