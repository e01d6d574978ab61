"""Sinks: one file per batch, each there once and whole."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.files.sinks import json_lines, open_sink

CHANGES = pa.table(
    {
        "_query": ["q", "q"],
        "_change_type": ["insert", "delete"],
        "_time": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us")),
        "n": [1, 2],
    }
)


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_a_batch_delivered_twice_is_there_once(tmp_path: Path, format: str) -> None:
    sink = open_sink(format, {"path": str(tmp_path / "out")}, "s")
    sink.write(CHANGES, 7)
    sink.write(CHANGES, 7)
    sink.write(CHANGES.slice(0, 0), 8)
    sink.close()
    assert os.listdir(tmp_path / "out") == [f"part-000000000007.{format}"]


def test_parquet_and_csv_hold_the_rows(tmp_path: Path) -> None:
    for format in ("parquet", "csv"):
        open_sink(format, {"path": str(tmp_path)}, "s").write(CHANGES, 1)
    assert pq.read_table(tmp_path / "part-000000000001.parquet").equals(CHANGES)
    assert pa_csv.read_csv(tmp_path / "part-000000000001.csv")["n"].to_pylist() == [1, 2]


def test_json_lines_can_be_read_by_anyone() -> None:
    table = CHANGES.append_column("x", pa.array([math.nan, None]))
    first, second = (json.loads(line) for line in json_lines(table).splitlines())
    assert first["_time"] == "2024-01-01T00:00:00.000000"
    assert first["x"] == "nan"
    assert second["_time"] is None


def test_modes(tmp_path: Path) -> None:
    options = {"path": str(tmp_path)}
    open_sink("json", options, "s").write(CHANGES, 1)
    (tmp_path / "mine.json").write_text("{}")
    open_sink("json", options, "s").write(CHANGES, 2)
    with pytest.raises(PenstockError, match="already holds 2 batches"):
        open_sink("json", {**options, "mode": "error"}, "s")
    open_sink("json", {**options, "mode": "overwrite"}, "s")
    assert os.listdir(tmp_path) == ["mine.json"]


def test_console_prints(capsys: pytest.CaptureFixture[str]) -> None:
    sink = open_sink("console", {"rows": "1"}, "alerts")
    sink.write(CHANGES, 3)
    sink.close()
    out = capsys.readouterr().out
    assert "alerts, batch 3" in out
    assert "and 1 more changes" in out


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("kafka", {}),
        ("parquet", {}),
        ("json", {"path": "x", "mode": "maybe"}),
        ("console", {"path": "x"}),
        ("console", {"rows": "few"}),
    ],
)
def test_wrong_options_are_refused(format: str, options: dict[str, str]) -> None:
    with pytest.raises(PenstockError) as caught:
        open_sink(format, options, "s")
    assert caught.value.code.startswith("PS-SINK")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(PenstockError, match="cannot use"):
        open_sink("csv", {"path": str(tmp_path / "f")}, "s")
