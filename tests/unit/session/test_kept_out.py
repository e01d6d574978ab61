"""Rows kept out since the last image: found by the batches that the image lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.session import kept_out
from penstock.session.kept_out import KeptOut


def test_batches_after_the_image_up_to_the_last_one_done(tmp_path: Path) -> None:
    kept = KeptOut(tmp_path)
    assert list(kept.since(0, 10)) == []
    for batch in (2, 3, 11):
        kept.note(batch, [f"{batch}".encode(), b"-"])
    kept.note(4, [])
    kept.note(3, [b"3", b"-"])  # comes again
    assert list(KeptOut(tmp_path).since(2, 10)) == [b"3", b"-"]
    kept.forget(3)
    assert list(kept.since(0, 99)) == [b"11", b"-"]


def test_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_out, "_MOST", 5)
    kept = KeptOut(tmp_path)
    for batch in range(20):
        kept.note(batch, [b"x"])
    assert len(list((tmp_path / "kept_out").iterdir())) == 5
