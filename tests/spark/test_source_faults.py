"""Sources that fail, are paused, dropped, declared again: others go on, and no row is lost."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import DataError, NameError_, StateError
from spark.reading import counts

COLUMNS = "(k INT, s STRING, ts BIGINT) TIMESTAMP BY ts"
COUNT = "SELECT count(*) AS n, sum(k) AS total FROM {} [RANGE 1000]"


def create(stream: str, kind: str, folder: Path, more: str = "") -> str:
    return f"CREATE STREAM {stream} {COLUMNS} FROM {kind} OPTIONS (path '{folder}'{more})"


def rows(number: int) -> list[dict[str, Any]]:
    return [{"k": n % 3, "s": "x", "ts": 10 * number + n} for n in range(10)]


def put(folder: Path, number: int, kind: str = "parquet") -> Path:
    """Ten rows in a file, there at once."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.{kind}"
    aside = folder / f".{path.name}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows(number)), aside)
    else:
        aside.write_text("".join(json.dumps(row) + "\n" for row in rows(number)))
    aside.rename(path)
    return path


def total(session: Any, view: str) -> tuple[int, int]:
    (row,) = session[view].view().to_pylist()
    return row["n"], row["total"]


def received(session: Any, *streams: str) -> list[int]:
    return [counts(session, stream)["received"] for stream in streams]


def source(session: Any, stream: str) -> str:
    found = {row["name"]: row["source"] for row in session.sql("SHOW STREAMS").to_pylist()}
    return str(found[stream])


def test_one_source_that_fails_does_not_stop_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Half written files, of two kinds of readers; the answers are those of a run without them."""
    good, bad, zipped = (tmp_path / name for name in ("good", "bad", "zipped"))
    for folder in (good, bad):
        put(folder, 0)
    put(zipped, 0, "json")
    whole = put(bad, 1).read_bytes()
    (bad / "1.parquet").write_bytes(whole[:-50])
    packed = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows(1)) * 50)
    (zipped / "1.json.gz").write_bytes(packed[:-20])
    cp = tmp_path / "cp"
    with penstock.connect(spark=spark, shards=1, checkpoint=cp) as ps:
        ps.sql(create("good", "parquet", good))
        ps.sql(create("bad", "parquet", bad))
        ps.sql(create("zipped", "json", zipped, ", allowComments true"))  # Spark reads it
        ps.sql(f"CREATE MATERIALIZED VIEW n AS {COUNT.format('bad')}")
        ps.flush()
        assert received(ps, "good", "bad", "zipped") == [10, 0, 0]
        assert source(ps, "good") == "read"
        for stream, file in (("bad", "1.parquet"), ("zipped", "1.json.gz")):
            assert source(ps, stream).startswith("paused: ")
            assert file in source(ps, stream)
            assert file in ps.progress()[-1]["streams"][stream]["paused"]
        (bad / "1.parquet").write_bytes(whole)
        (zipped / "1.json.gz").unlink()  # and what it held comes under another name
        put(zipped, 2, "json")
        ps.flush()
        assert (source(ps, "bad"), source(ps, "zipped")) == ("read", "read")
        assert received(ps, "good", "bad", "zipped") == [10, 20, 20]
        assert total(ps, "n") == (20, 18)
    with penstock.connect(spark=spark, checkpoint=cp) as ps:  # nothing of it is damaged
        assert received(ps, "good", "bad", "zipped") == [10, 20, 20]


def test_sources_are_paused_and_dropped_by_command(spark: SparkSession, tmp_path: Path) -> None:
    """Both hold after a restart; a stream of the same name begins with its own first file."""
    for name in "abc":
        put(tmp_path / name, 0)
    put(tmp_path / "b", 50)  # far ahead: what comes later under the name would be late
    with penstock.connect(spark=spark, shards=1, checkpoint=tmp_path / "cp") as ps:
        for name in "ab":
            ps.sql(create(name, "parquet", tmp_path / name))
        ps.sql(f"CREATE MATERIALIZED VIEW n_b AS {COUNT.format('b')}")
        ps.flush()
        ps.sql("ALTER STREAM b PAUSE")
        for name in "ab":
            put(tmp_path / name, 51)
        ps.flush()
        assert received(ps, "a", "b") == [20, 20]
        assert "paused: by ALTER STREAM" in source(ps, "b")
    with penstock.connect(spark=spark, checkpoint=tmp_path / "cp") as ps:
        assert "paused: by ALTER STREAM" in source(ps, "b")
        ps.sql("ALTER STREAM b RESUME")
        ps.flush()
        assert total(ps, "n_b") == (30, 27)
        with pytest.raises(NameError_, match="PS-NAME-009"):
            ps.sql("DROP STREAM b")
        ps.sql("DROP MATERIALIZED VIEW n_b; DROP STREAM b")
        ps.sql(create("b", "parquet", tmp_path / "c"))
        ps.sql(f"CREATE MATERIALIZED VIEW n_b AS {COUNT.format('b')}")
        ps.flush()
        assert total(ps, "n_b") == (10, 9)
        assert received(ps, "a") == [20]
        assert counts(ps, "b") == {"received": 10, "accepted": 10, "late": 0, "quarantined": 0}


def test_a_checkpoint_with_a_bad_source_opens(spark: SparkSession, tmp_path: Path) -> None:
    """Killed in the batch that had the bad file; then its directory goes as well."""
    cp, folders = tmp_path / "cp", {name: tmp_path / name for name in "ab"}
    for folder in folders.values():
        put(folder, 0)
    ps: Any = penstock.connect(spark=spark, shards=1, checkpoint=cp)
    for name, folder in folders.items():
        ps.sql(create(name, "parquet", folder))
        ps.sql(f"CREATE MATERIALIZED VIEW n_{name} AS {COUNT.format(name)}")
    (folders["b"] / "0.parquet").write_text("no Parquet")
    ps._runner.job._streaming._mend = lambda error: False
    with pytest.raises(penstock.PenstockError):
        ps.flush()
    ps._runner.job.close()  # as after a kill
    ps._runner.answers.views.shut()
    shutil.rmtree(folders["b"])
    with penstock.connect(spark=spark, checkpoint=cp) as ps:
        ps.flush()
        assert received(ps, "a", "b") == [10, 0]
        assert "paused" in source(ps, "b")
        ps.sql("DROP MATERIALIZED VIEW n_b; DROP STREAM b")
        put(folders["a"], 1)
        ps.flush()
        assert total(ps, "n_a") == (20, 18)


def test_a_frame_that_stops_the_job_can_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody can tell which source failed, and it has no name: a stand-in keeps its number."""
    put(tmp_path / "a", 0)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "1.json.gz").write_bytes(gzip.compress(b"{}" * 1000)[:-20])
    with penstock.connect(spark=spark, shards=1, checkpoint=tmp_path / "cp") as ps:
        ps.sql(create("a", "parquet", tmp_path / "a"))
        ps.stream("f", spark.readStream.schema("ts long").json(str(tmp_path / "f")), time="ts")
        ps.sql(f"CREATE MATERIALIZED VIEW n AS {COUNT.format('a')}")
        with pytest.raises(penstock.PenstockError, match=r"1\.json\.gz"):
            ps.flush()
        ps.sql("DROP STREAM f")
        ps.flush()
        assert total(ps, "n") == (10, 9)
        with pytest.raises(StateError, match="PS-STATE-008"):
            ps.sql(create("f", "parquet", tmp_path / "a"))


def test_options_are_judged_when_the_stream_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", 0)
    wrong = {
        ", maxFilePerTriger 1": r"PS-SRC-002(.|\n)*write maxFilesPerTrigger",
        ", maxFilesPerTrigger 'x'": r"PS-SRC-002.*'x'",
        ", maxFilesPerTrigger '-1'": "PS-SRC-002",
    }
    with (
        penstock.connect(spark=spark, shards=1) as ps,
        penstock.connect(runner="inprocess") as one,
    ):
        for session in (ps, one):
            for more, said in wrong.items():
                with pytest.raises(DataError, match=said):
                    session.sql(create("s", "parquet", tmp_path / "in", more))
            with pytest.raises(DataError, match=r"PS-SRC-006.*declares k BOOLEAN, but .*int64"):
                session.sql(create("s", "parquet", tmp_path / "in").replace("k INT", "k BOOLEAN"))
            with pytest.raises(DataError, match=r"PS-SRC-004"):
                session.sql(create("s", "parquet", tmp_path / "none"))
            with pytest.raises(DataError, match=r"PS-SRC-001"):
                session.sql(create("s", "nonsense", tmp_path / "in"))
            session.sql(create("s", "parquet", tmp_path / "in", ", MAXFILESPERTRIGGER 1"))


TEXTS = {
    "csv": "extra,TS,k,s\n0,5,1,a\n0,6,two,b\n0,7,3,c\n1,2\n",
    "json": '{"ts": 5, "k": 1, "s": "a", "more": {"x": 1}}\n{"ts": 6, "k": "two"}\n'
    '{"ts": 7, "k": "3", "s": 4}\nno json\n{"k": 9}\n',
}

KINDS = (*TEXTS, "parquet")


def test_files_mean_the_same_on_both_runners(spark: SparkSession, tmp_path: Path) -> None:
    """Fields more or less, values that do not fit, and batches cut alike: late rows too."""
    for kind, text in TEXTS.items():
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"0.{kind}").write_text(text)
    (tmp_path / "parquet").mkdir()
    for number, table in enumerate(
        (
            pa.table({"k": [1, 1 << 40, 3], "TS": [5, 6, 90], "extra": [0, 0, 0]}),
            pa.table({"k": ["4", "five"], "ts": [91, 92], "s": ["x", None]}),
            pa.table({"k": [6], "ts": [7]}),
        )
    ):
        path = tmp_path / "parquet" / f"{9 - number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1000 + number, 1000 + number))
    with (
        penstock.connect(spark=spark, shards=2) as ps,
        penstock.connect(runner="inprocess") as one,
        penstock.connect(runner="inprocess", shards=2) as two,
    ):
        found = []
        for session in (ps, one, two):
            for kind in KINDS:
                session.sql(create(kind, kind, tmp_path / kind, ", maxFilesPerTrigger 1"))
            queries = [session.query(f"SELECT k, s, ts FROM {k} [RANGE 100]") for k in TEXTS]
            queries.append(session.query("SELECT k, s, ts FROM parquet [RANGE 100]"))
            session.flush()
            answers = [sorted(map(str, q.view().to_pylist())) for q in queries]
            reasons = [
                sorted(session.quarantine(k)["_reason"].to_pylist()) for k in (*TEXTS, "parquet")
            ]
            found.append((answers, reasons, [counts(session, k) for k in (*TEXTS, "parquet")]))
        assert found[0] == found[1] == found[2]
        assert found[0][2] == [
            {"received": 4, "accepted": 2, "late": 0, "quarantined": 2},
            {"received": 5, "accepted": 2, "late": 0, "quarantined": 3},
            {"received": 6, "accepted": 3, "late": 1, "quarantined": 2},
        ]
