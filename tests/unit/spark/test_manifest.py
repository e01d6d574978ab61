"""Manifests and marks: the first writer wins, what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.spark.manifest import KEEP, Manifest, Manifests, Mark


def test_the_first_manifest_holds(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path)
    first = Manifest(0, 1, 5, 1000, {}, {"r": 7})
    assert manifests.find(0) is None
    assert manifests.propose(first) == first
    assert Manifests(tmp_path).propose(Manifest(0, 1, 9, 2000)) == first
    assert manifests.read(0) == first
    assert [p.name for p in tmp_path.iterdir()] == ["0.batch"]


def test_marks_go_on_and_old_ones_go(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path)
    assert manifests.last_mark() is None
    for batch in range(KEEP + 3):
        manifests.propose(Manifest(batch, batch, batch, 0))
        manifests.finish(Mark(batch, batch, {"r": batch}))
    assert manifests.last_mark() == Mark(KEEP + 2, KEEP + 2, {"r": KEEP + 2})
    assert manifests.find(2) is None
    assert manifests.find(3) is not None
    assert len(list(tmp_path.iterdir())) == 2 * KEEP


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path)
    manifests.finish(Mark(4, 1))
    path = tmp_path / "4.done"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateError, match=str(path)):
        manifests.last_mark()
    with pytest.raises(StateError, match=r"7\.batch"):
        manifests.read(7)
