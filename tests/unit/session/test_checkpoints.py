"""Checkpoints and sinks in process: one session has a directory, and none writes over another."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError, StateError

STREAM = "CREATE STREAM IF NOT EXISTS r (k INT, ts BIGINT) TIMESTAMP BY ts"
VIEW = "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT k FROM r [UNBOUNDED]"


def open_session(out, checkpoint=None, shards=None, mode="append", name="files"):
    ps = penstock.connect(runner="inprocess", checkpoint=checkpoint, shards=shards)
    ps.sql(f"{STREAM}; {VIEW}")
    ps.sql(
        f"CREATE SINK IF NOT EXISTS {name} FROM v INTO json OPTIONS (path '{out}', mode '{mode}')"
    )
    return ps


def keys(out):
    texts = [path.read_text() for path in sorted(Path(out).glob("part-*"))]
    return sorted(json.loads(line)["k"] for text in texts for line in text.splitlines())


# ---- sinks ---------------------------------------------------------------------------
@pytest.mark.parametrize("shards", [None, 2])
def test_sessions_that_share_a_directory_keep_each_others_files(tmp_path, shards):
    for k in (1, 2):
        with open_session(tmp_path, shards=shards) as ps:
            ps.push("r", [{"k": k, "ts": 1}])
    assert keys(tmp_path) == [1, 2]
    with open_session(tmp_path, shards=shards, mode="overwrite") as ps:
        ps.push("r", [{"k": 3, "ts": 1}])
    assert keys(tmp_path) == [3]
    with pytest.raises(PenstockError, match="PS-SINK-006"):
        open_session(tmp_path, shards=shards, mode="error")


def test_two_sinks_of_a_session_can_share_a_directory(tmp_path):
    with open_session(tmp_path) as ps:
        ps.sql(f"CREATE SINK other FROM v INTO json OPTIONS (path '{tmp_path}')")
        ps.push("r", [{"k": 1, "ts": 1}])
    assert keys(tmp_path) == [1, 1]


def test_a_sink_that_is_dropped_while_changes_wait_says_that_they_are_lost(tmp_path):
    out = tmp_path / "out"
    with open_session(out) as ps:
        out.rmdir()
        out.write_text("in the way")
        with pytest.raises(PenstockError, match="the changes wait"):
            ps.push("r", [{"k": 1, "ts": 1}])
        with pytest.raises(PenstockError, match="unwritten changes, which are lost") as error:
            ps.sql("DROP SINK files")
        assert "wait" not in error.value.remedy
        assert ps.sql("SHOW SINKS").num_rows == 0
        ps.push("r", [{"k": 2, "ts": 2}])


@pytest.mark.parametrize("mode", ["append", "overwrite", "error"])
def test_a_restart_goes_on_in_its_sinks(tmp_path, mode):
    for k in (1, 2):
        with open_session(tmp_path / "out", tmp_path / "cp", mode=mode) as ps:
            ps.push("r", [{"k": k, "ts": k}])
    assert keys(tmp_path / "out") == [1, 2]


def test_a_batch_that_a_crash_repeats_is_there_once(tmp_path):
    ps = open_session(tmp_path / "out", tmp_path / "cp")
    ps.push("r", [{"k": 1, "ts": 1}])
    crash(ps)
    with open_session(tmp_path / "out", tmp_path / "cp") as ps:
        ps.push("r", [{"k": 1, "ts": 1}])
        ps.flush()
        ps.push("r", [{"k": 2, "ts": 2}])
        crash(ps)
    with open_session(tmp_path / "out", tmp_path / "cp") as ps:
        ps.push("r", [{"k": 2, "ts": 2}])
    assert keys(tmp_path / "out") == [1, 2]


def crash(ps):
    """End a session as a dead process does: nothing is saved, the lock goes."""
    ps._runner._checkpoint.close()
    ps._gate.closed = True


# ---- the lock ------------------------------------------------------------------------
def test_a_second_session_is_refused_until_the_first_is_closed(tmp_path):
    first = penstock.connect(runner="inprocess", checkpoint=tmp_path)
    first.sql(STREAM)
    with pytest.raises(StateError, match=r"PS-STATE-004.*another session of this process"):
        penstock.connect(runner="inprocess", checkpoint=tmp_path)
    first.close()
    first.close()
    with penstock.connect(runner="inprocess", checkpoint=tmp_path) as again:
        assert again.sql("SHOW STREAMS").num_rows == 1


def test_a_session_that_cannot_be_read_leaves_no_lock(tmp_path):
    (tmp_path / "session.pickle").write_bytes(b"no pickle")
    for _ in range(2):
        with pytest.raises(StateError, match="PS-STATE-003"):
            penstock.connect(runner="inprocess", checkpoint=tmp_path)


def test_a_session_of_an_earlier_version_is_told_as_such(tmp_path):
    (tmp_path / "session.pickle").write_bytes(pickle.dumps({"version": "0.1"}))
    with pytest.raises(StateError, match=r"PS-STATE-002.*earlier version"):
        penstock.connect(runner="inprocess", checkpoint=tmp_path)


def test_a_process_forked_meanwhile_keeps_no_lock(tmp_path):
    first = penstock.connect(runner="inprocess", checkpoint=tmp_path)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        first.close()
        penstock.connect(runner="inprocess", checkpoint=tmp_path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


HOLD = """
import sys, penstock
ps = penstock.connect(runner="inprocess", checkpoint=sys.argv[1])
print("mine", flush=True)
sys.stdin.read()
"""


def test_the_process_that_has_it_is_named_and_its_lock_dies_with_it(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(StateError, match=f"PS-STATE-004.*process {other.pid}"):
            penstock.connect(runner="inprocess", checkpoint=tmp_path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    penstock.connect(runner="inprocess", checkpoint=tmp_path).close()


# ---- nothing is ignored --------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {"shards": 2, "checkpoint": "cp"},
        {"shards": 1, "checkpoint": "cp"},
        {"shards": 2, "snapshot": "taken"},
        {"master": "local[2]"},
        {"spark_options": {}},
        {"runner": "spark", "snapshot": "taken"},
    ],
)
def test_what_a_runner_would_ignore_is_refused(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    with penstock.connect(runner="inprocess") as ps:
        taken = {"snapshot": ps.snapshot()} if "snapshot" in options else {}
    with pytest.raises(PenstockError, match=r"PS-RUNNER-005.*has no effect") as caught:
        penstock.connect(**{"runner": "inprocess", **options, **taken})
    assert caught.value.remedy
    assert not (tmp_path / "cp").exists()


def test_a_session_on_shards_gives_no_snapshot_without_its_rows():
    with (
        penstock.connect(runner="inprocess", shards=2) as ps,
        pytest.raises(PenstockError, match="PS-RUNNER-002"),
    ):
        ps.snapshot()


@pytest.mark.parametrize("off", ["push_down_filtre", {"all", "nope"}, ["x"]])
def test_unknown_rules_of_the_optimizer_are_refused(off):
    with pytest.raises(PenstockError, match="PS-PLAN-005"):
        penstock.connect(runner="inprocess", optimizer_off=off)
    penstock.connect(runner="inprocess", optimizer_off="push_down_filter").close()
    penstock.connect(runner="inprocess", optimizer_off=None).close()


@pytest.mark.parametrize("runner", ["spark", "inprocess"])
def test_there_is_at_least_one_shard(runner):
    with pytest.raises(PenstockError, match="PS-RUNNER-004"):
        penstock.connect(runner=runner, shards=0)
