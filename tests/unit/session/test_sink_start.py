"""A sink that is made before rows come has all changes of its view; a later one, those to come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock

SIGN = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


@pytest.mark.parametrize("shards", [None, 2])
def test_a_sink_of_a_new_view_folds_to_its_answer(tmp_path: Path, shards: int | None) -> None:
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n FROM s [RANGE 9]")
        ps.sql(f"CREATE SINK early FROM c INTO json OPTIONS (path '{tmp_path}/early')")
        ps.push("s", [{"k": 1, "ts": 1}, {"k": 1, "ts": 2}])
        ps.sql(f"CREATE SINK later FROM c INTO json OPTIONS (path '{tmp_path}/later')")
        ps.push("s", [{"k": 1, "ts": 3}])
        ps.flush()
        assert ps["c"].view().to_pylist() == [{"n": 3}]
    assert folded(tmp_path / "early") == {3: 1}
    assert folded(tmp_path / "later") == {2: -1, 3: 1}


def folded(folder: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for path in folder.glob("part-*.json"):
        for change in map(json.loads, path.read_text().splitlines()):
            found[change["n"]] = found.get(change["n"], 0) + SIGN[change["_change_type"]]
    return {n: count for n, count in found.items() if count}
