"""Files in parts: every row once and in order, columns nobody asks for stay unread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import DataError
from penstock.files.formats import FileFormat
from penstock.files.parquet import FilePart
from penstock.optimizer.distribution import Route, Spread
from penstock.schema import Field, Schema
from penstock.shards import wire
from penstock.shards.intake import Intake, Moment, take_in
from penstock.spark.found_files import file_parts
from penstock.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP

SCHEMA = Schema(
    (Field("k", BIGINT), Field("s", STRING), Field("x", DOUBLE), Field("ts", TIMESTAMP))
)
ROWS = 100


def table() -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(ROWS)),
            "s": pa.array([None if i % 7 == 0 else f"s{i % 3}" for i in range(ROWS)]),
            "x": pa.array([float("nan") if i % 5 == 0 else -0.0 for i in range(ROWS)]),
            "ts": pa.array(range(ROWS), pa.timestamp("us")),
        }
    )


def write(folder: Path, rows: pa.Table, group: int = 30, **options: Any) -> str:
    path = folder / "f.parquet"
    pq.write_table(rows, path, row_group_size=group, **options)
    return str(path)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_parts_have_every_row_once_and_in_order(tmp_path: Path, count: int) -> None:
    path = write(tmp_path, table())
    parts = [FilePart(path, n, count, SCHEMA) for n in range(count)]
    assert sorted(parts, key=lambda p: p.place) == parts
    found = pa.concat_tables(part.read(None) for part in parts)
    assert str(found.to_pylist()) == str(table().to_pylist())  # NaN equals NaN, −0.0 is not 0.0


def test_only_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    part = FilePart(write(tmp_path, table()), 0, 1, SCHEMA)
    assert part.read(frozenset({"k", "ts"})).column_names == ["k", "ts"]
    assert part.read(frozenset({"ts"})).num_rows == ROWS


def test_a_column_that_may_be_refused_is_read(tmp_path: Path) -> None:
    narrow = table().set_column(0, "k", pa.array(range(ROWS), pa.int32()))
    part = FilePart(write(tmp_path, narrow), 0, 1, SCHEMA)
    assert part.read(frozenset({"ts"})).column_names == ["k", "ts"]


def test_what_a_file_lacks_is_null_or_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "k=7" / "s=a%2Fb"
    folder.mkdir(parents=True)
    part = FilePart(write(folder, table().select(["ts"])), 0, 1, SCHEMA)
    row = part.read(None).to_pylist()[5]
    assert (row["k"], row["s"], row["x"]) == ("7", "a/b", None)
    folder = tmp_path / "k=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    part = FilePart(write(folder, table().select(["s"])), 0, 1, SCHEMA)
    assert part.read(frozenset({"ts"})).num_rows == ROWS  # they have no time, and are counted
    assert part.read(None).column("k").null_count == ROWS


def test_names_differ_in_case(tmp_path: Path) -> None:
    renamed = table().rename_columns(["K", "S", "x", "TS"])
    assert FilePart(write(tmp_path, renamed), 0, 1, SCHEMA).read(None).column_names == [
        "k", "s", "x", "ts",
    ]  # fmt: skip


def test_old_timestamps_are_microseconds(tmp_path: Path) -> None:
    path = write(tmp_path, table(), use_deprecated_int96_timestamps=True)
    times = FilePart(path, 0, 1, SCHEMA).read(None).column("ts")
    assert times.type == pa.timestamp("us")
    assert times.cast(pa.int64()).to_pylist() == list(range(ROWS))


def test_no_file_no_guess(tmp_path: Path) -> None:
    bad = tmp_path / "f.parquet"
    bad.write_text("no Parquet")
    for path in (str(bad), str(tmp_path / "gone.parquet")):
        with pytest.raises(DataError, match="PS-SRC-005"):
            FilePart(path, 0, 1, SCHEMA).read(None)


def test_names_of_spark_are_paths(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {"path": "file:/a b/c%20.parquet", "parts": 2, "part": 1},
            {"path": "file:///d.parquet", "parts": 1, "part": 0},
        ]
    )
    assert [part.place for part in file_parts([batch], FileFormat("parquet"), SCHEMA)] == [
        ("/a b/c%20.parquet", 1),
        ("/d.parquet", 0),
    ]


def intake(**options: Any) -> Intake:
    route = Route("r", Spread("hash", (1,)))
    return Intake(SCHEMA, "ts", 0, None, routes=((route, ("k",)),), **options)


def test_rows_are_read_whole_where_one_is_kept_out(tmp_path: Path) -> None:
    part = FilePart(write(tmp_path, table()), 0, 1, SCHEMA)
    messages, kept_out = take_in([part], "r", intake(), Moment(2, 0, 1), 2)
    (result,) = kept_out
    stream, kind, data = wire.loads(result.data)
    assert (stream, kind) == ("r", "late")
    late = wire.unpack_batch(data)
    assert late.column("s").to_pylist() == [None, "s1"]
    assert messages[0].counts.accepted == 98
    shipped = [wire.unpack_batch(d) for m in messages for p in m.pieces for _, d in p.routed]
    assert {name for batch in shipped for name in batch.schema.names} == {"k", wire.TIME}
    assert sorted(k for batch in shipped for k in batch.column("k").to_pylist()) == [
        *range(2, ROWS)
    ]


def test_routing_and_retention_see_their_columns(tmp_path: Path) -> None:
    class Asked(FilePart):
        def read(self, columns: frozenset[str] | None) -> pa.Table:
            asked.append(columns)
            return FilePart.read(self, columns)

    asked: list[frozenset[str] | None] = []
    part = Asked(write(tmp_path, table()), 0, 1, SCHEMA)
    take_in([part], "r", intake(), Moment(0, 0, 1), 2)
    take_in([part], "r", intake(whole=True), Moment(0, 0, 1), 2)
    assert asked == [frozenset({"k", "s", "ts"}), None]


def test_int_fits_only_int(tmp_path: Path) -> None:
    schema = Schema((Field("k", INT), Field("ts", TIMESTAMP)))
    part = FilePart(write(tmp_path, table()), 0, 1, schema)
    assert "k" in part.read(frozenset({"ts"})).column_names
