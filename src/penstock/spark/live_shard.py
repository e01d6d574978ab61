"""Shards between batches: objects of a worker process over arenas in files (DESIGN §5.6, point 2).

Spark may run each batch of a shard in a different worker. The worker claims the arena's files
under the nonce in the state store, and commits them under the next nonce. Each process caches the
objects over them (operators) as long as the configuration is the same. Missing parts are rebuilt
from the store.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from penstock.shards import wire
from penstock.shards.level1 import Level1Shard
from penstock.shards.level2 import Level2Shard
from penstock.shards.spec import Spec
from penstock.spark import pickling
from penstock.spark.shard_store import PIECE, Head, ShardStore
from penstock.state.arena_files import FileArena, abandon, claim, commit, create, sweep
from penstock.state.arena_pack import pack, unpack

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class ShardName:
    """A shard of a job, and the place of its arena on this machine."""

    root: str
    level: int
    index: int
    count: int

    @property
    def directory(self) -> Path:
        """The folder of its arenas."""
        return Path(self.root, f"L{self.level}-{self.index}")


class LiveShard:
    """A shard over a claimed arena."""

    def __init__(
        self, name: ShardName, arena: FileArena, spec: Spec | None, spec_nonce: str
    ) -> None:
        kind = Level1Shard if name.level == 1 else Level2Shard
        self.name = name
        self.arena = arena
        self.shard: Level1Shard | Level2Shard = kind(name.index, name.count, arena, spec)
        self.spec_nonce = spec_nonce
        self._declared = _declared(self.shard.spec)
        self._config: bytes | None = None

    def apply(self, messages: list[bytes]) -> list[Any]:
        """Process a batch, and update the nonce of the configuration."""
        output = self.shard.apply([wire.loads(m) for m in messages])
        declared = _declared(self.shard.spec)
        if declared != self._declared:
            self._declared, self._config = declared, None
            self.spec_nonce = secrets.token_hex(16)
        return output

    @property
    def weight(self) -> int:
        """An upper bound of the size of `pack`'s result, up to a few bytes."""
        return self.arena.nbytes + len(self._pickled())

    def pack(self) -> Iterator[bytes]:
        """The whole state in chunks."""
        self.shard.engine.shrink()
        config = self._pickled()
        data = _LENGTH.pack(len(config)) + config
        return chain((data[at : at + PIECE] for at in range(0, len(data), PIECE)), pack(self.arena))

    def commit(self, head: Head) -> None:
        """Commit the arena for the worker of the next batch, if Spark commits this one."""
        try:
            commit(self.arena, head.nonce, self._pickled())
        except OSError:  # no space: the next batch rebuilds the arena from the store
            abandon(self.arena)
        else:
            _LIVE[self.name] = self

    def abandon(self) -> None:
        """Discard this state."""
        abandon(self.arena)

    def _pickled(self) -> bytes:
        if self._config is None:
            self._config = pickling.dumps(self.shard.spec)
        return self._config


_LIVE: dict[ShardName, LiveShard] = {}


def take_shard(name: ShardName, head: Head, store: ShardStore) -> LiveShard:
    """The shard in the state of `head`; no other process can claim it until it commits."""
    live = _LIVE.pop(name, None)
    if head.nonce:
        found = claim(name.directory, head.nonce, None if live is None else live.arena)
        if found is not None:
            if live is not None and live.spec_nonce == head.spec:
                return live
            with found.arena.aside():
                return LiveShard(name, found.arena, wire.loads(found.config), head.spec)
    return _rebuild(name, head, store)


def _rebuild(name: ShardName, head: Head, store: ShardStore) -> LiveShard:
    """From snapshot and log."""
    sweep(name.directory, {head.nonce} if head.nonce else set())
    arena = create(name.directory)
    try:
        live = _restored(name, arena, store.snapshot(head))
        for messages in store.batches(head):
            live.apply(messages)
    except BaseException:
        abandon(arena)
        raise
    live.spec_nonce = head.spec
    return live


def _restored(name: ShardName, arena: FileArena, chunks: Iterator[bytes]) -> LiveShard:
    first = next(chunks, None)
    if first is None:
        return LiveShard(name, arena, None, "")
    config = bytearray(first)
    size = _LENGTH.size + _LENGTH.unpack_from(config)[0]
    while len(config) < size:
        config += next(chunks)
    with arena.aside():
        live = LiveShard(name, arena, wire.loads(bytes(config[_LENGTH.size :])), "")
    unpack(chunks, arena)
    return live


def _declared(spec: Spec) -> list[tuple[Any, Any]]:
    """The declarations, compared by identity; keeping references keeps identities unique."""
    parts = (spec.streams, spec.routes, spec.tables, spec.udfs, spec.templates)
    declared = [(key, _Same(value)) for part in parts for key, value in part.items()]
    return [("settings", spec.settings), ("broken", len(spec.broken)), *declared]


class _Same:
    """Equality is object identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
