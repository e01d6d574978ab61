"""`penstock simulate` from outside: figures, tables, files, and errors with remedies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main

APP = """
CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts FROM json OPTIONS (path 'r.jsonl');
CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts;
CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM r [RANGE 10] GROUP BY k;
CREATE SINK out FROM n INTO json OPTIONS (path 'out');
SELECT DISTINCT k FROM r [RANGE 5];
"""
BOTH = APP + "SELECT r.k FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k;"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.sql").write_text(APP)
    (tmp_path / "both.sql").write_text(BOTH)
    for name in "rs":
        rows = [{"k": at % 3, "ts": at} for at in range(60)]
        text = "".join(json.dumps(row) + "\n" for row in [*rows, {"k": "x", "ts": 60}])
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


def simulate(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *arguments])
    return int(caught.value.code or 0)


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert simulate(*arguments, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_figures_are_complete_and_consistent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = figures(capsys, "app.sql", "--rate", "100")
    assert found["rows"] == 61
    assert found["streams"] == [{"stream": "r", "rows": 61, "late": 0, "quarantined": 1}]
    assert found["offered_rows_per_s"] == pytest.approx(100)
    assert found["keeps_up"] is (found["offered_rows_per_s"] < found["capacity_rows_per_s"])
    assert found["seconds"] >= 0.6
    assert [q["query"] for q in found["queries"]] == ["n", "q1"]
    for query in found["queries"]:
        delay = query["delay_ms"]
        assert query["changes"] >= 3
        assert 0 < delay["median"] <= delay["p95"] <= delay["p99"] <= delay["max"]
    assert sum(o["busy_share"] for o in found["operators"]) == pytest.approx(
        found["busy_share"], abs=0.01
    )
    assert found["operators"][0]["operator"] == "source"
    assert sum(part["changes"] for part in found["over_time"]) == sum(
        q["changes"] for q in found["queries"]
    )
    assert not (folder / "out").exists()  # no sink is opened


def test_tables_begin_with_the_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("app.sql", "--rate", "r=50", "--schedule", "oldest-first") == 0
    out = capsys.readouterr().out
    assert out.startswith("app.sql keeps up: ")
    assert "delay of changes (ms)" in out
    assert "−1 per +1" in out


def test_a_single_row_has_no_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("app.sql", "--rate", "50", "--rows", "1") == 0
    assert capsys.readouterr().out.startswith("app.sql: all rows arrive at once, ")


def test_rows_that_cannot_be_processed_in_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = figures(capsys, "app.sql", "--rate", "1e9", "--rows", "50")
    assert (found["rows"], found["keeps_up"]) == (50, False)
    assert found["seconds_after_last_row"] > 0


def test_inputs_replace_sources_and_a_rate_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--input", "s=s.jsonl", "--rate", "r=100", "--rate", "S=50", "--rows", "20")
    found = figures(capsys, "both.sql", *options)
    assert [(s["stream"], s["rows"]) for s in found["streams"]] == [("r", 10), ("s", 10)]
    assert len(found["queries"]) == 3


def test_event_time_gives_the_pace_of_timestamps(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f'{{"k": {at}, "ts": "2026-01-01 00:00:{at:02d}"}}\n' for at in range(0, 40, 10))
    (folder / "t.jsonl").write_text(rows)
    (folder / "t.sql").write_text(
        "CREATE STREAM t (k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM json OPTIONS (path 't.jsonl');"
        "SELECT DISTINCT k FROM t [RANGE 5 SECONDS];"
    )
    found = figures(capsys, "t.sql")
    assert found["seconds"] == pytest.approx(30, abs=1)
    assert found["queries"][0]["waiting_for_event_time_ms"] == pytest.approx(5000 * 3 / 7, rel=0.01)
    assert figures(capsys, "t.sql", "--speed", "10")["seconds"] == pytest.approx(3, abs=1)


def test_files_of_a_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("app.sql", "--rate", "1000", "--out", "report") == 0
    written = json.loads((folder / "report/simulation.json").read_text())
    assert written["rows"] == 61
    assert (folder / "report/simulation.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_figures_are_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert simulate("app.sql", "--rate", "1000", "--out", "report") == 0
    assert [path.name for path in (folder / "report").iterdir()] == ["simulation.json"]
    assert "matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        (["app.sql"], "PS-SIM-003", "--rate 5000"),
        (["app.sql", "--rate", "x"], "PS-SIM-003", "--rate 5000"),
        (["app.sql", "--rate", "0"], "PS-SIM-003", "--rate 5000"),
        (["app.sql", "--rate", "q=5"], "PS-SIM-003", "--rate r=1000"),
        (["app.sql", "--rate", "5", "--speed", "2"], "PS-SIM-003", "give one of them"),
        (["app.sql", "--rate", "5", "--rate", "6"], "PS-SIM-003", "STREAM=ROWS"),
        (["both.sql", "--rate", "5"], "PS-SIM-002", "--input s=FILE"),
        (["both.sql", "--input", "s=s.jsonl", "--rate", "r=5"], "PS-SIM-003", "--rate s=1000"),
        (["kafka.sql", "--rate", "5"], "PS-SIM-002", "--input e=FILE"),
        (["none.sql", "--rate", "5"], "PS-SIM-004", "CREATE MATERIALIZED VIEW"),
        (["app.sql", "--input", "r=empty.csv", "--rate", "5"], "PS-SIM-004", "files with rows"),
        (["fails.sql", "--rate", "5"], "PS-SIM-001", "ON ERROR"),
        (["app.sql", "--rate", "5", "--rows", "3", "--out", "app.sql"], "PS-CLI-002", "--out"),
    ],
)
def test_errors_have_remedies(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str, remedy: str
) -> None:
    stream = "CREATE STREAM e (k INT, ts BIGINT) TIMESTAMP BY ts FROM "
    kafka = "kafka OPTIONS (kafka.bootstrap.servers 'x:9092', subscribe 'e')"
    (folder / "kafka.sql").write_text(f"{stream}{kafka}; SELECT DISTINCT k FROM e [RANGE 5];")
    (folder / "none.sql").write_text(f"{stream}json OPTIONS (path 'r.jsonl');")
    (folder / "empty.csv").write_text("k,ts\n")
    (folder / "fails.sql").write_text(
        f"{stream}json OPTIONS (path 'r.jsonl');"
        "SELECT CAST(CAST(k AS STRING) || 'x' AS INT) AS x FROM e [RANGE 5];"
    )
    assert simulate(*arguments) == 1
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert code in error
    assert remedy in error
