"""connect(pairs=...): all settings give the same answers; EXPLAIN and stats() show the routing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.cli.main import _main
from penstock.errors import PenstockError
from penstock.indexes.pairs.calibration import Population
from penstock.indexes.pairs.constants import of_this_machine
from penstock.indexes.pairs.router import PAIR_STRATEGIES

STREAMS = """
CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, c BIGINT, ts BIGINT) TIMESTAMP BY ts;
"""
SELECT = (
    "SELECT r.a, s.c FROM r [RANGE 9] JOIN s [RANGE 9] ON r.k = s.k"
    " WHERE r.a BETWEEN $a AND $b AND s.c BETWEEN $c AND $d"
)
BAND = "SELECT r.a, s.c FROM r [RANGE 9] JOIN s [RANGE 9] ON s.c - r.a BETWEEN $c AND $d"


def some_params(n: int) -> pa.Table:
    """Ranges of c around two points."""
    rng = np.random.default_rng(1)
    a, c = np.arange(n) % 100, rng.choice([30, 70], n)
    reach = np.vstack([np.arange(n) // 100, rng.integers(1, 9, n)])
    return pa.table({"a": a - reach[0], "b": a + reach[0], "c": c - reach[1], "d": c + reach[1]})


def running(text: str, n: int = 1_100, **options: Any) -> tuple[Any, Any]:
    ps = penstock.connect(runner="inprocess", **options)
    ps.sql(STREAMS)
    params = some_params(n)
    wanted = [name for name in params.column_names if f"${name}" in text]
    many = ps.query_many(text, params.select(wanted))
    rng = np.random.default_rng(2)
    for ts in range(0, 24, 4):
        for stream, column in (("r", "a"), ("s", "c")):
            columns = {"k": rng.integers(0, 9, 30), column: rng.integers(0, 100, 30)}
            ps.push(stream, pa.table({**columns, "ts": np.full(30, ts)}))
    return ps, many


@pytest.mark.parametrize("text", [SELECT, BAND])
def test_every_setting_gives_the_same_changes(text: str) -> None:
    found = {}
    for strategy in PAIR_STRATEGIES:
        ps, many = running(text, pairs=strategy)
        changes = many.changes().drop_columns("_batch")
        found[strategy] = changes
        for side in ps.stats()["pairs"][0]["sides"]:
            assert strategy == "auto" or set(side["shares"]) == {strategy}
    assert found["auto"].num_rows > 500
    assert all(changes.equals(found["auto"]) for changes in found.values())


def test_shards_use_the_setting() -> None:
    ps, many = running(SELECT, shards=2, pairs="ssi")
    assert many.changes().num_rows > 500
    found = ps.stats()["pairs"]
    assert [(f["level"], f["shard"], f["strategy"]) for f in found] == [
        (1, 0, "ssi"), (1, 1, "ssi")
    ]  # fmt: skip


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(PenstockError, match="PS-PAIRS-001") as caught:
        penstock.connect(runner="inprocess", pairs="best")
    assert "hotspot" in caught.value.remedy


def test_explain_and_stats_say_how_rows_are_routed() -> None:
    ps, many = running(SELECT)
    many.changes()
    text = ps["q1"].explain()
    assert "1100 queries (index over pairs, 1 part)" in text
    assert "rows of r: 2 groups, 2 hotspots with 100% of queries; rows to " in text
    assert "constants of costs: " in text
    (index,) = ps.stats()["pairs"]
    assert index["streams"] == ["r", "s"]
    assert index["queries"] == 1_100
    assert index["strategy"] == "auto"
    assert index["bytes"] > 1_100 * 8 * 5
    r, s = index["sides"]
    assert (r["groups"], r["hotspots"], r["coverage"]) == (2, 2, 1.0)
    assert s["groups"] > 2
    for side in (r, s):
        assert sum(side["shares"].values()) == pytest.approx(1.0)
        assert set(side["structures"]) >= set(side["shares"])
    many.drop()
    assert ps.stats()["pairs"] == []


def test_calibrate_prints_and_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    few = [Population(300, 5, 0.9, 1, own) for own in (True, False)]
    monkeypatch.setattr("penstock.indexes.pairs.calibration._populations", lambda quick: iter(few))
    monkeypatch.setattr("penstock.indexes.pairs.calibration._MANY", 1)
    assert _main(["calibrate"]) == 0
    out = capsys.readouterr().out
    assert "SJ-Hotspot" in out
    assert "95 % confidence" in out
    assert _main(["calibrate", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["path"]).is_file()
    of_this_machine.cache_clear()
    assert of_this_machine().numbers() == told["nanoseconds"]
    of_this_machine.cache_clear()


def test_calibrate_says_where_it_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    few = [Population(300, 5, 0.9, 1, own) for own in (True, False)]
    monkeypatch.setattr("penstock.indexes.pairs.calibration._populations", lambda quick: iter(few))
    monkeypatch.setattr("penstock.indexes.pairs.calibration._MANY", 1)
    assert _main(["calibrate"]) == 1
    error = capsys.readouterr().err
    assert "PS-CLI-002" in error
    assert "XDG_STATE_HOME" in error
