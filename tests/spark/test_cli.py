"""The command on Spark, from outside: in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

APP = """
CREATE STREAM IF NOT EXISTS r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts DELAY 2
  FROM json OPTIONS (path 'in', maxFilesPerTrigger 1);
CREATE STREAM IF NOT EXISTS s (k INT, ts BIGINT) TIMESTAMP BY ts FROM json OPTIONS (path 'none');
CREATE MATERIALIZED VIEW IF NOT EXISTS n AS SELECT k, count(*) AS n FROM r [RANGE 100] GROUP BY k;
CREATE MATERIALIZED VIEW IF NOT EXISTS both AS
  SELECT r.a FROM r [RANGE 100], s [RANGE 100] WHERE r.k = s.k;
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


def test_available_now_ends_with_every_row_counted(app: Path) -> None:
    done = subprocess.run(
        command("--available-now", "--format", "json"),
        cwd=app, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    counts = {row["k"]: row["n"] for row in found if row["_query"] == "n"}
    assert counts == {0: 15, 1: 15}
    assert len([row for row in found if row["_query"] == "both"]) == 30
    assert "r: 30 rows" in done.stderr
    assert "s: 2 rows" in done.stderr


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
    assert "rows" in errors
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


def inserted(app: Path) -> bool:
    path = app / "changes.jsonl"
    return path.exists() and "insert" in path.read_text()


def test_a_source_that_cannot_be_read_is_told_without_a_trace(app: Path) -> None:
    (app / "app.sql").write_text(APP.replace("'in', maxFilesPerTrigger 1", "'nowhere'"))
    done = subprocess.run(
        command("--available-now"), cwd=app, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "PS-DATA-008" in done.stderr
    for trace in ("Traceback", "\tat ", "py4j"):
        assert trace not in done.stderr
