"""File sources: every record becomes one row, whatever is in it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.inprocess.sources import MALFORMED, format_of, open_source, total_rows
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
        ("csv", {"path": "-", "sep": ";"}, "PS-SRC-002"),
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


def test_missing_column_and_broken_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,s\n1,a\n")
    with pytest.raises(PenstockError, match="no column 'x'"):
        read("csv", tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(PenstockError, match="not a readable Parquet file"):
        read("parquet", tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("path", "format"),
    [("-", "json"), ("a.jsonl", "json"), ("d/a.CSV.gz", "csv"), ("a.b.parquet", "parquet")],
)
def test_format_of(path: str, format: str) -> None:
    assert format_of(path) == format


def test_format_of_an_unknown_name() -> None:
    with pytest.raises(PenstockError, match="cannot tell the format"):
        format_of("a.txt")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    table = {"k": [1], "s": ["a"], "x": [1.0], "ts": [0], "extra": [0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("k,s,x,ts,extra\n1,a,1,0,0\n")
    (tmp_path / "a.json").write_text('{"k": 1}\n{"k": 2, "extra": 0}\n')
    for format in ("parquet", "csv", "json"):
        with pytest.raises(PenstockError, match="unknown column extra") as caught:
            read(format, tmp_path / f"a.{format}")
        assert caught.value.code == "PS-DATA-003"
        assert "k, s, x, ts" in caught.value.remedy
