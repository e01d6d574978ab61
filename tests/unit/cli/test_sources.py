"""File sources: every record becomes one row, whatever is in it."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.arrays import BEGINNING
from penstock.engine.admission import admit
from penstock.errors import PenstockError
from penstock.files.formats import FileFormat
from penstock.inprocess.sources import (
    MALFORMED,
    check_source,
    format_of,
    open_source,
    total_rows,
)
from penstock.schema import Field, Schema
from penstock.types import DOUBLE, INT, STRING, TIMESTAMP

SCHEMA = Schema((Field("k", INT), Field("s", STRING), Field("x", DOUBLE), Field("ts", TIMESTAMP)))


def read(format: str, path: Path | str, batch_rows: int = 100, **options: str) -> list[pa.Table]:
    return list(open_source(format, {"path": str(path), **options}, SCHEMA, batch_rows))


def rows(tables: list[pa.Table]) -> list[dict[str, object]]:
    return [row for table in tables for row in table.to_pylist()]


def test_csv_keeps_values_as_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('ts,k,s,x\n2024-01-01,1,"two\nlines",0.5\nnever,one,"",\n')
    assert rows(read("csv", file)) == [
        {"k": "1", "s": "two\nlines", "x": "0.5", "ts": "2024-01-01"},
        {"k": "one", "s": "", "x": None, "ts": "never"},
    ]


def test_csv_row_with_wrong_width_is_malformed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("k,s,x,ts\n1,a,1,t\n2,b\n3,c,3,t\n")
    (table,) = read("csv", file)
    assert table["k"].to_pylist() == ["1", "3", None]
    assert table[MALFORMED].to_pylist() == [None, None, "2,b"]


def test_csv_without_header_and_with_other_delimiter(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1\ta\t1.5\tt\n")
    (row,) = rows(read("csv", file, header="false", delimiter=r"\t"))
    assert row == {"k": "1", "s": "a", "x": "1.5", "ts": "t"}


def test_csv_survives_bytes_that_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfk,s,x,ts\r\n1,\xff\xfe,2,t\r\n")
    assert rows(read("csv", file)) == [{"k": "1", "s": "\ufffd\ufffd", "x": "2", "ts": "t"}]


def test_json_types_and_absent_keys(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"k": 1, "s": "a", "x": 2, "ts": "2024-01-01T00:00:00Z"}\n\n{"k": 2}')
    (table,) = read("json", file)
    assert table.schema.field("k").type == pa.int32()
    assert table.to_pylist() == [
        {"k": 1, "s": "a", "x": 2.0, "ts": "2024-01-01T00:00:00Z"},
        {"k": 2, "s": None, "x": None, "ts": None},
    ]


def test_json_keeps_what_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"k": "one", "s": {"a": 1}}\n{"k": 2}\n{"k": \n[1]\n{"k": 99999999999999}\n')
    (table,) = read("json", file)
    assert table["k"].to_pylist() == ["one", "2", "99999999999999", None, None]
    assert table["s"].to_pylist()[0] == '{"a": 1}'
    assert table[MALFORMED].to_pylist() == [None, None, None, '{"k": ', "[1]"]


def test_parquet_orders_columns_and_reads_files_in_order(tmp_path: Path) -> None:
    for i in (2, 10, 1):
        pq.write_table(
            pa.table({"ts": [i], "k": [i], "s": ["a"], "x": [1.0]}),
            tmp_path / f"part-{i:02d}.parquet",
        )
    tables = read("parquet", tmp_path / "*.parquet")
    assert [t.column_names for t in tables] == [["k", "s", "x", "ts"]] * 3
    assert [t["k"][0].as_py() for t in tables] == [1, 2, 10]
    assert total_rows("parquet", {"path": str(tmp_path)}) == 3


@pytest.mark.parametrize("format", ["csv", "json"])
def test_batches_are_full(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"a.{format}.gz"
    lines = [json.dumps({"k": i, "s": "a" * 200}) for i in range(20_000)]
    if format == "csv":
        lines = ["k,s,x,ts", *(f"{i},{'a' * 200},," for i in range(20_000))]
    with gzip.open(file, "wt") as out:
        out.write("\n".join(lines))
    tables = read(format, file, batch_rows=3000)
    assert [t.num_rows for t in tables] == [3000] * 6 + [2000]
    assert [int(r["k"]) for r in rows(tables)] == list(range(20_000))  # type: ignore[call-overload]
    assert total_rows(format, {"path": str(file)}) is None


def test_total_rows_of_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("k,s,x,ts\n1,,,\n2,,,")
    assert total_rows("csv", {"path": str(file)}) == 2
    assert total_rows("csv", {"path": str(file), "header": "false"}) == 3


def test_stdin_is_read_as_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'{"k": 1}\n{"k": 2}\n')))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", fake)
    assert [r["k"] for r in rows(read("json", "-"))] == [1, 2]
    assert total_rows("json", {"path": "-"}) is None


def test_empty_csv_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    assert read("csv", tmp_path / "a.csv") == []


@pytest.mark.parametrize(
    ("format", "options", "code"),
    [
        ("avro", {"path": "x"}, "PS-SRC-001"),
        ("csv", {}, "PS-SRC-002"),
        ("csv", {"path": "-", "separator": ";"}, "PS-SRC-002"),
        ("csv", {"path": "-", "escape": "\\"}, "PS-SRC-002"),
        ("csv", {"path": "-", "sep": ""}, "PS-SRC-002"),
        ("orc", {"path": "-"}, "PS-SRC-001"),
        ("csv", {"path": "-", "delimiter": "::"}, "PS-SRC-002"),
        ("csv", {"path": "-", "header": "maybe"}, "PS-SRC-002"),
        ("parquet", {"path": "-"}, "PS-SRC-002"),
        ("json", {"path": "no/such/*.json"}, "PS-SRC-004"),
    ],
)
def test_wrong_options_are_refused_at_once(format: str, options: dict[str, str], code: str) -> None:
    with pytest.raises(PenstockError) as caught:
        open_source(format, options, SCHEMA, 10)
    assert caught.value.code == code
    assert caught.value.remedy


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(PenstockError, match=r"PS-SRC-005.*a\.parquet cannot be read as Parquet"):
        read("parquet", tmp_path / "a.parquet")
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"k": 1}\n' * 1000)[:-12])
    with pytest.raises(PenstockError, match=r"PS-SRC-005.*a\.json\.gz cannot be read as JSON"):
        read("json", tmp_path / "a.json.gz")


@pytest.mark.parametrize(
    ("path", "format"),
    [("-", "json"), ("a.jsonl", "json"), ("d/a.CSV.gz", "csv"), ("a.b.parquet", "parquet")],
)
def test_format_of(path: str, format: str) -> None:
    assert format_of(path) == format


def test_format_of_an_unknown_name() -> None:
    with pytest.raises(PenstockError, match="does not show the file's format"):
        format_of("a.txt")


def test_columns_that_are_not_declared_are_left_out_and_missing_ones_are_null(
    tmp_path: Path,
) -> None:
    table = {"extra": [0], "TS": [7], "k": [1], "x": [1.0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("extra,TS,extra,k,x\n0,7,0,1,1.0\n")
    (tmp_path / "a.json").write_text('{"k": 1, "x": 1.0, "extra": {"a": [1]}, "ts": 7}\n')
    for format in ("parquet", "csv", "json"):
        (row,) = rows(read(format, tmp_path / f"a.{format}"))
        assert {name: None if value is None else float(value) for name, value in row.items()} == {
            "k": 1, "s": None, "x": 1, "ts": 7,
        }, format  # fmt: skip


def test_a_file_without_any_declared_column_has_rows_of_nulls(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("other\n1\n2\n")
    assert rows(read("csv", tmp_path / "a.csv")) == [dict.fromkeys(["k", "s", "x", "ts"])] * 2


def test_a_file_of_lines_is_read_in_parts(tmp_path: Path) -> None:
    lines = [json.dumps({"k": n, "s": "x" * (n % 50)}) for n in range(1000)]
    path = tmp_path / "a.json"
    path.write_text("\n".join(lines))
    form = FileFormat("json")
    for count in (1, 2, 3, 7, 2000):
        parts = [p for n in range(count) for p in form.parts(str(path), n, count, SCHEMA)]
        assert [row["k"] for row in rows([p.read(None) for p in parts])] == list(range(1000))
        assert [p.place for p in parts] == sorted(p.place for p in parts)


def test_new_files_make_batches_by_age(tmp_path: Path) -> None:
    for age, name in enumerate(("c", "a", "_hidden", ".hidden", "b", "d")):
        (tmp_path / name).write_text("x" * 10)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e").write_text("x")

    def names(seen: set[str] = frozenset(), **options: str) -> list[str]:  # type: ignore[assignment]
        listing = check_source("json", {"path": str(tmp_path), **options}).listing
        return ["".join(os.path.basename(f.path) for f in b) for b in listing.batches(seen)]

    assert names() == ["abcd"]
    assert names(maxFilesPerTrigger="1") == ["c", "a", "b", "d"]
    assert names(MAXFILESPERTRIGGER="3") == ["abc", "d"]
    assert names(maxBytesPerTrigger="25b", latestFirst="true") == ["bd", "ac"]
    assert names({str(tmp_path / "c"), str(tmp_path / "d")}) == ["ab"]
    assert names(recursiveFileLookup="true", pathGlobFilter="[de]") == ["de"]


def test_json_values_are_never_cut_or_changed(tmp_path: Path) -> None:
    """Chunks that are read line by line, because one value does not fit, are no less exact."""
    lines = [b'{"k": 1.5}', b'{"k": true}', b'{"k": 2, "s": "\xff"}', b'{"k": 3}', b'{"k": "4"}']
    (tmp_path / "a.json").write_bytes(b"\n".join(lines) + b"\n")
    parts = FileFormat("json").parts(str(tmp_path / "a.json"), 0, 1, SCHEMA)
    found = admit(next(part.read(None) for part in parts), SCHEMA, "ts", 0, None, BEGINNING, 0)
    reasons = found.quarantined["_reason"].to_pylist()
    assert reasons == ["k is not a valid INT"] * 2 + ["ts is NULL"] * 2 + ["malformed row"]
