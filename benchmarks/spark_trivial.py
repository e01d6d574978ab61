"""A trivial two-level stateful query on Spark, fed one small batch at a time, in its own process.

Both levels keep one value per key in RocksDB with changelog checkpointing and pass their row on:
the least that the topology of the job can cost.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "shard int, data binary"


class Keep(StatefulProcessor):
    """Counts the batches of its key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One value."""
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Count, and pass the rows on."""
        found = self._count.get()
        self._count.update((found[0] + 1 if found else 1,))
        for frame in rows:
            yield frame[["shard", "data"]]

    def close(self) -> None:
        """Nothing to close."""


def feed_batches(batches: int) -> list[float]:
    """Seconds from a new file to its batch being done."""
    from penstock.spark.config import build_session, query_settings
    from penstock.spark.keys import shard_keys

    spark = build_session("local[2,4]")
    for key, value in query_settings(2).items():
        spark.conf.set(key, value)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        seconds = _feed(spark, Path(name), shard_keys(2), batches)
    spark.stop()
    return seconds


def _feed(spark: SparkSession, folder: Path, keys: tuple[int, ...], batches: int) -> list[float]:
    (folder / "in").mkdir()
    source = spark.readStream.schema(SCHEMA).parquet(str(folder / "in"))
    frame = source
    for _ in range(2):
        frame = frame.groupBy("shard").transformWithStateInPandas(Keep(), SCHEMA, "append", "None")
    done: list[int] = []

    def take(batch: Any, number: int) -> None:
        batch.toArrow()
        done.append(number)

    writer = frame.writeStream.foreachBatch(take).trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    seconds = []
    for number in range(batches):
        rows = pd.DataFrame({"shard": list(keys), "data": [b"x" * 100] * len(keys)})
        rows["shard"] = rows["shard"].astype("int32")
        rows.to_parquet(folder / f"{number}.parquet")
        start = time.perf_counter()
        (folder / f"{number}.parquet").rename(folder / "in" / f"{number}.parquet")
        while len(done) <= number:
            time.sleep(0.002)
        seconds.append(time.perf_counter() - start)
    query.processAllAvailable()
    query.stop()
    return seconds


if __name__ == "__main__":
    print(json.dumps({"seconds": feed_batches(int(sys.argv[1]))}))
