"""A level of the job as a stateful processor: every group is a shard (DESIGN §5.6, points 2, 3).

Spark starts some processes only to read the processor's state variables. They do not need the
engine and pandas, so these are imported where rows are processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.spark.shard_store import ShardStore

if TYPE_CHECKING:
    import pandas as pd

LOG_WEIGHT = 64 << 20
"""A snapshot replaces the input log of a shard if the log outgrows this and the last snapshot."""


@dataclass(frozen=True, slots=True)
class ShardsOfLevel:
    """Which shards a processor runs; their arenas are below `root` on each machine."""

    root: str
    level: int
    keys: tuple[int, ...]
    log_weight: int = LOG_WEIGHT


class ShardProcessor(StatefulProcessor):
    """Runs the shards of a level; level 1 yields blocks for level 2, level 2 results."""

    def __init__(self, level: ShardsOfLevel) -> None:
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the store."""
        self._store = ShardStore(handle)

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """A batch of one shard."""
        from penstock.spark.shard_batch import run_batch

        index = self._level.keys.index(int(key[0]))
        return run_batch(self._level, index, self._store, rows)

    def close(self) -> None:
        """Nothing to close."""
