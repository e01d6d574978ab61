"""A source that replaces another: it has no rows, and keeps the other's offset.

So a paused source continues where it stopped, and a dropped source keeps its number if Spark
numbers sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.spark.block_source import BlockReader, BlockSource

FORMAT = "penstock_stand_in"


def stand_in(spark: SparkSession, name: str | None) -> DataFrame:
    """Blocks of a source that has none."""
    spark.dataSource.register(StandIn)
    reader = spark.readStream if name is None else spark.readStream.name(name)
    return reader.format(FORMAT).load()


class StandIn(BlockSource):
    """Takes no options."""

    format = FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader."""
        return Nothing()


class Nothing(BlockReader):
    """Returns every offset unchanged, as the latest."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The offset of a source that was never read."""
        return {"nothing": 0}

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802
        """Where the other source was."""
        return start

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        """Nothing to read."""
        return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Nothing."""
        return iter(())
