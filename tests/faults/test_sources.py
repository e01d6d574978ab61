"""Source files that are empty, half written, deleted or written again, read in process.

Every row is read once: what was read stays, and a file that cannot be read is named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from faults.books import clear_stop, close
from penstock.errors import PenstockError

Numbers = list[int]


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = penstock.connect(runner="inprocess", shards=request.param)
    yield made
    close(made)


def declare(session: Any, form: str, directory: Path) -> Any:
    session.sql(
        f"CREATE STREAM e (k INT, ts BIGINT) TIMESTAMP BY ts FROM {form} "
        f"OPTIONS (path '{directory}/*.{form}')"
    )
    return session.query("SELECT k FROM e [RANGE 1000]")


def write(path: Path, numbers: Numbers) -> None:
    """A file with rows whose time is their number."""
    rows = [{"k": n, "ts": n} for n in numbers]
    if path.suffix == ".json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        path.write_text("k,ts\n" + "".join(f"{n},{n}\n" for n in numbers))
    else:
        schema = pa.schema([("k", pa.int32()), ("ts", pa.int64())])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def told(session: Any) -> str:
    """What is said of files that cannot be read: by an error, or in SHOW STREAMS."""
    try:
        session.flush()
    except PenstockError as error:
        return str(clear_stop(error))
    return str(session.sql("SHOW STREAMS").to_pylist())


def seen(query: Any) -> Numbers:
    return sorted(query.view()["k"].to_pylist())


FORMS = pytest.mark.parametrize("form", ["json", "csv", "parquet"])


@FORMS
def test_a_file_that_was_read_may_go(session: Any, tmp_path: Path, form: str) -> None:
    write(tmp_path / f"a.{form}", [1, 2])
    write(tmp_path / f"b.{form}", [3, 4])
    query = declare(session, form, tmp_path)
    session.flush()
    (tmp_path / f"a.{form}").unlink()
    write(tmp_path / f"c.{form}", [5, 6])
    session.flush()
    assert seen(query) == [1, 2, 3, 4, 5, 6]


@FORMS
def test_a_file_that_was_read_is_written_again(session: Any, tmp_path: Path, form: str) -> None:
    """Its rows have been read: what is there instead is not, also if it is newer or longer."""
    write(tmp_path / f"a.{form}", [1, 2])
    query = declare(session, form, tmp_path)
    session.flush()
    write(tmp_path / f"a.{form}", [1, 2, 7, 8])
    os.utime(tmp_path / f"a.{form}", (4e9, 4e9))
    write(tmp_path / f"b.{form}", [3])
    session.flush()
    (tmp_path / f"a.{form}").write_bytes(b"\x00 rubbish")
    write(tmp_path / f"c.{form}", [4])
    session.flush()
    assert seen(query) == [1, 2, 3, 4]
    counts = session.stats()["streams"]["e"]
    assert (counts["received"], counts["accepted"], counts["quarantined"]) == (4, 4, 0)


@FORMS
def test_an_empty_file_has_no_rows(session: Any, tmp_path: Path, form: str) -> None:
    write(tmp_path / f"a.{form}", [])
    write(tmp_path / f"b.{form}", [3])
    query = declare(session, form, tmp_path)
    session.flush()
    assert seen(query) == [3]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_file_without_a_byte(session: Any, tmp_path: Path, form: str) -> None:
    (tmp_path / f"a.{form}").write_text("")
    write(tmp_path / f"b.{form}", [3])
    query = declare(session, form, tmp_path)
    session.flush()
    assert seen(query) == [3]


def test_half_a_parquet_file_is_named(session: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1, 2])
    query = declare(session, "parquet", tmp_path)
    session.flush()
    other = session.query("SELECT 1 AS one, k FROM e [RANGE 1000]")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    assert "b.parquet" in told(session)
    write(tmp_path / "b.parquet", [3])
    session.flush()
    assert seen(query) == [1, 2, 3]
    assert other.status in ("running", "warming")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rubbish_is_quarantined(session: Any, tmp_path: Path, form: str) -> None:
    write(tmp_path / f"a.{form}", [1])
    with (tmp_path / f"a.{form}").open("a") as file:
        file.write('{"k": 2, "ts"\n' if form == "json" else "2\n")
    query = declare(session, form, tmp_path)
    session.flush()
    counts = session.stats()["streams"]["e"]
    assert (counts["received"], counts["accepted"], counts["quarantined"]) == (2, 1, 1)
    assert seen(query) == [1]
