"""Counting matches at commit equals counting by hand, under churn, on any window and shards."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock

STREAM = "CREATE STREAM r (k INT, a BIGINT, s STRING, ts BIGINT) TIMESTAMP BY ts RETAIN 100"
FORMS: dict[str, Callable[[dict[str, Any], dict[str, Any]], bool]] = {
    "k + 0 >= $lo AND a < $hi AND s = $s": lambda r, p: (
        r["k"] is not None and r["k"] >= p["lo"] and r["a"] < p["hi"] and r["s"] == p["s"]
    ),
    "(k IN ($lo, 3) OR k IS NULL) AND a <> $hi AND s = $s": lambda r, p: (
        r["k"] in (p["lo"], 3, None) and r["a"] != p["hi"] and r["s"] == p["s"]
    ),
    "(s = $s AND a BETWEEN 2 AND $hi) OR k = $lo": lambda r, p: (
        (r["s"] == p["s"] and 2 <= r["a"] <= p["hi"]) or r["k"] == p["lo"]
    ),
}
WINDOWS = {"[RANGE 7]": 7, "[UNBOUNDED]": 10**9}


def rows(rng: Random, ts: int) -> list[dict[str, Any]]:
    return [
        {
            "k": rng.choice([None, *range(6)]),
            "a": rng.randrange(8),
            "s": rng.choice(["x", "y", None]),
            "ts": ts + i // 4,
        }
        for i in range(rng.randrange(12))
    ]


def params(rng: Random, n: int) -> list[dict[str, Any]]:
    return [
        {"lo": rng.randrange(6), "hi": rng.randrange(9), "s": rng.choice("xyz")} for _ in range(n)
    ]


def by_hand(form: str, seen: list[dict[str, Any]], p: dict[str, Any], now: int, length: int) -> int:
    return sum(FORMS[form](r, p) for r in seen if r["ts"] <= now < r["ts"] + length)


@pytest.mark.parametrize("shards", [None, 3])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("form", FORMS)
def test_counts_are_exact_while_queries_come_and_go(
    form: str, window: str, shards: int | None
) -> None:
    rng = Random(5)
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql(STREAM)
    sql = f"SELECT count(*) AS n FROM r {window} WHERE {form} EMIT ON COMMIT"
    live: list[tuple[Any, dict[str, Any], int]] = []
    sent: list[dict[str, Any]] = []
    now = -1
    for step in range(25):
        if step % 4 == 0:
            asked = params(rng, 15)
            history = step >= 8 and window != "[UNBOUNDED]"
            handles = ps.query_many(sql, pa.Table.from_pylist(asked), history=history)
            first = 0 if history else len(sent)
            live += [(q, p, first) for q, p in zip(handles, asked, strict=True)]
        batch = rows(rng, 2 * step)
        ps.push("r", batch)
        sent += batch
        now = max([now, *(r["ts"] for r in batch)])
        for query, p, first in live:
            wanted = by_hand(form, sent[first:], p, now, WINDOWS[window])
            assert query.view().to_pylist() == [{"n": wanted}]
        for place in sorted(rng.sample(range(len(live)), 3), reverse=True):
            live.pop(place)[0].drop()
    assert any("count matches" in q.explain() for q, _, _ in live[:1])


def test_changes_are_the_net_of_the_batch() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(STREAM)
    q = ps.query("SELECT count(*) AS n FROM r [RANGE 2] WHERE a > 3 EMIT ON COMMIT")
    assert "count matches" in q.explain()
    assert [(c["_change_type"], c["n"]) for c in q.changes().to_pylist()] == [("insert", 0)]
    ps.push("r", [{"k": 1, "a": 5, "s": "x", "ts": t} for t in (1, 1, 2)])
    ps.push("r", [{"k": 1, "a": 5, "s": "x", "ts": 3}])
    ps.push("r", [{"k": 1, "a": 0, "s": "x", "ts": 3}])
    told = [(c["_change_type"], c["n"], c["_time"]) for c in q.changes().to_pylist()]
    assert told == [
        ("update_preimage", 0, 2), ("update_postimage", 3, 2),
        ("update_preimage", 3, 3), ("update_postimage", 2, 3),
    ]  # fmt: skip


def test_other_forms_take_the_general_path() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(STREAM)
    for sql in (
        "SELECT count(*) AS n FROM r [RANGE 2] WHERE a > 3",
        "SELECT count(a) AS n FROM r [RANGE 2] WHERE a > 3 EMIT ON COMMIT",
        "SELECT k, count(*) AS n FROM r [RANGE 2] WHERE a > 3 GROUP BY k EMIT ON COMMIT",
        "SELECT count(*) AS n FROM r [RANGE 2] WHERE a > 3 OR a + k = 2 EMIT ON COMMIT",
        "SELECT count(*) AS n FROM r [ROWS 2] WHERE a > 3 EMIT ON COMMIT",
    ):
        assert "count matches" not in ps.query(sql).explain()
