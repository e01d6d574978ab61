"""ON ERROR and guards on Spark: the answers and counts of one process, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock
from oracle.fold import bag, rows_of
from spark.reading import views

TEXTS = {
    "nulls": "SELECT k, CAST(v AS INT) AS i FROM s [RANGE 9] ON ERROR NULL",
    "skips": "SELECT k FROM s [RANGE 9] WHERE kind = 'n' AND CAST(v AS INT) > 1 ON ERROR SKIP ROW",
    "groups": "SELECT kind, sum(CAST(v AS INT)) AS x, count(*) AS n FROM s [RANGE 9] "
    "GROUP BY kind HAVING ln(count(*)) > 0 ON ERROR SKIP ROW",
    "total": "SELECT sum(CAST(v AS INT)) FILTER (WHERE kind = 'n') AS x FROM s [RANGE 9] "
    "ON ERROR SKIP ROW",
    "guarded": "SELECT k FROM s [RANGE 9] WHERE kind = 'm' AND CAST(v AS INT) > 1",
}


def rows(first: int) -> pa.Table:
    texts = ["1", "two", "3", "4", "5x", "6"]
    found = [
        {"k": i, "kind": "m" if i % 3 == 0 else "n", "v": text, "ts": ts}
        for ts in range(first, first + 4)
        for i, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(found)


def declare(session: Any, folder: Path) -> None:
    columns = "(k BIGINT, kind STRING, v STRING, ts BIGINT) TIMESTAMP BY ts"
    session.sql(f"CREATE STREAM s {columns} FROM parquet OPTIONS (path '{folder}/*.parquet')")
    for name, text in TEXTS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    session.sql("CREATE MATERIALIZED VIEW bad AS SELECT CAST(v AS INT) AS i FROM s [RANGE 9]")


def counts(session: Any) -> dict[str, tuple[int, int, str]]:
    shown = session.sql("SHOW QUERIES").to_pylist()
    return {row["name"]: (row["nulled"], row["skipped"], row["reason"]) for row in shown}


def test_spark_hides_and_counts_what_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    one: Any = penstock.connect(runner="inprocess")
    ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=tmp_path / "c")
    for session in (one, ps):
        declare(session, folder)
    for step in range(2):
        pq.write_table(rows(4 * step), folder / f"{step}.parquet")
        for session in (one, ps):
            session.flush()
        assert counts(ps) == counts(one)
        assert ps["bad"].status == one["bad"].status == "failed"
        held = views(ps, [ps[name] for name in TEXTS])
        for name in TEXTS:
            assert held[ps[name]] == bag(rows_of(one[name].view())), name
        if step == 0:  # as after a kill: the session has no time to save anything
            ps._runner.job.close()
            ps._runner.answers.views.shut()
            ps = penstock.connect(spark=spark, checkpoint=tmp_path / "c")
    assert min(sum(counts(one)[name][:2]) for name in list(TEXTS)[:3]) > 0
    assert counts(one)["guarded"] == (0, 0, None)
    ps.close()
    one.close()
