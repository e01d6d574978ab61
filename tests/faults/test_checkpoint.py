"""The checkpoint of a session in one process: damaged files, a full disk, a directory that goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock
from faults.books import Books, clear_stop, close, row
from faults.disk import DAMAGES, damaged, full_disk
from penstock.errors import PenstockError


def connect(directory: Path) -> Books:
    return Books(penstock.connect(runner="inprocess", checkpoint=directory))


@pytest.fixture
def books(tmp_path: Path) -> Books:
    """Books of a session that was closed and can be opened again."""
    made = connect(tmp_path / "checkpoint").declare()
    for n in range(6):
        made.push([row(20 * n + i, k=i % 3, a=i, w=f"w{i}") for i in range(5)] + [row(None)])
    made.check()
    made.ps.close()
    return made


def reopen(books: Books, directory: Path) -> None:
    """Go on in a new process's stead, with the same books."""
    books.ps = penstock.connect(runner="inprocess", checkpoint=directory)
    try:
        books.check()
        books.push([row(200, k=2), row(90)])
        books.check()
    finally:
        close(books.ps)


@pytest.mark.parametrize("kind", [k for k in DAMAGES if k != "missing"])
def test_a_damaged_file_is_named(books: Books, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "checkpoint" / "session.pickle"
    with damaged(path, kind), pytest.raises(PenstockError) as caught:
        penstock.connect(runner="inprocess", checkpoint=path.parent)
    error = clear_stop(caught.value)
    assert error.code == "PS-STATE-003"
    assert str(path) in str(error)
    reopen(books, path.parent)


def test_every_bit_counts(books: Books, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint" / "session.pickle"
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 200)):
        changed = whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :]
        path.write_bytes(changed)
        with pytest.raises(PenstockError) as caught:
            penstock.connect(runner="inprocess", checkpoint=path.parent)
        assert clear_stop(caught.value).code == "PS-STATE-003"
    path.write_bytes(whole)
    reopen(books, path.parent)


def test_rubbish_of_a_killed_process_is_not_read(books: Books, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    for name in (".session.pickle.123", "session.pickle.123", "session.pickle.new"):
        (directory / name).write_bytes(b"half")
    reopen(books, directory)


def test_a_full_disk_stops_saving_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    books = connect(directory).declare()
    books.push([row(1)])
    books.ps.flush()
    saved = sorted(p.name for p in directory.iterdir())
    books.push([row(30, k=2)])
    with full_disk(100), pytest.raises(PenstockError) as caught:
        books.ps.flush()
    assert str(directory) in str(clear_stop(caught.value))
    assert sorted(p.name for p in directory.iterdir()) == saved  # what was half there is gone
    books.push([row(60)])
    books.check()
    books.ps.flush()  # there is room again
    books.ps.close()
    reopen(books, directory)


def test_a_session_can_be_closed_again_when_there_is_room(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    books = connect(directory).declare()
    books.push([row(1)])
    with full_disk(100), pytest.raises(PenstockError) as caught:
        books.ps.close()
    clear_stop(caught.value)
    books.push([row(40, k=2)])  # it is still open
    books.check()
    books.ps.close()
    reopen(books, directory)


@pytest.mark.parametrize("instead", ["nothing", "a file"])
def test_the_directory_goes_while_it_is_used(tmp_path: Path, instead: str) -> None:
    directory = tmp_path / "checkpoint"
    books = connect(directory).declare()
    books.push([row(1)])
    books.ps.flush()
    shutil.rmtree(directory)
    if instead == "a file":
        directory.write_text("in the way")
        with pytest.raises(PenstockError) as caught:
            books.ps.flush()
        clear_stop(caught.value)
        directory.unlink()
    books.push([row(40)])
    books.check()
    books.ps.close()
    reopen(books, directory)
