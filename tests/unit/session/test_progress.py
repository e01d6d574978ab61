"""A record per batch, the same in process and on shards, as one line of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError

COMMON = {
    "batch", "timestamp", "queries", "rows_in", "late", "quarantined", "changes_out", "seconds",
    "stages", "state_bytes", "streams",
}  # fmt: skip
STREAM = {"rows_in", "late", "quarantined", "watermark", "lag_s", "paused"}


@pytest.mark.parametrize("shards", [None, 2])
def test_a_record_says_what_a_batch_was(shards: int | None) -> None:
    told: list[dict[str, Any]] = []
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.on_progress(lambda record: told.append(json.loads(json.dumps(record))))
        ps.sql("CREATE STREAM r (k INT, ts TIMESTAMP) TIMESTAMP BY ts")
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.query("SELECT k, count(*) AS n FROM r [RANGE 1 MINUTE] GROUP BY k")
        ps.push("r", [{"k": 1, "ts": "2024-01-01 00:00:10"}, {"k": 2, "ts": "2024-01-01 00:00:20"}])
        ps.push("r", [{"k": 3, "ts": "2024-01-01 00:00:05"}, {"k": "x", "ts": None}])
        ps.push("s", [{"k": 1, "ts": 7}])
        assert told == ps.progress()[-len(told) :]
    pushes = [record for record in told if record["rows_in"]]
    assert [record["batch"] for record in told] == sorted({r["batch"] for r in told})
    kept_out = [(r["rows_in"], r["late"], r["quarantined"]) for r in pushes]
    assert kept_out == [(2, 0, 0), (2, 1, 1), (1, 0, 0)]
    first, _, last = pushes
    assert first["changes_out"] == 2
    assert last["queries"] == 1
    assert last["state_bytes"] > 0
    assert all(record.keys() >= COMMON for record in told)
    assert all(set(row) == STREAM for row in last["streams"].values())
    assert last["streams"]["r"]["rows_in"] == 0
    assert last["streams"]["r"]["lag_s"] > 0
    assert last["streams"]["s"] == {
        "rows_in": 1, "late": 0, "quarantined": 0, "watermark": 7, "lag_s": None, "paused": None,
    }  # fmt: skip
    assert first["streams"]["s"]["watermark"] is None
    assert last["seconds"] == pytest.approx(sum(last["stages"].values()))
    assert last["timestamp"].endswith("Z")


@pytest.mark.parametrize("shards", [None, 2])
def test_who_listens_and_raises_stops_nobody(shards: int | None) -> None:
    told: list[int] = []

    def fails(record: dict[str, Any]) -> None:
        raise ValueError("mine")

    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        q = ps.query("SELECT count(*) AS n FROM s [RANGE 5]")
        ps.on_progress(fails)
        ps.on_progress(lambda record: told.append(record["rows_in"]))
        with pytest.raises(PenstockError, match=r"PS-RUN-002.*given to on_progress\(\) raised"):
            ps.push("s", [{"k": 1, "ts": 7}])
        assert told == [1]
        ps._books.progress.listeners.clear()
        assert q.view().to_pylist() == [{"n": 1}]
