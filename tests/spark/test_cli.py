"""The command on Spark; stopped and continued from outside, as a user does."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.cli.main import main

APP = """
CREATE STREAM IF NOT EXISTS r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts DELAY 2
  FROM json OPTIONS (path 'in', maxFilesPerTrigger 1);
CREATE STREAM IF NOT EXISTS s (k INT, ts BIGINT) TIMESTAMP BY ts FROM json OPTIONS (path 'none');
CREATE MATERIALIZED VIEW IF NOT EXISTS n AS SELECT k, count(*) AS n FROM r [RANGE 100] GROUP BY k;
CREATE MATERIALIZED VIEW IF NOT EXISTS both AS
  SELECT r.a FROM r [RANGE 100], s [RANGE 100] WHERE r.k = s.k;
CREATE SINK IF NOT EXISTS o FROM n INTO json OPTIONS (path 'out');
"""
PATIENCE = 600  # seconds: machines that test are busy


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.sql").write_text(APP)
    (tmp_path / "in").mkdir()
    for file in range(3):
        add_file(tmp_path, file)
    rows = [{"k": 1, "ts": 0}, {"k": 1, "ts": 40}]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def add_file(app: Path, number: int) -> None:
    rows = [{"k": n % 2, "a": n, "ts": n} for n in range(10 * number, 10 * number + 10)]
    path = app / "in" / f"{number}.json"
    hidden = app / f"{number}.part"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(hidden, (1e9 + number, 1e9 + number))
    hidden.rename(path)


def command(*arguments: str) -> list[str]:
    start = [sys.executable, "-m", "penstock.cli", "run", "app.sql", "--input", "s=s.jsonl"]
    return [*start, "--master", "local[2,4]", "--shards", "2", *arguments]


@pytest.fixture
def run_here(app: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in this process, on the Spark that all tests share."""
    connect = penstock.connect
    monkeypatch.setattr(penstock, "connect", lambda **options: connect(spark=spark, **options))
    monkeypatch.chdir(app)
    # Spark resolves relative paths in the directory in which its JVM was started
    (app / "app.sql").write_text(APP.replace("path '", f"path '{app}/"))

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as left:
            main([*command(*arguments)[3:]])
        return int(left.value.code or 0)

    return run


def test_available_now_ends_with_every_row_counted(
    app: Path, run_here: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_here("--available-now", "--format", "json", "--progress", "progress")
    done = capsys.readouterr()
    assert code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    counts = {row["k"]: row["n"] for row in found if row["_query"] == "n"}
    assert counts == {0: 15, 1: 15}
    assert len([row for row in found if row["_query"] == "both"]) == 30
    assert "r: 30 rows" in done.err
    assert "s: 2 rows" in done.err
    told = [json.loads(line) for line in (app / "progress").read_text().splitlines()]
    assert [sum(batch["streams"][s]["rows_in"] for batch in told) for s in "rs"] == [30, 2]
    assert told[-1].keys() >= {"state_bytes", "log_bytes", "snapshot_bytes", "changes_out"}
    assert told[-1]["stages"].keys() >= {"plan_s", "run_s", "deliver_s", "level1_apply_s"}
    assert 0 < told[-1]["stages"]["level2_apply_s"] < told[-1]["stages"]["run_s"]
    assert told[-1]["stages"]["run_s"] < told[-1]["seconds"]


def test_ctrl_c_prints_the_answers_and_the_next_run_continues(app: Path) -> None:
    arguments = command("--checkpoint", "cp", "--output", "changes", "--format", "json")
    first = subprocess.Popen(
        [*arguments, "--out", "changes.jsonl"],
        cwd=app, text=True, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    waited = time.monotonic() + PATIENCE
    while not inserted(app) and first.poll() is None and time.monotonic() < waited:
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: Spark's processes get it too
    _, errors = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, errors
    stopped, rows, kept, changed, sink = errors.splitlines()  # and no noise
    assert stopped.startswith("stopped")
    assert re.fullmatch(r"r: \d+ rows", rows)
    assert kept == "s: 2 rows"
    assert re.fullmatch(r"\d+ changes of 2 queries in \d+ batch(es)?", changed)
    files = len(list((app / "out").glob("part-*.json")))
    assert sink == f"sink o: {files} file{'s' * (files > 1)} of json in out"
    add_file(app, 3)
    rest = subprocess.run(
        [*arguments, "--out", "changes.jsonl", "--available-now"],
        cwd=app, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert rest.returncode == 0, rest.stderr
    assert "r: 40 rows" in rest.stderr
    changes = [json.loads(line) for line in (app / "changes.jsonl").read_text().splitlines()]
    assert len({(c["_batch"], c["_seq"], c["_query"]) for c in changes}) == len(changes)
    held: dict[int, int] = {}
    for change in (c for c in changes if c["_query"] == "n"):
        if change["_change_type"] in ("insert", "update_postimage"):
            held[change["k"]] = change["n"]
    assert held == {0: 19, 1: 19}  # the clock is 37: DELAY holds the last rows back


def test_the_shell_reads_from_and_shows_what_was_kept_out(
    app: Path,
    run_here: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del run_here  # it has replaced what connects
    with (app / "in" / "2.json").open("a") as file:  # the newest, and so the last to be read
        file.write('{"k": "oops", "a": 1, "ts": 29}\n')
    stream = APP.replace("path 'in'", f"path '{app}/in'").split(";")[0]
    view = "CREATE MATERIALIZED VIEW n AS SELECT k FROM r [RANGE 100]"
    lines = f"{stream};\n{view};\nview n\nSHOW QUARANTINE r;\nwatch n;\nquit\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    with pytest.raises(SystemExit) as left:
        main(["sql", "--runner", "spark", "--shards", "2"])
    said = capsys.readouterr()
    assert not left.value.code, said.err
    assert "28 rows" in said.out  # DELAY holds the last two back
    assert "oops" in said.out


def inserted(app: Path) -> bool:
    path = app / "changes.jsonl"
    return path.exists() and "insert" in path.read_text()


def test_a_source_that_cannot_be_read_is_told_without_a_trace(
    app: Path, run_here: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (app / "app.sql").write_text(APP.replace("'in', maxFilesPerTrigger 1", "'/nowhere'"))
    assert run_here("--available-now") == 1
    said = capsys.readouterr().err
    assert "PS-SRC-004" in said
    assert "remedy: create the directory first" in said
    for trace in ("Traceback", "\tat ", "py4j", "SQLSTATE"):
        assert trace not in said
