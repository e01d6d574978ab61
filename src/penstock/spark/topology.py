"""The streaming frame of the job: log and external sources, two levels of shards, results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.cells import BLOCKS, RESULTS
from penstock.spark.keys import shard_keys
from penstock.spark.log_source import FORMAT, LogSource
from penstock.spark.pack import Pack
from penstock.spark.parquet_files import parts_of_files
from penstock.spark.shard_processor import Level, ShardProcessor
from penstock.spark.sources import Source

LOG = "log"
"""The name of the session log among the sources."""


@dataclass(frozen=True, slots=True)
class Topology:
    """What the frame is made of."""

    root: str  # of the arenas
    log: Path
    manifests: Path
    shards: int
    log_weight: int
    by_name: bool  # whether Spark tells sources apart by name, not by number

    def frame(self, spark: SparkSession, sources: Mapping[str, Source]) -> DataFrame:
        """Results of the batch; the log comes first, then sources by name, as Spark counts them."""
        keys = shard_keys(self.shards)
        spark.dataSource.register(LogSource)
        reader = spark.readStream.format(FORMAT).option("path", str(self.log))
        if self.by_name:
            reader = reader.name(LOG)
        blocks = [reader.option("keys", ",".join(map(str, keys))).load()]
        for number, (name, source) in enumerate(sorted(sources.items())):
            frame = source.named(name) if self.by_name else source.frame
            frame = parts_of_files(frame, keys) if source.files else frame
            pack = Pack(name, number, len(sources), self.manifests, keys, source.files)
            blocks.append(frame.mapInArrow(pack, BLOCKS))
        lower = self._level(reduce(DataFrame.unionByName, blocks), 1, keys, BLOCKS)
        return self._level(lower, 2, keys, RESULTS)

    def _level(self, frame: DataFrame, level: int, keys: tuple[int, ...], schema: str) -> DataFrame:
        processor = ShardProcessor(Level(self.root, level, keys, self.log_weight))
        return frame.groupBy("shard").transformWithStateInPandas(
            processor, schema, "append", "None"
        )
