"""Templates over pairs on Spark: the answers of one process, also while queries and rows come.

A query of the first session sees rows from its registration on. In the end all rows in windows are
younger than all queries, so the answers do not depend on when each was registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock
from oracle.fold import Fold, bag, changes_of, rows_of
from spark.reading import views

STREAM = "CREATE STREAM {} (k INT, b BIGINT, f DOUBLE, ts BIGINT) TIMESTAMP BY ts RETAIN 100"
TEXTS = {
    "band": "SELECT x.k, x.b, y.b AS c FROM r [RANGE 6] x, s [RANGE $w] y "
    "WHERE y.b - x.b BETWEEN $lo AND $hi AND x.k = y.k",
    "float": "SELECT x.b, count(*) AS n FROM r [RANGE $w] x, s [RANGE 4] y "
    "WHERE y.f - x.f >= $lo AND y.f - x.f < $hi GROUP BY x.b",
    "ranges": "SELECT x.b, y.b AS c FROM r [RANGE $w] x, s [RANGE 9] y "
    "WHERE x.k = y.k AND x.b >= $lo AND y.b <= $hi EMIT CHANGES PER ROW",
}


def params(kind: str, first: int, n: int) -> pa.Table:
    """Parameters of n queries."""
    at = range(first, first + n)
    return pa.table(
        {
            "qid": [f"{kind}{i}" for i in at],
            "lo": [i * 7 % 11 - 5 for i in at],
            "hi": [i * 7 % 11 - 5 + i % 4 for i in at],
            "w": [1 + i % 9 for i in at],
        }
    )


def add(session: Any, first: int, n: int, history: bool = False) -> None:
    """Add queries of each template, half of them at a time."""
    for start in (first, first + n // 2):
        for kind, text in TEXTS.items():
            session.query_many(text, params(kind, start, n // 2), history=history)


def push(session: Any, times: Iterable[int]) -> None:
    """Push rows to both streams; some have NULL, NaN or an infinity."""
    odd = {3: None, 5: float("nan"), 7: float("inf")}
    for ts in times:
        for stream, more in (("r", 0), ("s", 4)):
            rows = [
                {"k": i % 3, "b": (7 * i + more) % 13, "f": odd.get(i % 9, i / 4), "ts": ts}
                for i in range(3 * ts, 3 * ts + 5)
            ]
            session.push(stream, rows)


def at_once(session: Any, first: int, times: Iterable[int]) -> None:
    """Queries and rows come while batches run."""
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(add, session, first, 20), pool.submit(push, session, times)]
        for part in work:
            part.result()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "abandoned"])
def test_pairs_while_queries_and_rows_come_across_a_restart(
    spark: SparkSession, tmp_path: Path, closed: bool
) -> None:
    ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=tmp_path)
    for stream in "rs":
        ps.sql(STREAM.format(stream))
    push(ps, range(3))
    add(ps, 0, 20)
    ps.start()
    at_once(ps, 20, range(3, 12))
    ps["band3"].drop()
    if closed:
        ps.close()
    else:  # as after a kill: the session has no time to save anything
        ps._runner.job.close()
        ps._runner.answers.views.shut()
    ps = penstock.connect(spark=spark, checkpoint=tmp_path)
    ps.start()
    at_once(ps, 40, range(12, 20))
    push(ps, range(20, 32))
    add(ps, 60, 4, history=True)
    ps["ranges5"].drop()
    ps.advance(ts=32)
    ps.flush()
    kept = [f"{kind}{i}" for kind in TEXTS for i in range(64)]
    kept = [name for name in kept if name not in ("band3", "ranges5")]
    found = views(ps, [ps[name] for name in kept])
    for name in (f"{kind}{i}" for kind in ("band", "float") for i in range(60, 64)):
        fold = Fold()  # a query with history has all its changes from the beginning
        fold.apply(changes_of(ps[name].changes()))
        assert fold.held == found[ps[name]], name
    with penstock.connect(runner="inprocess") as one:
        for stream in "rs":
            one.sql(STREAM.format(stream))
        add(one, 0, 64)
        push(one, range(32))
        one.advance(ts=32)
        wanted = {name: bag(rows_of(one[name].view())) for name in kept}
    assert {name: found[ps[name]] for name in kept} == wanted
    assert sum(map(bool, wanted.values())) > 60
    ps.close()
