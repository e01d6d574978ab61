"""Sinks that cannot be written for a while: nothing is lost, nothing twice, the others go on."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from faults.books import Books, Row, clear_stop, close, open_books, row
from faults.disk import full_disk, read_only
from oracle.fold import SIGNS, Values, plain
from penstock.errors import PenstockError

FORMATS = ("json", "csv", "parquet")


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    made = open_books(request.param)
    for name in ("groups", "texts"):
        made.ps.sql(f"CREATE SINK {name}_out FROM {name} INTO json {_path(tmp_path, name)}")
    yield made
    close(made.ps)


def _path(tmp_path: Path, name: str) -> str:
    return f"OPTIONS (path '{tmp_path / name}')"


def changes(n: int) -> list[Row]:
    """Rows that change the answers of all queries."""
    return [row(30 * n + i, k=i % 3, a=n, w=f"w{i % 2}") for i in range(4)]


def written(directory: Path) -> Counter[Values]:
    """What the files of a sink fold to; no change is there twice."""
    held: Counter[Values] = Counter()
    seen = set()
    for path in sorted(directory.glob("part-*.json")):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            key = (found["_batch"], found["_seq"])
            assert key not in seen, f"{key} is there twice"
            seen.add(key)
            values = tuple(plain(v) for name, v in found.items() if not name.startswith("_"))
            held[values] += SIGNS[found["_change_type"]]
    assert all(n >= 0 for n in held.values()), held
    return +held


def check_files(books: Books, tmp_path: Path) -> None:
    books.check()
    for name in ("groups", "texts"):
        assert written(tmp_path / name) == books.answers()[name], name


def fail_in(books: Books, rows: list[Row]) -> None:
    """A push whose changes cannot be written says so, once, and takes its rows."""
    with pytest.raises(PenstockError) as caught:
        books.push(rows)
    assert clear_stop(caught.value).code == "PS-SINK-003"


def test_a_full_disk_delays_the_files(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    books.push(changes(1))
    with full_disk():
        fail_in(books, changes(2))
        fail_in(books, changes(3))
    assert not list(tmp_path.glob("*/.*")), "half a file stays"
    books.push(changes(4))
    check_files(books, tmp_path)


def test_a_directory_that_is_read_only_for_a_while(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    books.push(changes(1))
    with read_only(tmp_path / "groups") as done:
        if not done:
            pytest.skip("mounting needs rights that this user does not have")
        fail_in(books, changes(2))
        books.check()
        assert written(tmp_path / "texts") == books.answers()["texts"]
        fail_in(books, changes(3))
    books.push(changes(4))
    check_files(books, tmp_path)


def test_a_full_disk_then_flush(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    with full_disk():
        fail_in(books, changes(2))
    books.ps.flush()
    check_files(books, tmp_path)


def test_a_full_disk_then_close(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    with full_disk():
        fail_in(books, changes(2))
        with pytest.raises(PenstockError) as caught:
            books.ps.close()
        assert clear_stop(caught.value).code == "PS-SINK-003"
    books.check()  # it is still open
    books.ps.close()
    for name in ("groups", "texts"):
        assert written(tmp_path / name) == books.answers()[name]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_waits(books: Books, tmp_path: Path, form: str) -> None:
    books.ps.sql(f"CREATE SINK more FROM kinds INTO {form} {_path(tmp_path, 'more')}")
    with full_disk():
        fail_in(books, changes(1) + changes(2))
    books.push(changes(3))
    assert list((tmp_path / "more").glob(f"part-*.{form}"))
    check_files(books, tmp_path)


def test_a_sink_that_cannot_write_does_not_starve_the_others(books: Books, tmp_path: Path) -> None:
    heard: list[int] = []
    books.ps["kinds"].subscribe(lambda table: heard.append(table.num_rows))
    books.push(changes(0))
    shutil.rmtree(tmp_path / "groups")
    (tmp_path / "groups").write_text("in the way")
    fail_in(books, changes(2))
    assert written(tmp_path / "texts") == books.answers()["texts"]
    assert heard
    books.check()


def test_a_directory_that_was_deleted_is_made_again(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    books.push(changes(1))
    kept = tmp_path / "kept"
    os.rename(tmp_path / "groups", kept)
    books.push(changes(2))
    for path in (tmp_path / "groups").glob("*"):
        os.rename(path, kept / path.name)
    shutil.rmtree(tmp_path / "groups")
    os.rename(kept, tmp_path / "groups")
    check_files(books, tmp_path)


def test_a_sink_that_waits_can_be_dropped(books: Books, tmp_path: Path) -> None:
    books.push(changes(0))
    with full_disk():
        fail_in(books, changes(2))
    books.ps.sql("DROP SINK groups_out; DROP SINK texts_out")
    books.push(changes(3))
    books.check()


def test_what_waits_is_in_the_checkpoint(tmp_path: Path) -> None:
    directory, out = tmp_path / "checkpoint", tmp_path / "groups"
    books = open_books(checkpoint=directory)
    books.ps.sql(f"CREATE SINK out FROM groups INTO json {_path(tmp_path, 'groups')}")
    books.push(changes(0))
    shutil.rmtree(out, ignore_errors=True)
    out.write_text("in the way")
    fail_in(books, changes(2))
    with pytest.raises(PenstockError):
        books.ps.close()  # saved, but for the sink
    out.unlink()
    books.ps = penstock.connect(runner="inprocess", checkpoint=directory)
    books.push(changes(4))
    assert written(out) == books.answers()["groups"]
    books.ps.close()


def test_a_checkpoint_opens_while_a_sink_has_no_directory(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    with penstock.connect(runner="inprocess", checkpoint=tmp_path / "c") as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s [RANGE 5]")
        for name, path in (("o", out), ("p", other)):
            ps.sql(f"CREATE SINK {name} FROM v INTO json OPTIONS (path '{path}')")
        ps.push("s", [{"k": 1, "ts": 1}])
    shutil.rmtree(out)
    out.write_text("in the way")
    ps = penstock.connect(runner="inprocess", checkpoint=tmp_path / "c")
    with pytest.raises(PenstockError) as told:
        ps.push("s", [{"k": 2, "ts": 2}])
    assert told.value.code == "PS-SINK-003"
    assert [json.loads(line)["k"] for line in lines_of(other)] == [1, 2]
    out.unlink()
    ps.flush()
    assert [json.loads(line)["k"] for line in lines_of(out)] == [2]
    ps.sql("DROP SINK o")
    ps.close()


def lines_of(directory: Path) -> list[str]:
    files = sorted(directory.glob("part-*"))
    return [line for path in files for line in path.read_text().splitlines()]
