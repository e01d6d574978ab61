"""The command from outside: what it prints, where, and with which exit code."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.cli.app import without_source
from penstock.cli.main import main
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateStream

APP = """
CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts DELAY 3;
CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k;
"""
ROWS = [{"k": 1, "ts": 1}, {"k": 1, "ts": 4}, {"k": 2, "ts": 12}]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.sql").write_text(APP)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def penstock(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def run(*arguments: str) -> int:
    return penstock("run", *arguments, "--runner", "inprocess")


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_run_prints_the_view_with_every_row_counted(
    app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("app.sql", "--input", "s=in.jsonl", "--format", "json") == 0
    answer = sorted((row["k"], row["n"]) for row in lines(capsys))
    assert answer == [(1, 1), (2, 1)]


def test_run_prints_changes(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--input", "s=in.jsonl", "--output", "changes", "--format", "json"]
    assert run("app.sql", *arguments, "--batch-rows", "1") == 0
    found = lines(capsys)
    assert [(c["_time"], c["_change_type"], c["k"], c["n"]) for c in found] == [
        (1, "insert", 1, 1),
        (4, "update_preimage", 1, 1),
        (4, "update_postimage", 1, 2),
        (11, "update_preimage", 1, 2),
        (11, "update_postimage", 1, 1),
        (12, "insert", 2, 1),
    ]


def test_run_reads_from_clauses_and_writes_parquet(app: Path) -> None:
    (app / "app.sql").write_text(APP.replace("DELAY 3", "FROM json OPTIONS (path '*.jsonl')"))
    assert run("app.sql", "--format", "parquet", "--out", "out", "--quiet") == 0
    assert pq.read_table(app / "out" / "n.parquet").num_rows == 2


def test_run_tells_its_progress_as_json_lines(app: Path) -> None:
    for _ in range(2):
        assert run("app.sql", "--input", "s=in.jsonl", "--progress", "progress.jsonl") == 0
    told = [json.loads(line) for line in (app / "progress.jsonl").read_text().splitlines()]
    assert [record["rows_in"] for record in told if record["rows_in"]] == [3, 3]


def test_run_reads_standard_input_and_counts_what_is_kept_out(
    app: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, "k,ts\n1,5\nx,6\n1\n")
    assert run("app.sql", "--input", "s=csv:-") == 0
    captured = capsys.readouterr()
    assert "n: 1 row" in captured.out
    assert "s: 3 rows (0 late, 2 quarantined); the last one: " in captured.err


def test_run_shows_changes_of_a_query_that_keeps_nothing(
    app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (app / "app.sql").write_text(APP.split(";")[0] + "; SELECT k FROM s WHERE k > 1;")
    assert run("app.sql", "--input", "s=in.jsonl", "--format", "json") == 0
    assert [(row["_change_type"], row["k"]) for row in lines(capsys)] == [("insert", 2)]


@pytest.mark.parametrize("output", ["view", "changes"])
def test_run_says_why_a_query_failed_and_what_to_do(
    app: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    (app / "app.sql").write_text(APP + "SELECT CAST(k + 3e9 AS INT) AS k FROM s [RANGE 5];")
    asked = ("app.sql", "--input", "s=in.jsonl", "--output", output, "--format", "json")
    assert run(*asked) == 1
    printed = capsys.readouterr()
    assert '"_query": "n"' in printed.out, "the other query is printed all the same"
    told = [line for line in printed.err.splitlines() if line.startswith("[PS-RUN-001]")]
    assert len(told) == 1
    assert "query q1 failed: " in told[0]
    assert told[0].endswith("register it again: corrected, or with ON ERROR NULL or SKIP ROW")


def test_run_continues_from_a_checkpoint(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (app / "app.sql").write_text(
        APP.replace("STREAM", "STREAM IF NOT EXISTS").replace("VIEW", "VIEW IF NOT EXISTS")
    )
    arguments = ["app.sql", "--input", "s=in.jsonl", "--checkpoint", "cp"]
    assert run(*arguments, "--quiet") == 0
    with (app / "in.jsonl").open("a") as file:
        file.write('{"k": 5, "ts": 20}\n')
    capsys.readouterr()
    assert run(*arguments, "--format", "json") == 0
    captured = capsys.readouterr()
    assert "s: 4 rows" in captured.err
    assert [json.loads(line)["k"] for line in captured.out.splitlines()] == [2]


def test_changes_of_a_continued_run_are_added(app: Path) -> None:
    (app / "app.sql").write_text(
        APP.replace("STREAM", "STREAM IF NOT EXISTS").replace("VIEW", "VIEW IF NOT EXISTS")
    )
    arguments = ["--input", "s=in.jsonl", "--checkpoint", "cp", "--output", "changes", "--quiet"]
    found = []
    for at in (30, 60, 90, 120):
        with (app / "in.jsonl").open("a") as file:
            file.write(json.dumps({"k": at, "ts": at}) + "\n")
        to = ("json", "all.jsonl") if at <= 60 else ("parquet", "parts")
        assert run("app.sql", *arguments, "--format", to[0], "--out", to[1]) == 0
        found.append((app / "all.jsonl").read_text().count("insert"))
    assert found == [2, 3, 3, 3]
    assert len(list((app / "parts" / "n").glob("part-*.parquet"))) == 2


def test_input_replaces_from(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (app / "app.sql").write_text(APP.replace("DELAY 3", "DELAY 3 FROM kafka OPTIONS (topic 't')"))
    assert run("app.sql", "--input", "s=in.jsonl", "--format", "json") == 0
    assert sorted(row["k"] for row in lines(capsys)) == [1, 2]  # type: ignore[type-var]


@pytest.mark.parametrize(
    "text",
    [
        'CREATE STREAM s (k INT, "a b" DECIMAL(9, 2), ts BIGINT) TIMESTAMP BY ts RETAIN 7 DELAY 3',
        """CREATE STREAM IF NOT EXISTS s (x DOUBLE, "select" TIMESTAMP) TIMESTAMP BY "select"
           DELAY 2 SECONDS MAX AHEAD 1 HOUR IDLE AFTER 5 SECONDS TICK 1 SECOND""",
    ],
)
def test_a_stream_without_its_source_is_else_the_same(text: str) -> None:
    declared = parse_statement(text)
    with_source = parse_statement(text + " FROM parquet OPTIONS (path 'in')")
    assert isinstance(with_source, CreateStream)
    assert parse_statement(without_source(with_source)) == declared


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "none.sql"], 1, "PS-CLI-001"),
        (["run", "app.sql", "--runner", "inprocess", "--shards", "2"], 2, "--runner spark"),
        (["run", "app.sql", "--progress", "no/such"], 1, "another --progress"),
        (["run", "app.sql", "--input", "t=in.jsonl"], 1, "declares no stream t"),
        (["run", "app.sql", "--input", "s=none.csv", "--runner", "inprocess"], 1, "PS-SRC-004"),
        (["run", "app.sql", "--format", "parquet"], 1, "--out DIR"),
        (["run", "app.sql", "--nonsense"], 2, "--nonsense"),
        (["bench", "nonsense"], 2, ""),
    ],
)
def test_mistakes_are_told(
    app: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    assert penstock(*arguments) == code
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_a_wrong_statement_is_shown_in_its_line(
    app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (app / "app.sql").write_text(APP + "SELECT nope FROM s [RANGE 5];\n")
    assert run("app.sql") == 1
    error = capsys.readouterr().err
    assert "app.sql:4:8" in error
    assert "SELECT nope FROM s" in error


def test_explain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, APP + "SELECT DISTINCT k FROM s [RANGE 5];")
    assert penstock("explain", "-") == 0
    out = capsys.readouterr().out
    assert "group by" in out
    assert "distinct" in out
    assert "WKS" in out


def test_explain_needs_no_source_but_knows_its_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = "CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts FROM kafka OPTIONS ({} 't');"
    pipe(monkeypatch, stream.format("subscribe") + "SELECT DISTINCT k FROM s [RANGE 5];")
    assert penstock("explain", "-") == 0
    assert "distinct" in capsys.readouterr().out
    pipe(monkeypatch, stream.format("subscrib"))
    assert penstock("explain", "-") == 1
    assert "write subscribe" in capsys.readouterr().err


def test_explain_says_where_plans_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(
        monkeypatch,
        APP + "SELECT count(*) AS c FROM s [RANGE 5]; SELECT k FROM s [ROWS 3];"
        "EXPLAIN SELECT a.k FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k < b.k;",
    )
    assert penstock("explain", "-", "--shards", "2") == 0
    found = [x for x in capsys.readouterr().out.splitlines() if x.startswith("runs on: ")]
    assert found == [
        "runs on: level 1, every shard; s by hash(k)",
        "runs on: two levels; level 1, every shard: s by hash(k); level 2: final on shard 1 of 2",
        "runs on: level 1, shard 2 of 2; s to shard 2",
        "runs on: level 1, every shard; s to all shards, s by hash(k)",
    ]


def test_shell_runs_piped_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(
        monkeypatch,
        APP + '\\watch n\n\\push s [{"k": 7, "ts": 1}]\n\\advance s 5\n'
        "\\view n\nSHOW STREAMS;\n\\stats\n\\help\n\\quit\nnever reached;",
    )
    assert penstock("sql") == 0
    out = capsys.readouterr().out
    assert "last changes" in out
    assert "received" in out
    assert "advance STREAM TIME" in out


@pytest.mark.parametrize("line", ["\\nonsense", "\\push s {", "\\advance s", "\\view x", "SELEC;"])
def test_shell_stops_at_the_first_error_of_a_pipe(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, APP + line + "\nSHOW STREAMS;\n")
    assert penstock("sql") == 1
    captured = capsys.readouterr()
    assert "PS-" in captured.err
    assert "received" not in captured.out


def test_demo_runs_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert penstock("demo", "--rows", "100000", "--alerts", "400", "--runner", "inprocess") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "100,000 rows, 405 queries as 9 plans" in out
    fired = re.search(r"00:0(\d):(\d\d) sends_much_\d+ .* 00:0(\d):(\d\d) that", out)
    assert fired is not None
    began, ended = (60 * int(fired[n]) + int(fired[n + 1]) for n in (1, 3))
    assert ended == began + 60


def test_a_select_of_a_script_stands_to_the_end(
    app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (app / "app.sql").write_text(APP + "SELECT k FROM n; SHOW STREAMS;")
    assert run("app.sql", "--input", "s=in.jsonl") == 0
    out = capsys.readouterr().out
    assert "n: 2 rows" in out
    assert "q1: 2 rows" in out


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert penstock("--help") == 0
    assert "CREATE STREAM clicks" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_input_and_sums_up(app: Path, number: signal.Signals) -> None:
    with (app / "app.sql").open("a") as file:
        file.write("CREATE SINK o FROM n INTO json OPTIONS (path 'out');")
    command = [sys.executable, "-m", "penstock.cli", "run", "app.sql", "--runner", "inprocess"]
    process = subprocess.Popen(
        [*command, "--input", "s=-", "--format", "json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps(row) + "\n" for row in ROWS))
    process.stdin.flush()
    until = time.monotonic() + 60
    while not list((app / "out").glob("part-*")) and time.monotonic() < until:
        time.sleep(0.05)  # a batch is written while standard input is still open
    time.sleep(0.2)
    process.send_signal(number)
    answers, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [json.loads(line)["k"] for line in answers.splitlines()] == [1, 2]
    assert errors.splitlines() == [
        "s: 3 rows", "6 changes of 1 query in 1 batch", "sink o: 2 files of json in out"
    ]  # fmt: skip


@pytest.mark.parametrize("format_", ["json", "table", "sink"])
def test_a_reader_that_leaves_ends_the_command_quietly(app: Path, format_: str) -> None:
    rows = "".join(json.dumps({"k": k, "ts": k}) + "\n" for k in range(20_000))
    (app / "in.jsonl").write_text(rows)
    command = [sys.executable, "-m", "penstock.cli", "run", "app.sql", "--runner", "inprocess"]
    command += ["--input", "s=in.jsonl", "--output", "changes"]
    if format_ == "sink":
        with (app / "app.sql").open("a") as script:
            script.write("CREATE SINK c FROM n INTO console;")
        command += ["--format", "parquet", "--out", "out"]
    else:
        command += ["--format", format_]
    with subprocess.Popen(
        [*command, "--batch-rows", "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode()
    assert process.returncode == 141
    assert told == ""
