"""Sinks on Spark: what is written, once, whatever happens between staging and renaming."""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from penstock import types as t
from penstock.arrays import BEGINNING
from penstock.changes import Changes
from penstock.delta import Sets
from penstock.engine.blocks import AddTemplate
from penstock.errors import DataError, NameError_, PenstockError
from penstock.schema import Field, Schema
from penstock.session.changelog import Changelog
from penstock.shards import wire
from penstock.shards.wire import Result
from penstock.spark.batch_files import BatchFiles
from penstock.spark.cells import RESULTS
from penstock.spark.change_frames import QueryNames, spark_schema
from penstock.spark.frames import result_frame
from penstock.spark.job import SparkJob
from penstock.spark.sinks import FunctionSink, SinkSpec, SparkSinks
from penstock.spark.storage import Directory
from penstock.spark.write_formats import kafka_rows, kafka_writer
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from spark.kafka_broker import JARS
from spark.scenario import Deliveries, record, trades

NAMES = ("i", "b", "f", "d", "m", "s", "day", "at", "yes")
TYPES = (
    t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.decimal(18, 2), t.STRING, t.DATE, t.TIMESTAMP, t.BOOLEAN,
)  # fmt: skip
WIDE = Schema(tuple(Field(n, k) for n, k in zip(NAMES, TYPES, strict=True)))
ROWS: list[tuple[Any, ...]] = [
    (
        1, 2**63 - 1, 0.25, math.nan, Decimal("-1234567890123456.78"), 'a,"é"\n',
        dt.date(1969, 1, 2), dt.datetime(1960, 1, 2, 3, 4, 5, 678901), True,
    ),
    (None,) * 9,
    (
        -(2**31), 0, 0.0, 1e300, Decimal("0.10"), "", dt.date(2100, 1, 1),
        dt.datetime(2024, 2, 29), False,
    ),
]  # fmt: skip
NARROW = Schema((Field("k", t.INT),))
Change = tuple[int, int, int, tuple[Any, ...]]
"""Query, kind of change, time, row."""


def block(template: int, order: int, changes: list[Change], schema: Schema) -> Result:
    """A block as shards make it (`wire.pack_changes`)."""
    columns = list(zip(*(row for *_, row in changes), strict=True))
    arrays = [
        pa.array([qid for qid, *_ in changes], pa.int64()),
        pa.array([kind for _, kind, *_ in changes], pa.int8()),
        pa.array([time for *_, time, _ in changes], pa.int64()),
        *(pa.array(c, f.type) for c, f in zip(columns, schema.arrow(), strict=True)),
    ]
    names = ["_qid", "_kind", "_time", *(f"c{j}" for j in range(len(columns)))]
    data = wire.pack_batch(pa.RecordBatch.from_arrays(arrays, names))
    return Result("changes", template, order, data)


def numbered(first: int, n: int) -> Result:
    """Insertions of k = first, first + 1, … into query 5 of template 1, at time k."""
    return block(1, 3, [(5, 0, k, (k,)) for k in range(first, first + n)], NARROW)


def deliver(spark: SparkSession, sinks: SparkSinks, batch: int, *results: Result) -> None:
    every = [*results, Result("status", -1, 9, wire.dumps({}))]
    frame = spark.createDataFrame(result_frame(every), RESULTS)
    sinks(frame, batch, every)


def spec(format: str | FunctionSink, path: Path | None = None, **more: Any) -> SinkSpec:
    options = {"path": str(path)} if path else {}
    given: dict[str, Any] = {
        "name": "out", "query": "q", "template": 1, "qid": 5, "schema": NARROW, "unit_time": True,
        "format": format, "options": {**options, **more.pop("options", {})},
    }  # fmt: skip
    return SinkSpec(**{**given, **more})


def parts(path: Path) -> list[str]:
    return sorted(f.name for f in path.iterdir() if f.name != "_penstock")


def keys(path: Path) -> list[int]:
    return sorted(pd.read_parquet(path)["k"]) if parts(path) else []


def many_changes(patch: pytest.MonkeyPatch) -> None:
    """Treat few changes as if they were many: decoded by tasks, in several files."""
    patch.setattr("penstock.spark.sinks._FEW_BYTES", 0)
    patch.setattr("penstock.spark.batch_files._FILE_BYTES", 500)


# ---- what is written -----------------------------------------------------------------
@pytest.fixture(scope="module")
def wide_blocks() -> list[Result]:
    us = 1_600_000_000_000_000
    return [
        block(2, 4, [(7, 1, us + 1, ROWS[0]), (8, 0, us + 1, ROWS[2])], WIDE),
        block(2, 1, [(8, 0, us, ROWS[2]), (7, 0, BEGINNING, ROWS[0]), (7, 2, us, ROWS[1]),
                     (7, 3, us, ROWS[2])], WIDE),
    ]  # fmt: skip


EXPECTED_META = [
    ("insert", None, (1 << 32) + 1),
    ("update_preimage", dt.datetime(2020, 9, 13, 12, 26, 40), (1 << 32) + 2),
    ("update_postimage", dt.datetime(2020, 9, 13, 12, 26, 40), (1 << 32) + 3),
    ("delete", dt.datetime(2020, 9, 13, 12, 26, 40, 1), 4 << 32),
]
EXPECTED = [
    ("wide", kind, time, 12, seq, *row)
    for (kind, time, seq), row in zip(
        EXPECTED_META, [ROWS[0], ROWS[1], ROWS[2], ROWS[0]], strict=True
    )
]


def plain(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Comparable: NaN is not equal to itself."""
    return [tuple("NaN" if isinstance(v, float) and v != v else v for v in row) for row in rows]


@pytest.mark.parametrize("by", ["driver", "tasks"])
@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_every_type_comes_back(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wide_blocks: list[Result],
    format: str,
    by: str,
) -> None:
    if by == "tasks":
        monkeypatch.setattr("penstock.spark.sinks._FEW_BYTES", 0)
    sinks = SparkSinks(spark, "ckpt")
    wide = {"template": 2, "qid": 7, "schema": WIDE, "unit_time": False, "query": "wide"}
    sinks.add(spec(format, tmp_path, **wide))
    deliver(spark, sinks, 12, *wide_blocks, numbered(0, 2))
    (name,) = parts(tmp_path)
    assert name.startswith("part-000000000012-")
    assert name.endswith(f"-0.{format}")
    schema = spark_schema(WIDE, False, per_row=False)
    if format == "csv":
        assert plain(read_csv(tmp_path / name)) == plain(EXPECTED)
        return
    reader = spark.read.format(format)
    back = (reader if format == "parquet" else reader.schema(schema)).load(str(tmp_path))
    assert [(f.name, f.dataType) for f in back.schema] == [(f.name, f.dataType) for f in schema]
    assert plain(back.collect()) == plain(EXPECTED)


def read_csv(path: Path) -> list[tuple[Any, ...]]:
    """Spark's own reader takes an empty string for NULL."""
    columns = [*Changelog(WIDE, False).columns(many=False)][2:]
    convert = pa_csv.ConvertOptions(
        column_types={f.name: f.type for f in columns}, strings_can_be_null=True,
        quoted_strings_can_be_null=False, null_values=[""],
    )  # fmt: skip
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    table = pa_csv.read_csv(path, parse_options=parse, convert_options=convert)
    return [tuple(row.values()) for row in table.to_pylist()]


def test_pandas_reads_the_directory(spark: SparkSession, tmp_path: Path) -> None:
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("parquet", tmp_path / "p"))
    sinks.add(spec("json", tmp_path / "j", name="json"))
    sinks.add(spec("csv", tmp_path / "c", name="csv"))
    deliver(spark, sinks, 1, numbered(0, 2))
    deliver(spark, sinks, 2, numbered(2, 1))
    expected = [("q", "insert", k, 1 + k // 2, (3 << 32) + k % 2, k) for k in range(3)]
    readers = {"p": pd.read_parquet, "j": lambda f: pd.read_json(f, lines=True), "c": pd.read_csv}
    assert list(pd.read_parquet(tmp_path / "p").itertuples(index=False, name=None)) == expected
    for folder, read in readers.items():
        frame = pd.concat([read(tmp_path / folder / f) for f in parts(tmp_path / folder)])
        assert list(frame.itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("by", ["driver", "tasks"])
def test_rows_of_many_queries_have_a_list_of_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "tasks":
        monkeypatch.setattr("penstock.spark.sinks._FEW_BYTES", 0)
    sets = Sets(np.array([0, 2, 3]), np.array([5, 6, 6]))
    rows = np.array([[0, 0, 0], [1, 2, 3]])
    kinds, times = np.zeros(3, np.int8), np.arange(3)
    changes = Changes(rows, times, kinds, np.array([0, 1, 0]), sets)
    strings = StringTable(Arena().scope("strings"))
    result = Result("changes", 1, 3, wire.pack_changes(changes, NARROW, strings))
    sinks = SparkSinks(spark, "ckpt")
    names = QueryNames.of(np.array([5, 6]), pa.array(["five", "six"]))
    whole = {"qid": None, "names": lambda: names, "per_row": True}
    for kind in ("parquet", "json"):
        sinks.add(spec(kind, tmp_path / kind, name=kind, **whole))
    sinks.add(spec("parquet", tmp_path / "one", name="one", per_row=True))
    deliver(spark, sinks, 1, result)
    every = [(["five", "six"], 1), (["six"], 2), (["five", "six"], 3)]
    for kind in ("parquet", "json"):
        found = spark.read.format(kind).load(str(tmp_path / kind)).orderBy("_seq").collect()
        assert [(row["_query"], row["k"]) for row in found] == every
    one = pd.read_parquet(tmp_path / "one")
    assert [(list(q), k) for q, k in zip(one["_query"], one["k"], strict=True)] == [
        (["q"], 1), (["q"], 3),
    ]  # fmt: skip


def test_all_queries_of_a_template_have_their_names(
    spark: SparkSession, wide_blocks: list[Result]
) -> None:
    sinks = SparkSinks(spark)
    seen: list[list[tuple[str, int]]] = []
    function = FunctionSink(
        lambda df, n: seen.append([(r["_query"], r["_seq"]) for r in df.collect()])
    )
    template = {"template": 2, "qid": None, "schema": WIDE, "unit_time": False}
    names = QueryNames.of(np.array([8, 3]), pa.array(["eight", "three"]))
    sinks.add(spec(function, **template, names=lambda: names))
    deliver(spark, sinks, 1, *wide_blocks)
    one, four = 1 << 32, 4 << 32
    assert sorted(seen[0], key=lambda pair: pair[1]) == [
        ("eight", one), (None, one + 1), (None, one + 2), (None, one + 3), (None, four),
        ("eight", four + 1),
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["driver", "tasks"])
def test_a_batch_without_changes_of_the_query_leaves_no_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "tasks":
        many_changes(monkeypatch)
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("csv", tmp_path))
    deliver(spark, sinks, 1, block(1, 0, [(6, 0, 1, (1,))], NARROW))
    deliver(spark, sinks, 2, block(2, 0, [(5, 0, 1, (1,))], NARROW))
    assert parts(tmp_path) == []


def test_many_changes_make_several_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_changes(monkeypatch)
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("parquet", tmp_path))
    deliver(spark, sinks, 1, numbered(0, 2), block(1, 4, [(5, 0, 7, (7,))], NARROW))
    assert len(parts(tmp_path)) == 2
    assert keys(tmp_path) == [0, 1, 7]


# ---- once ----------------------------------------------------------------------------
def test_a_batch_that_comes_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    for again in (False, True):  # a process, and the next
        sinks = SparkSinks(spark, "ckpt")
        sinks.add(spec("parquet", tmp_path, options={"mode": "overwrite"}), later=again)
        for batch in (1, 2, 2):
            deliver(spark, sinks, batch, numbered(10 * batch, 2))
    assert keys(tmp_path) == [10, 11, 20, 21]
    kept = list((tmp_path / "_penstock").rglob("*"))
    assert sorted(f.name for f in kept) == ["000000000002.done", "ckpt-out", "opened"]


@pytest.mark.parametrize("point", ["staged", "listed", "first rename", "renamed", "lost"])
def test_an_interrupted_batch_is_finished_when_it_comes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    many_changes(monkeypatch)
    blocks = [numbered(0, 2), block(1, 4, [(5, 0, 7, (7,))], NARROW)]
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("parquet", tmp_path))
    deliver(spark, sinks, 1, numbered(50, 1))
    with monkeypatch.context() as patch:
        interrupt(patch, "first rename" if point == "lost" else point)
        with pytest.raises(KeyboardInterrupt):
            deliver(spark, sinks, 2, *blocks)
    visible = {"staged": 0, "listed": 0, "first rename": 1, "renamed": 2, "lost": 1}[point]
    assert len(parts(tmp_path)) == 1 + visible
    if point == "lost":
        for file in (tmp_path / "_penstock").rglob("*.parquet"):
            file.unlink()
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("parquet", tmp_path), later=True)
    deliver(spark, sinks, 2, *blocks)
    deliver(spark, sinks, 3, numbered(90, 1))
    assert keys(tmp_path) == [0, 1, 7, 50, 90]


def interrupt(patch: pytest.MonkeyPatch, point: str) -> None:
    """End the process, as it were, after a point of the protocol."""
    rename, write = Directory.rename, Directory.write
    renamed: list[str] = []

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def write_then_stop(self: Directory, name: str, data: bytes) -> None:
        if point == "staged" and name.endswith(".list"):
            stop()
        write(self, name, data)

    def rename_then_stop(self: Directory, old: str, new: str) -> None:
        rename(self, old, new)
        renamed.append(new)
        if new.startswith("part-") and point == "first rename":
            stop()

    patch.setattr(Directory, "write", write_then_stop)
    patch.setattr(Directory, "rename", rename_then_stop)
    if point == "listed":
        patch.setattr(BatchFiles, "_move", stop)
    if point == "renamed":
        patch.setattr(BatchFiles, "_finish", stop)


def test_checkpoints_and_sinks_share_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    for checkpoint in ("one", "two"):
        sinks = SparkSinks(spark, checkpoint)
        sinks.add(spec("parquet", tmp_path))
        sinks.add(spec("parquet", tmp_path, name="a/b", query="other"))
        deliver(spark, sinks, 1, numbered(0, 1))
        deliver(spark, sinks, 1, numbered(0, 1))
    assert keys(tmp_path) == [0] * 4
    assert sorted(pd.read_parquet(tmp_path)["_query"]) == ["other", "other", "q", "q"]


def test_modes_look_at_what_is_there_when_the_sink_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("not a batch")
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(spec("parquet", tmp_path, options={"mode": "error"}))
    deliver(spark, sinks, 1, numbered(0, 1))
    with pytest.raises(DataError, match="PS-SINK-006"):
        sinks.add(spec("parquet", tmp_path, name="second", options={"mode": "error"}))
    sinks.close("out")
    assert not sinks.needs_frame
    sinks.add(spec("parquet", tmp_path, options={"mode": "overwrite"}))
    assert parts(tmp_path) == ["mine.txt"]


@pytest.mark.parametrize("point", ["staged", "listed", "first rename", "renamed"])
def test_a_sink_does_not_continue_a_dropped_one_of_its_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The dropped sink has failed in a batch that comes again, and its directory was away."""
    sinks, out = SparkSinks(spark, "ckpt"), tmp_path / "out"
    sinks.add(spec("parquet", out))
    deliver(spark, sinks, 1, numbered(0, 1))
    with monkeypatch.context() as patch:
        interrupt(patch, point)
        with pytest.raises(KeyboardInterrupt):
            deliver(spark, sinks, 2, numbered(10, 1))
    out.rename(tmp_path / "away")
    out.write_text("in the way")
    sinks.close("out")
    out.unlink()
    (tmp_path / "away").rename(out)
    with pytest.raises(DataError, match="PS-SINK-006"):
        sinks.add(spec("parquet", out, options={"mode": "error"}))
    sinks.add(spec("parquet", out, options={"mode": "overwrite"}))
    deliver(spark, sinks, 2, numbered(20, 1))
    assert keys(out) == [20]


def test_a_restart_keeps_what_the_last_sink_of_a_name_wrote(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks, made = SparkSinks(spark, "ckpt"), spec("parquet", tmp_path, options={"mode": "error"})
    sinks.add(made)
    sinks.close("out")
    sinks.add(made)
    deliver(spark, sinks, 1, numbered(0, 1))
    sinks = SparkSinks(spark, "ckpt")
    sinks.add(made, later=True)  # the log repeats all three statements
    sinks.close("out")
    sinks.add(made, later=True)
    for batch in (1, 2):
        deliver(spark, sinks, batch, numbered(10 * (batch - 1), 1))
    assert keys(tmp_path) == [0, 10]


# ---- other formats -------------------------------------------------------------------
def test_a_function_has_the_frame_and_the_number(spark: SparkSession) -> None:
    sinks = SparkSinks(spark)
    seen: list[tuple[int, list[int]]] = []

    def function(frame: DataFrame, batch: int) -> None:
        seen.append((batch, [row["k"] for row in frame.orderBy("_seq").collect()]))

    sink = sinks.add(spec(FunctionSink(function)))
    assert sinks.needs_frame
    deliver(spark, sinks, 3, numbered(4, 2))
    sink.close()
    deliver(spark, sinks, 4, numbered(4, 2))
    assert seen == [(3, [4, 5])]
    assert not sinks.needs_frame


def test_a_function_that_raises_is_named(spark: SparkSession) -> None:
    sinks = SparkSinks(spark)
    sinks.add(spec(FunctionSink(lambda frame, batch: print(1 // 0))))
    with pytest.raises(PenstockError, match=r"sink out of q: .*ZeroDivisionError"):
        deliver(spark, sinks, 1, numbered(0, 1))


def test_the_console_shows_what_matters(spark: SparkSession) -> None:
    shown = io.StringIO()
    sinks = SparkSinks(spark)
    sinks.add(spec("console", options={"rows": "2"}))
    writer = sinks._open["out"].writer
    object.__setattr__(writer.sink, "console", Console(file=shown, width=80))  # type: ignore[attr-defined]
    deliver(
        spark,
        sinks,
        6,
        block(1, 2, [(5, 0, 9, (90,)), (5, 1, 8, (80,)), (5, 0, BEGINNING, (70,))], NARROW),
    )
    text = shown.getvalue()
    assert "out, batch 6" in text
    assert "and 1 more changes" in text
    cells = [[c.strip() for c in line.strip("┃│ \n").split("┃" if "┃" in line else "│")]
             for line in text.splitlines() if "┃" in line or "│" in line]  # fmt: skip
    assert cells == [["_time", "k"], ["+", "None", "70"], ["-", "8", "80"]]


def test_any_format_of_spark_appends(spark: SparkSession, tmp_path: Path) -> None:
    sinks = SparkSinks(spark)
    sinks.add(spec("orc", tmp_path / "orc"))
    for batch in (1, 2):
        deliver(spark, sinks, batch, numbered(batch, 1))
    back = spark.read.orc(str(tmp_path / "orc"))
    assert sorted((r["_batch"], r["k"]) for r in back.collect()) == [(1, 1), (2, 2)]


def test_kafka_rows_are_keyed_json(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("q", None, dt.datetime(2024, 1, 1))], "_query string, k int, `a.b` timestamp_ntz"
    )
    (row,) = kafka_rows(rows, "_query").collect()
    assert tuple(row) == ("q", '{"_query":"q","k":null,"a.b":"2024-01-01T00:00:00.000000"}')
    assert kafka_rows(rows, "a.b").first()["key"] == "2024-01-01 00:00:00"  # type: ignore[index]


def test_options_of_kafka_are_checked_before_anything_is_sent() -> None:
    given = {"Kafka.Bootstrap.Servers": "host:9092", "Topic": "t", "KEY": "k"}
    columns = spec("kafka").columns
    writer = kafka_writer(given, "out", columns)
    assert (writer.key, writer.options["kafka.bootstrap.servers"]) == ("k", "host:9092")
    for change, said in {
        "Topic": "needs the option topic",
        "Kafka.Bootstrap.Servers": "needs the option kafka.bootstrap.servers",
        "KEY": "no column none(.|\\n)*one of _query, .*, k",
    }.items():
        wrong = {**given, change: "none" if change == "KEY" else ""}
        with pytest.raises(DataError, match=f"PS-SINK-002.*{said}"):
            kafka_writer(wrong, "out", columns)


@pytest.mark.parametrize(
    ("format", "options", "code"),
    [
        ("nonesuch", {}, "PS-SINK-001"),
        pytest.param(
            "kafka", {}, "PS-SINK-001.*org.apache.spark:spark-sql-kafka-0-10_2.13:",
            marks=pytest.mark.skipif(JARS is not None, reason="Spark has the connector"),
        ),
        ("parquet", {}, "PS-SINK-002.*needs a path"),
        ("json", {"path": "x", "codec": "lz4"}, "PS-SINK-002.*'codec'"),
        ("csv", {"path": "x", "mode": "merge"}, "PS-SINK-002.*'merge'"),
        ("console", {"rows": "none"}, "PS-SINK-002"),
        ("parquet", {"path": "/dev/null/x"}, "PS-SINK-003"),
        ("parquet", {"path": "nofs://host/x"}, "PS-SINK-003"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    spark: SparkSession, format: str, options: dict[str, str], code: str
) -> None:
    sinks = SparkSinks(spark)
    with pytest.raises(DataError, match=f"(?s){code}"):
        sinks.add(spec(format, options=options))
    assert not sinks.needs_frame


def test_a_name_is_taken_once(spark: SparkSession) -> None:
    sinks = SparkSinks(spark)
    sinks.add(spec("noop"))
    with pytest.raises(NameError_):
        sinks.add(spec("noop"))


def test_a_write_that_fails_names_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    sinks = SparkSinks(spark)
    sinks.add(spec("text", tmp_path / "t"))
    with pytest.raises(PenstockError, match=r"PS-SINK-004.*sink out of q") as error:
        deliver(spark, sinks, 1, numbered(0, 1))
    assert "\tat " not in str(error.value)


# ---- in the job ----------------------------------------------------------------------
class Counting(SparkSinks):
    """Sinks that note whether frames are kept."""

    kept: list[bool]

    def __call__(self, frame: DataFrame, batch: int, results: Sequence[Result]) -> None:
        self.kept.append(frame.is_cached)
        super().__call__(frame, batch, results)


def test_the_job_writes_what_it_delivers(spark: SparkSession, tmp_path: Path) -> None:
    entries = record(trades, 2)
    templates = [
        block for blocks, _ in entries for block in blocks if isinstance(block, AddTemplate)
    ]
    first = templates[0]  # SELECT * FROM r …
    schema = Schema((Field("k", t.INT), Field("s", t.STRING), Field("ts", t.BIGINT)))
    sinks, got = Counting(spark, "job"), Deliveries()
    sinks.kept = []
    job = SparkJob(spark, got, shards=2, sinks=sinks)
    try:
        for entry in entries[:4]:
            job.append(*entry)
        job.drain()
        assert sinks.kept == []
        sinks.add(spec("parquet", tmp_path, template=first.key, qid=0, schema=schema))
        sinks.add(spec("noop", name="none", template=first.key, qid=0, schema=schema))
        for n, entry in enumerate(entries[4:]):
            job.append(*entry)
            if n == len(entries) // 2:
                job.drain()
        job.drain()
    finally:
        job.close()
    assert sinks.kept
    assert all(sinks.kept)
    kinds = ["insert", "delete", "update_preimage", "update_postimage"]
    want = [
        (batch.number, kinds[row["_kind"]], row["_time"], row["c0"], row["c1"])
        for batch in got.batches.values()
        for result in batch.results
        if result.kind == "changes" and result.template == first.key
        for row in wire.unpack_batch(result.data).to_pylist()
    ]
    columns = ["_batch", "_change_type", "_time", "k", "s"]
    frame = pd.read_parquet(tmp_path)
    assert len(want) > 20
    assert sorted(frame[columns].itertuples(index=False, name=None)) == sorted(want)
    assert not frame.duplicated(["_batch", "_seq"]).any()
