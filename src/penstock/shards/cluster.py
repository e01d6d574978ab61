"""All shards of both levels in one process, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.roomy import roomy
from penstock.shards import wire
from penstock.shards.level1 import Level1Shard
from penstock.shards.level2 import Level2Shard
from penstock.shards.messages import LogMessage, SourceMessage
from penstock.state.arena import Arena


class Cluster:
    """Runs batches; every message goes through the wire, as it would between processes."""

    def __init__(self, count: int) -> None:
        self.lowers = [Level1Shard(i, count, Arena()) for i in range(count)]
        self.uppers = [Level2Shard(i, count, Arena()) for i in range(count)]

    @roomy
    def run(
        self, log: LogMessage | None, sources: Sequence[Sequence[SourceMessage]] = ()
    ) -> list[wire.Result]:
        """One batch: entries of the log, then the messages of source tasks to every shard."""
        crossing: list[list[bytes]] = [[] for _ in self.uppers]
        logged = [wire.dumps(log)] if log else []
        for lower in self.lowers:
            sent = [*logged, *(wire.dumps(task[lower.index]) for task in sources)]
            for to, message in enumerate(lower.apply(map(wire.loads, sent))):
                crossing[to].append(wire.dumps(message))
        results = [
            result
            for upper, messages in zip(self.uppers, crossing, strict=True)
            for result in upper.apply([wire.loads(m) for m in messages])
        ]
        return sorted(results, key=lambda r: r.order)

    def reload(self) -> None:
        """Serialise every shard and build it again, as after a restart."""
        self.lowers = [_again(Level1Shard, shard) for shard in self.lowers]
        self.uppers = [_again(Level2Shard, shard) for shard in self.uppers]


S = TypeVar("S", Level1Shard, Level2Shard)


def _again(kind: type[S], shard: S) -> S:
    spec, arrays = wire.loads(wire.dumps((shard.spec, shard.engine.arena.snapshot())))
    made = kind(shard.index, shard.count, Arena(), spec)
    made.engine.arena.restore(arrays)
    return made
