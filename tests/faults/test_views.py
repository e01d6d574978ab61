"""The file of the kept views: damaged, it is never read as an answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from faults.books import clear_stop
from faults.disk import DAMAGES
from oracle.fold import META
from penstock.errors import PenstockError
from penstock.session.view_store import ViewStore

SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.string())])
LAST = 6


def answer(batch: int) -> list[tuple[int, str]]:
    """The rows of the view after a batch."""
    return [(n, f"w{n}" * 50) for n in range(batch * 20)]


def changes(batch: int) -> pa.Table:
    """What a batch adds to the view."""
    new = answer(batch)[len(answer(batch - 1)) :]
    meta = {name: ["insert" if name == "_change_type" else 0] * len(new) for name in META}
    return pa.table(meta | {"k": [k for k, _ in new], "w": [w for _, w in new]})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A file of views as a killed process leaves it: with the changes that are not merged yet."""
    store = ViewStore(tmp_path / "views.duckdb", "c")
    store.open("v", SCHEMA, pa.Table.from_pylist([], schema=SCHEMA), 0)
    copy = tmp_path / "copy"
    for batch in range(1, LAST + 1):
        store.apply(batch, {"v": changes(batch)})
        if batch == LAST - 3:
            store._db.execute("CHECKPOINT")
    shutil.copytree(tmp_path, copy)
    store.shut()
    return copy


def read(path: Path) -> list[tuple[int, str]] | None:
    """The view after a restart: its rows, or None when it has to be read anew."""
    store = ViewStore(path, "c")
    try:
        store.forget_stale(LAST)
        if "v" not in store:
            return None
        return sorted((r["k"], r["w"]) for r in store.read("v").to_pylist())
    finally:
        store.shut()


@pytest.mark.parametrize("how", DAMAGES, ids=lambda word: word.replace(" ", "-"))
@pytest.mark.parametrize("name", ["views.duckdb", "views.duckdb.wal"])
def test_damaged_views_are_named_or_read_anew(directory: Path, name: str, how: str) -> None:
    path, change = directory / name, DAMAGES[how]
    assert path.exists()
    whole = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(whole))
    said = "views.duckdb"
    found: list[tuple[int, str]] | None = None
    try:
        found = read(directory / "views.duckdb")
    except PenstockError as error:
        said = str(clear_stop(error))
    assert "views.duckdb" in said
    assert found in (None, answer(LAST))


def test_whole_views_are_read(directory: Path) -> None:
    assert read(directory / "views.duckdb") == answer(LAST)
