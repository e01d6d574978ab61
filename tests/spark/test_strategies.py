"""Strategies on Spark: queries keep theirs over a restart, and answer as in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from oracle.fold import bag, rows_of
from penstock.logical.strategy import STRATEGIES

NAMES = tuple(s.name for s in STRATEGIES)
TEXTS = (
    "SELECT DISTINCT k FROM r [RANGE 6]",
    "SELECT k, count(*) AS n, max(a) AS top FROM r [RANGE 6] WHERE a > 1 GROUP BY k",
    "SELECT r.k, r.a, s.a AS b FROM r [RANGE 6] JOIN s [RANGE 4] ON r.k = s.k",
    "SELECT k FROM r [RANGE 6] EXCEPT SELECT k FROM s [RANGE 4]",
)


def declare(session: Any) -> None:
    for name in ("r", "s"):
        session.sql(f"CREATE STREAM {name} (k INT, a INT, ts BIGINT) TIMESTAMP BY ts")
    for i, text in enumerate(TEXTS):
        session.sql(f"CREATE MATERIALIZED VIEW plain_{i} AS {text}")
        for name in NAMES:
            create = f"CREATE MATERIALIZED VIEW {name.replace('-', '_')}_{i}"
            session.sql(f"{create} WITH (strategy = '{name}') AS {text}")


def bring(session: Any, first: int, last: int) -> None:
    for ts in range(first, last):
        session.push("r", [{"k": ts % 3, "a": ts % 5, "ts": ts}])
        session.push("s", [{"k": ts % 4, "a": ts % 2, "ts": ts}])
    session.advance(ts=last)
    session.flush()


def answers(session: Any) -> list[dict[str, Any]]:
    """The answers under each strategy, one dict per text."""
    names = ("plain", *(name.replace("-", "_") for name in NAMES))
    return [
        {name: bag(rows_of(session[f"{name}_{i}"].view())) for name in names}
        for i in range(len(TEXTS))
    ]


def test_strategies_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "cp"
    with penstock.connect(runner="inprocess") as twin:
        declare(twin)
        with penstock.connect(spark=spark, shards=2, checkpoint=place, strategy="negative") as ps:
            declare(ps)
            for session in (ps, twin):
                bring(session, 0, 9)
            first = answers(ps)
            assert first == answers(twin)
        with penstock.connect(spark=spark, checkpoint=place, strategy="direct") as ps:
            assert "strategy: negative" in ps["plain_0"].explain()
            assert "strategy: reevaluate" in ps["reevaluate_0"].explain()
            for session in (ps, twin):
                bring(session, 9, 12)
            assert "strategy: direct" in ps.query(TEXTS[0]).explain()
            found = answers(ps)
            assert found == answers(twin)
            assert found != first
    for of_text in found:
        assert len({frozenset(answer.items()) for answer in of_text.values()}) == 1
        assert any(of_text.values())
