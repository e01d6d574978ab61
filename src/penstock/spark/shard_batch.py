"""A batch of one shard: messages in, new state in the store, blocks or results out.

Only the state store counts: the work of a task takes effect when Spark commits it. So any worker
may run a batch, repeatedly or twice at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from penstock.shards import wire
from penstock.shards.messages import CrossMessage
from penstock.spark import pickling
from penstock.spark.cells import Block, parts
from penstock.spark.frames import block_frame, joined, result_frame
from penstock.spark.live_shard import LiveShard, ShardName, take_shard
from penstock.spark.shard_processor import ShardsOfLevel
from penstock.spark.shard_store import Head, ShardStore

_TOGETHER = 1 << 20
"""Blocks below this size go into one frame, because each frame costs."""


def run_batch(
    level: ShardsOfLevel, index: int, store: ShardStore, rows: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Run a batch; yield nothing before its state is in the store."""
    messages, passing = joined(rows)
    results = [result for data in passing for result in wire.loads(data)]
    output: list[Any] = []
    if messages:
        output, measured = _apply(level, index, store, messages)
        results.append(measured)
    if level.level == 1:
        yield from _cross(level.keys, index, output, results)
    elif output or results:
        yield result_frame([*results, *output])


def _apply(
    level: ShardsOfLevel, index: int, store: ShardStore, messages: list[bytes]
) -> tuple[list[Any], wire.Result]:
    """Process the messages; returns the output and the time it took."""
    times = [time.perf_counter()]
    head = store.head()
    live = take_shard(ShardName(level.root, level.level, index, len(level.keys)), head, store)
    times.append(time.perf_counter())
    told = live.shard.changes_out
    try:
        output = live.apply(messages)
        times.append(time.perf_counter())
        saved = _save(level, live, head, store, messages)
    except BaseException:
        live.abandon()
        raise
    live.commit(saved)
    times.append(time.perf_counter())
    whole = saved.log == 0
    measured = {
        **live.shard.report(),
        "take_s": times[1] - times[0],
        "apply_s": times[2] - times[1],
        "save_s": times[3] - times[2],
        "changes_out": live.shard.changes_out - told,
        "result_bytes": sum(len(result.data) for result in _results(output)),
        "log_bytes": 0 if whole else sum(map(len, messages)),
        "snapshot_bytes": saved.snapshot_bytes if whole else 0,
    }
    return output, wire.Result("shard", level.level, index, wire.dumps(measured))


def _save(
    level: ShardsOfLevel, live: LiveShard, head: Head, store: ShardStore, messages: list[bytes]
) -> Head:
    """Save the new state: as the input of the batch, or as a snapshot if that is smaller."""
    head = replace(head, spec=live.spec_nonce)
    weight = sum(map(len, messages))
    if live.weight < weight or head.weight + weight > _limit(level, live.name.index, head):
        head = store.replace(head, live.pack())
    else:
        head = store.append(head, messages)
    return store.commit(head)


def _limit(level: ShardsOfLevel, index: int, head: Head) -> int:
    """The log size that triggers a snapshot; it differs by shard, to spread the work."""
    most = max(level.log_weight, head.snapshot_bytes)
    return most + most * index // (2 * len(level.keys))


def _results(output: Sequence[CrossMessage | wire.Result]) -> Iterator[wire.Result]:
    """The results in a shard's output."""
    for made in output:
        yield from (made,) if isinstance(made, wire.Result) else made.through


def _cross(
    keys: tuple[int, ...], index: int, output: Sequence[CrossMessage], results: list[wire.Result]
) -> Iterator[pd.DataFrame]:
    """Blocks for level 2; results are separate blocks, because they need no log."""
    through = [*results, *_results(output)]
    blocks: list[Block] = []
    for to, message in enumerate(output):
        data = pickling.dumps(replace(message, through=()))
        blocks += parts(keys[to], False, index, data)
    if through:
        blocks += parts(keys[index], True, index, wire.dumps(through))
    if sum(len(block[-1]) for block in blocks) < _TOGETHER:
        yield block_frame(blocks)
    else:
        for block in blocks:
            yield block_frame([block])
