"""Shards that live in a worker process between batches, each known by the nonce of its state."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.shards import wire
from penstock.shards.lower import Lower
from penstock.shards.spec import Spec
from penstock.shards.upper import Upper
from penstock.spark import pickling
from penstock.spark.shard_store import PIECE, Head, ShardStore
from penstock.state.arena import Arena


@dataclass(frozen=True, slots=True)
class ShardName:
    """Which shard of which job."""

    checkpoint: str
    level: int
    index: int
    count: int


class LiveShard:
    """A shard, and what state it is in."""

    def __init__(self, name: ShardName, spec: Spec | None = None, spec_nonce: str = "") -> None:
        kind = Lower if name.level == 1 else Upper
        self.name = name
        self.shard: Lower | Upper = kind(name.index, name.count, Arena(), spec)
        self.nonce = ""
        self.spec_nonce = spec_nonce
        self._declared = _declared(self.shard.spec)

    def apply(self, messages: list[bytes]) -> list[Any]:
        """Take a batch; the nonce of the configuration follows."""
        output = self.shard.apply([wire.loads(m) for m in messages])
        declared = _declared(self.shard.spec)
        if declared != self._declared:
            self._declared, self.spec_nonce = declared, secrets.token_hex(16)
        return output

    def pack(self) -> Iterator[bytes]:
        """The whole state in pieces."""
        data = pickling.dumps((self.shard.spec, self.shard.engine.arena.snapshot()))
        for at in range(0, len(data), PIECE):
            yield data[at : at + PIECE]

    def commit(self, head: Head) -> None:
        """The state is that of `head`, in case it is the one that Spark keeps."""
        self.nonce = head.nonce
        _LIVE[self.name] = self


_LIVE: dict[ShardName, LiveShard] = {}


def take_shard(name: ShardName, head: Head, store: ShardStore) -> LiveShard:
    """The shard in the state of `head`; until it is committed, nobody finds it here."""
    live = _LIVE.pop(name, None)
    if live is not None and live.nonce == head.nonce:
        return live
    return _rebuild(name, head, store)


def _rebuild(name: ShardName, head: Head, store: ShardStore) -> LiveShard:
    data = b"".join(store.snapshot(head))
    spec, arrays = wire.loads(data) if data else (None, None)
    live = LiveShard(name, spec)
    if arrays is not None:
        live.shard.engine.arena.restore(arrays)
    for messages in store.batches(head):
        live.apply(messages)
    live.spec_nonce = head.spec
    return live


def _declared(spec: Spec) -> tuple[Any, ...]:
    """The declarations by identity; holding them keeps the identities apart."""
    return tuple(
        tuple((key, _Same(value)) for key, value in part.items())
        for part in (spec.streams, spec.routes, spec.tables, spec.udfs, spec.templates)
    )


class _Same:
    """Equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    __hash__ = None  # type: ignore[assignment]
