"""The streaming frame of the job: log and external sources, two levels of shards, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.cells import BLOCKS, RESULTS
from penstock.spark.found_files import parts_of_files
from penstock.spark.keys import shard_keys
from penstock.spark.log_source import FORMAT, LogSource
from penstock.spark.pack import Pack
from penstock.spark.shard_processor import ShardProcessor, ShardsOfLevel
from penstock.spark.source_set import Slot
from penstock.spark.stand_in import stand_in

LOG = "log"
"""The name of the session log among the sources."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The parameters of the frame."""

    root: str  # of the arenas
    log: Path
    manifests: Path
    shards: int
    log_weight: int
    by_name: bool  # whether Spark identifies sources by name, not by number

    def frame(self, spark: SparkSession, sources: Sequence[Slot]) -> DataFrame:
        """Results of the batch; the log comes first, then the sources, as Spark counts them."""
        keys = shard_keys(self.shards)
        spark.dataSource.register(LogSource)
        reader = spark.readStream.format(FORMAT).option("path", str(self.log))
        if self.by_name:
            reader = reader.name(LOG)
        blocks = [reader.option("keys", ",".join(map(str, keys))).load()]
        for number, slot in enumerate(sources):
            if slot.source is None or slot.frame is None:
                blocks += [stand_in(spark, name) for name in slot.names]
                continue
            frame, form = slot.frame, slot.source.files
            frame = parts_of_files(frame, keys, form) if form else frame
            pack = Pack(slot.stream, number, len(sources), self.manifests, keys, form)
            blocks.append(frame.mapInArrow(pack, BLOCKS))
        lower = self._level(reduce(DataFrame.unionByName, blocks), 1, keys, BLOCKS)
        return self._level(lower, 2, keys, RESULTS)

    def _level(self, frame: DataFrame, level: int, keys: tuple[int, ...], schema: str) -> DataFrame:
        processor = ShardProcessor(ShardsOfLevel(self.root, level, keys, self.log_weight))
        return frame.groupBy("shard").transformWithStateInPandas(
            processor, schema, "append", "None"
        )
