"""A level of the job as a stateful processor: every group is a shard (DESIGN §5.6, points 2, 3).

The state store is the truth. A task takes the shard from this process where the store's nonce
says that it is the same state, and builds it from snapshot and log where not; so it does not
matter which worker runs a batch, how often, or whether two do at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.shards import wire
from penstock.shards.messages import CrossMessage
from penstock.spark import pickling
from penstock.spark.cells import Block, block_frame, result_frame
from penstock.spark.live_shard import LiveShard, ShardName, take_shard
from penstock.spark.shard_store import Head, ShardStore

LOG_WEIGHT = 64 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """Which shards a processor runs; their arenas are below `root` on each machine."""

    root: str
    level: int
    keys: tuple[int, ...]
    log_weight: int = LOG_WEIGHT


class ShardProcessor(StatefulProcessor):
    """Runs the shards of a level; level 1 yields blocks for level 2, level 2 results."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the store."""
        self._store = ShardStore(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        """A batch of one shard."""
        index = self._level.keys.index(int(key[0]))
        messages, passing = _sorted_rows(rows)
        results = [result for data in passing for result in wire.loads(data)]
        output = self._apply(index, messages) if messages else []
        if self._level.level == 1:
            yield from self._cross(index, output, results)
        elif output or results:
            yield result_frame([*results, *output])

    def _apply(self, index: int, messages: list[bytes]) -> list[Any]:
        """Take a batch's messages and make the new state durable."""
        level = self._level
        head = self._store.head()
        name = ShardName(level.root, level.level, index, len(level.keys))
        live = take_shard(name, head, self._store)
        try:
            output = live.apply(messages)
            self._save(live, head, messages)
        except BaseException:
            live.abandon()
            raise
        return output

    def _save(self, live: LiveShard, head: Head, messages: list[bytes]) -> None:
        head = replace(head, spec=live.spec_nonce)
        logged = head.weight + sum(map(len, messages))
        if logged > self._limit(live.name.index, head):
            head = self._store.replace(head, live.pack())
        else:
            head = self._store.append(head, messages)
        live.commit(self._store.commit(head))

    def _limit(self, index: int, head: Head) -> int:
        """When to replace the log; apart for every shard, so that not all do it in one batch."""
        most = max(self._level.log_weight, head.snapshot_bytes)
        return most + most * index // (2 * len(self._level.keys))

    def _cross(
        self, index: int, output: Sequence[CrossMessage], results: list[wire.Result]
    ) -> Iterator[pd.DataFrame]:
        """Blocks for level 2; results go beside them, because nobody needs to log them."""
        keys = self._level.keys
        through = [*results, *(r for message in output for r in message.through)]
        blocks: list[Block] = [
            (keys[to], False, index, pickling.dumps(replace(message, through=())))
            for to, message in enumerate(output)
        ]
        if through:
            blocks.append((keys[index], True, index, wire.dumps(through)))
        for block in blocks:
            yield block_frame([block])

    def close(self) -> None:
        """Nothing to close."""


def _sorted_rows(frames: Iterator[pd.DataFrame]) -> tuple[list[bytes], list[bytes]]:
    """Messages and passing results in the order of their origin, whatever the shuffle did."""
    rows = [
        (int(origin), bool(passing), bytes(data))
        for frame in frames
        for origin, passing, data in zip(
            frame["origin"], frame["passing"], frame["data"], strict=True
        )
    ]
    rows.sort(key=lambda row: row[:2])
    return [d for _, p, d in rows if not p], [d for _, p, d in rows if p]
