"""Spark's own operators over the same files: a join of rules and stream, a stream-stream join."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark_pipeline import Passed

SCHEMA = "k BIGINT, a BIGINT, b BIGINT, c BIGINT, ts TIMESTAMP_NTZ"


def _session(cores: int) -> Any:
    from penstock.spark.config import build_session

    spark = build_session(f"local[{cores},4]", None, {"spark.sql.shuffle.partitions": str(cores)})
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    key = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    spark.conf.set(key, "true")
    return spark


def _read(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def _run(frame: Any, mode: str) -> Passed:
    """Run all files through; what comes out is counted, not kept."""
    passed = Passed()
    counts: list[int] = []
    ends = [time.perf_counter()]

    def take(batch: Any, number: int) -> None:
        counts.append(batch.count())
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as checkpoint:
        writer = frame.writeStream.outputMode(mode).foreachBatch(take)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.processAllAvailable()
        progress = [p for p in query.recentProgress if p.numInputRows]
        query.stop()
    passed.rows = int(progress[-1].numInputRows)
    passed.seconds = [p.durationMs["triggerExecution"] / 1000 for p in progress]
    passed.facts = {"counts": counts}
    return passed


def rules_join(folder: Path, cores: int) -> Passed:
    """A thousand filters as a table of rules joined with the stream, counted per rule."""
    from pyspark.sql import functions as f

    from benchmarks.spark_contender import filter_params

    spark = _session(cores)
    table = filter_params().to_pandas()
    table["rule"] = range(len(table))
    rules = f.broadcast(spark.createDataFrame(table))
    rows = _read(spark, folder / "r")
    hit = (
        (rows.a >= rules.alo) & (rows.a < rules.ahi) & (rows.b >= rules.blo) & (rows.c < rules.chi)
    )
    passed = _run(rows.join(rules, hit).groupBy("rule").count(), "update")
    spark.stop()
    return passed


def stream_join(folder: Path, cores: int) -> Passed:
    """The stream-stream join on key and time, append only: nothing is ever taken back."""
    from pyspark.sql import functions as f

    spark = _session(cores)
    r = _read(spark, folder / "r").withColumn("ts", f.col("ts").cast("timestamp"))
    s = _read(spark, folder / "s").withColumn("ts", f.col("ts").cast("timestamp"))
    left = r.select("k", "a", f.col("ts").alias("rts")).withWatermark("rts", "0 seconds")
    right = s.select(f.col("k").alias("k2"), "b", f.col("ts").alias("sts"))
    right = right.withWatermark("sts", "0 seconds")
    minute = f.expr("INTERVAL 60 SECONDS")
    near = (f.col("rts") > f.col("sts") - minute) & (f.col("rts") < f.col("sts") + minute)
    joined = left.join(right, (f.col("k") == f.col("k2")) & near)
    passed = _run(joined.select("k", "a", "b"), "append")
    spark.stop()
    return passed


OWN: dict[str, Callable[[Path, int], Passed]] = {"filters": rules_join, "join": stream_join}
