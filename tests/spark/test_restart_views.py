"""Restarts with queries over views, ALTER STREAM … SET RETAIN and ON ERROR: all of it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from oracle.fold import bag, rows_of
from penstock.errors import PenstockError
from spark.reading import counts, views

Call = Callable[[Any], Any]


def view(name: str, select: str) -> Call:
    return lambda s: s.sql(f"CREATE MATERIALIZED VIEW {name} AS {select}")


def push(first: int, last: int) -> Call:
    def bring(session: Any) -> None:
        for ts in range(first, last):
            texts = ("7", "seven", "") if ts % 2 else ("3",)
            session.push("p", [{"k": ts % 3, "w": text, "ts": ts} for text in texts])

    return bring


LIFE: list[list[Call]] = [
    [
        lambda s: s.sql("CREATE STREAM p (k INT, w STRING, ts BIGINT) TIMESTAMP BY ts"),
        view("groups", "SELECT k, count(*) AS n FROM p [RANGE 12] GROUP BY k"),
        view("nulls", "SELECT k, CAST(w AS INT) AS i FROM p [RANGE 7] ON ERROR NULL"),
        view("skips", "SELECT sum(CAST(w AS INT)) AS i FROM p [RANGE 7] ON ERROR SKIP ROW"),
        push(0, 6),
        view("many", "SELECT k, n FROM groups WHERE n > 2"),
        view("most", "SELECT max(n) AS n FROM many"),
        lambda s: s.sql("ALTER STREAM p SET RETAIN 12"),
        push(6, 12),
    ],
    [
        view("retained", "SELECT k, w, ts FROM p [RANGE 5] WITH HISTORY"),
        view("later", "SELECT sum(n) AS n FROM groups"),
        push(12, 15),
        lambda s: s.sql("ALTER STREAM p SET RETAIN 20"),
        lambda s: s.sql("DROP MATERIALIZED VIEW most"),
        view("least", "SELECT min(n) AS n FROM many"),
        push(15, 18),
    ],
    [
        push(18, 22),
        view("longer", "SELECT count(*) AS n FROM p [RANGE 9] WITH HISTORY"),
        view("small", "SELECT k, n FROM groups WHERE n > 1"),
        lambda s: s.sql("ALTER STREAM p SET RETAIN NONE"),
        lambda s: s.sql("DROP MATERIALIZED VIEW later"),
        push(22, 25),
        lambda s: s.advance("p", 27),
    ],
]
NAMES = (
    ("groups", "nulls", "skips", "many", "most"),
    ("groups", "nulls", "skips", "many", "retained", "later", "least"),
    ("groups", "nulls", "skips", "many", "retained", "least", "longer", "small"),
)


def leave(session: Any, closed: bool) -> None:
    """End a session; as after a kill, it has no time to save anything."""
    if closed:
        session.close()
    else:
        session._runner.job.close()
        session._runner.answers.views.shut()


def hidden(session: Any) -> dict[str, Any]:
    shown = session.sql("SHOW QUERIES").to_pylist()
    return {row["name"]: (row["nulled"], row["skipped"]) for row in shown}


def check(ps: Any, one: Any, names: tuple[str, ...], what: object) -> None:
    held = views(ps, [ps[name] for name in names])
    for name in names:
        assert held[ps[name]] == bag(rows_of(one[name].view())), (name, what)
    assert hidden(ps) == hidden(one)
    assert counts(ps, "p") == counts(one, "p")
    with pytest.raises(PenstockError, match="PS-NAME-"):  # a query over it goes on
        ps.sql("DROP MATERIALIZED VIEW groups")


@pytest.mark.parametrize("closed", [(True, False), (False, True)], ids=["closed", "abandoned"])
def test_what_was_declared_goes_on(
    spark: SparkSession, tmp_path: Path, closed: tuple[bool, bool]
) -> None:
    one: Any = penstock.connect(runner="inprocess")
    for part, (calls, names) in enumerate(zip(LIFE, NAMES, strict=True)):
        ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=tmp_path)
        for call in calls:
            call(one)
            call(ps)
        ps.flush()
        check(ps, one, names, part)
        leave(ps, [*closed, True][part])
    one.close()


def test_a_session_in_process_goes_on_too(tmp_path: Path) -> None:
    one: Any = penstock.connect(runner="inprocess")
    for part, (calls, names) in enumerate(zip(LIFE, NAMES, strict=True)):
        with penstock.connect(runner="inprocess", checkpoint=tmp_path) as ps:
            for call in calls:
                call(one)
                call(ps)
            check(ps, one, names, part)
    one.close()
