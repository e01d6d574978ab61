"""SELECT over views on Spark: once, and as standing queries that follow a view."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_queries_over_views_while_batches_run(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for at in range(3):
        table = pa.table(
            {"k": pa.array([0, 1, 1], pa.int32()), "ts": [at * 3 + i for i in range(3)]}
        )
        path = source / f"{at}.parquet"
        pq.write_table(table, path)
        written = time.time() - 10 + at  # Spark reads files in order of their times
        os.utime(path, (written, written))
    with penstock.connect(spark=spark, shards=2) as ps:
        ps.sql(
            "CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts FROM parquet "
            f"OPTIONS (path '{source}', maxFilesPerTrigger '1')"
        )
        v = ps.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 100] GROUP BY k"
        )
        ps.start()
        ps.flush()
        q = ps.query("SELECT * FROM v")
        most = ps.query("SELECT max(n) AS n FROM v")
        once = ps.sql("SELECT k, n FROM v ORDER BY n DESC LIMIT 1")
        assert once.to_pylist() == [{"k": 1, "n": 6}]
        assert rows(q.view()) == rows(v.view()) == [(0, 3), (1, 6)]
        table = pa.table({"k": pa.array([0, 2], pa.int32()), "ts": [20, 21]})
        pq.write_table(table, source / "9.parquet")
        ps.flush()
        assert rows(q.view()) == rows(v.view()) == [(0, 4), (1, 6), (2, 1)]
        assert rows(most.view()) == [(6,)]
        ps.sql("ALTER STREAM r SET RETAIN 50")
        assert rows(ps.sql("SELECT * FROM v")) == [(0, 4), (1, 6), (2, 1)]
