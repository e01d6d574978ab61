"""Spark's Python daemon with shards that do nothing: the bare topology of Spark benchmarks.

Sources, admission, routing, shuffle, input log, both levels and the way out are the real ones.
Environment variables say how many bytes of results a shard of level 1 brings forth per batch, so
that the way out has the same to carry (changes are narrow numbers, which do not compress, and
neither do these), and whether input is logged, as where there is much state.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from pyspark import daemon

from penstock.shards import wire
from penstock.shards.level1 import Level1Shard
from penstock.shards.level2 import Level2Shard
from penstock.shards.messages import Counts, CrossMessage, SourceMessage
from penstock.spark import log_source, pack, shard_processor  # noqa: F401
from penstock.spark.daemon import keep_memory
from penstock.spark.live_shard import LiveShard

BYTES = "PENSTOCK_BARE_BYTES"
LOGS = "PENSTOCK_BARE_LOGS"


@cache
def _results() -> bytes:
    return os.urandom(int(os.environ.get(BYTES, "0")))


def _pass_on(shard: Level1Shard, messages: Iterable[Any]) -> list[CrossMessage]:
    found = list(messages)
    rows = any(isinstance(message, SourceMessage) for message in found)
    data = _results() if rows else b""
    results = (wire.Result("changes", 0, shard.index, data),)
    if shard.index == 0:
        counts: dict[str, Counts] = {}
        for message in found:
            if isinstance(message, SourceMessage):
                counts[message.stream] = counts.get(message.stream, Counts()) + message.counts
        status = {"watermarks": {}, "counts": counts}
        results += (wire.Result("status", 0, 0, wire.dumps(status)),)
    return [
        CrossMessage(shard.index, (), results if to == shard.index else ())
        for to in range(shard.count)
    ]


def _take(shard: Level2Shard, messages: Iterable[CrossMessage]) -> list[wire.Result]:
    return [result for message in messages for result in message.through]


if __name__ == "__main__":
    Level1Shard.apply = _pass_on  # type: ignore[method-assign, assignment]
    Level2Shard.apply = _take  # type: ignore[method-assign, assignment]
    weight = 1 << 62 if os.environ.get(LOGS) == "1" else 0
    LiveShard.weight = property(lambda shard: weight)  # type: ignore[method-assign, assignment]
    keep_memory()
    gc.freeze()
    daemon.manager()
