"""FROM in process: files once each, a source that fails is paused, options are judged at CREATE."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import DataError, PenstockError, SqlSyntaxError

COLUMNS = "(k INT, ts BIGINT) TIMESTAMP BY ts"


def put(folder: Path, name: str, *ts: int, age: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(json.dumps({"k": 1, "ts": t}) + "\n" for t in ts))
    os.utime(path, (1000 + age, 1000 + age))
    return path


def create(stream: str, folder: Path, kind: str = "json", more: str = "") -> str:
    return f"CREATE STREAM {stream} {COLUMNS} FROM {kind} OPTIONS (path '{folder}'{more})"


def told(session: Any, stream: str) -> tuple[int, int, int]:
    found = session.stats()["streams"][stream]
    assert found["received"] == found["accepted"] + found["late"] + found["quarantined"]
    return found["accepted"], found["late"], found["quarantined"]


def paused(session: Any, stream: str) -> str:
    rows = {row["name"]: row["source"] for row in session.sql("SHOW STREAMS").to_pylist()}
    assert (rows[stream] == "read") == (session.stats()["streams"][stream]["source"] == "read")
    return str(rows[stream])


@pytest.fixture(params=[None, 2])
def session(request: pytest.FixtureRequest) -> Any:
    with penstock.connect(runner="inprocess", shards=request.param) as made:
        yield made


def test_files_are_read_once_in_whatever_order_they_come(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "m", 10)
    session.sql(create("s", tmp_path))
    session.flush()
    put(tmp_path, "a", 11, 12)  # before the other by name
    session.flush()
    put(tmp_path, "a", 11, 12, 13)  # as on Spark, a file is not read twice
    session.flush()
    assert told(session, "s") == (3, 0, 0)


def test_batches_are_cut_as_on_spark(session: Any, tmp_path: Path) -> None:
    for name, ts, age in (("a", 30, 2), ("b", 10, 1), ("c", 20, 3)):
        put(tmp_path, name, ts, age=age)
    session.sql(create("one", tmp_path))
    session.sql(create("each", tmp_path, more=", maxFilesPerTrigger 1"))
    session.flush()
    assert told(session, "one") == (3, 0, 0)
    assert told(session, "each") == (2, 1, 0)


def test_a_file_that_cannot_be_read_pauses_its_stream_alone(session: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    put(good, "1", 10)
    bad.mkdir()
    pq.write_table(pa.table({"k": [1], "ts": [5]}), bad / "0.parquet")
    session.sql(create("good", good))
    session.sql(create("bad", bad, "parquet"))
    session.flush()
    whole = (bad / "0.parquet").read_bytes()
    (bad / "1.parquet").write_bytes(whole[:-8])
    pq.write_table(pa.table({"k": [1], "ts": [6]}), bad / "2.parquet")
    put(good, "2", 11)
    session.flush()
    assert (told(session, "good"), told(session, "bad")) == ((2, 0, 0), (1, 0, 0))
    assert "1.parquet cannot be read as Parquet" in paused(session, "bad")
    assert "1.parquet" in session.progress()[-1]["streams"]["bad"]["paused"]
    (bad / "1.parquet").write_bytes(whole)
    session.flush()
    assert (told(session, "bad"), paused(session, "bad")) == ((3, 0, 0), "read")


def test_a_directory_may_go_and_come_back(session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "1", 10).unlink()
    session.sql(create("s", folder))
    folder.rmdir()
    session.flush()
    put(folder, "2", 11)
    session.flush()
    assert told(session, "s") == (1, 0, 0)


def test_pause_and_resume(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "1", 10)
    session.sql(create("s", tmp_path))
    session.sql("CREATE STREAM p (k INT, ts BIGINT) TIMESTAMP BY ts")
    session.sql("ALTER STREAM S PAUSE")
    session.flush()
    assert told(session, "s") == (0, 0, 0)
    assert "ALTER STREAM" in paused(session, "s")
    session.sql("ALTER STREAM s RESUME")
    session.flush()
    assert told(session, "s") == (1, 0, 0)
    with pytest.raises(DataError, match=r"PS-SRC-008.*its rows are pushed"):
        session.sql("ALTER STREAM p PAUSE")
    with pytest.raises(PenstockError, match="PS-NAME-001"):
        session.sql("ALTER STREAM nothing PAUSE")
    with pytest.raises(SqlSyntaxError, match=r"(?s)expected PAUSE or RESUME.*ALTER STREAM s PAUSE"):
        session.sql("ALTER STREAM s STOP")
    with pytest.raises(SqlSyntaxError, match="ALTER STREAM"):
        session.sql("ALTER TABLE s PAUSE")


def test_what_was_read_and_what_is_paused_outlive_the_session(tmp_path: Path) -> None:
    put(tmp_path / "in", "1", 10)
    with penstock.connect(runner="inprocess", checkpoint=tmp_path / "cp") as ps:
        ps.sql(create("s", tmp_path / "in"))
        ps.flush()
        ps.sql("ALTER STREAM s PAUSE")
    put(tmp_path / "in", "0", 11)
    with penstock.connect(runner="inprocess", checkpoint=tmp_path / "cp") as ps:
        ps.flush()
        assert told(ps, "s") == (1, 0, 0)
        ps.sql("ALTER STREAM s RESUME")
        ps.flush()
        assert told(ps, "s") == (2, 0, 0)


def test_a_dropped_stream_gives_its_name_and_files_away(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "1", 10)
    for _ in range(2):
        session.sql(create("s", tmp_path))
        session.flush()
        assert told(session, "s") == (1, 0, 0)
        session.sql("DROP STREAM s")


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("json", ", maxFilePerTriger 1", r"PS-SRC-002.*no option maxFilePerTriger"),
        ("json", ", maxFilePerTriger 1", r"(?s)remedy: write maxFilesPerTrigger$"),
        ("json", ", maxFilesPerTrigger 'x'", r"PS-SRC-002.*maxFilesPerTrigger is 'x'"),
        ("json", ", maxfilespertrigger '-3'", r"(?s)PS-SRC-002.*a whole number, 1 or more"),
        ("json", ", maxFilesPerTrigger 0", "PS-SRC-002"),
        ("csv", ", header 'perhaps'", r"(?s)PS-SRC-002.*'true' or 'false'"),
        ("csv", ", escape '+'", r"PS-SRC-002.*needs Spark's reader"),
        ("csv", ", inferSchema true", r"(?s)PS-SRC-002.*the columns of the stream are declared"),
        ("json", ", cleanSource 'delete'", r"PS-SRC-002.*needs Spark's reader"),
        ("kafka", ", subscribe 't'", r"(?s)PS-SRC-001.*or run on Spark"),
        ("nonsense", "", "PS-SRC-001"),
    ],
)
def test_options_are_judged_at_create(
    session: Any, tmp_path: Path, kind: str, more: str, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        session.sql(create("s", tmp_path, kind, more))
    assert session.sql("SHOW STREAMS").num_rows == 0


def test_paths_are_judged_at_create(session: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)PS-SRC-004.*create the directory first"):
        session.sql(create("s", tmp_path / "none"))
    session.sql(create("s", tmp_path / "*.json"))  # files may come later
    session.flush()
    put(tmp_path, "1.json", 5)
    session.flush()
    assert told(session, "s") == (1, 0, 0)


@pytest.mark.parametrize(
    ("declared", "values", "fits"),
    [
        ("INT", pa.array([1], pa.int64()), True),
        ("INT", pa.array(["x"]), True),
        ("INT", pa.array([True]), False),
        ("BOOLEAN", pa.array([1]), False),
        ("DOUBLE", pa.array([1], pa.decimal128(9, 2)), True),
        ("TIMESTAMP", pa.array([0], pa.timestamp("ms", "UTC")), True),
        ("TIMESTAMP", pa.array([1.5]), False),
        ("DATE", pa.array([0], pa.date32()), True),
        ("STRING", pa.array(["x"]).dictionary_encode(), True),
        ("STRING", pa.array([[1]]), False),
        ("STRING", pa.array([{"a": 1}]), False),
    ],
)
def test_types_that_can_never_fit_are_refused_at_create(
    session: Any, tmp_path: Path, declared: str, values: pa.Array, fits: bool
) -> None:
    pq.write_table(pa.table({"v": values, "ts": [1]}), tmp_path / "a.parquet")
    text = (
        f"CREATE STREAM s (v {declared}, ts BIGINT) TIMESTAMP BY ts "
        f"FROM parquet OPTIONS (path '{tmp_path}')"
    )
    if fits:
        session.sql(text)
        session.flush()
        assert sum(told(session, "s")) == 1
    else:
        with pytest.raises(DataError, match=rf"PS-SRC-006.*v {declared}.*a\.parquet"):
            session.sql(text)


def test_a_later_file_of_other_types_is_quarantined(session: Any, tmp_path: Path) -> None:
    session.sql(create("s", tmp_path, "parquet"))
    pq.write_table(pa.table({"k": [[1]], "ts": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": [True, None], "ts": [1, 2]}), tmp_path / "b.parquet")
    session.flush()
    assert told(session, "s") == (1, 0, 2)
    assert set(session.quarantine("s")["_reason"].to_pylist()) == {"k is not a valid INT"}
