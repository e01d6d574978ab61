"""A shard in Spark's state store: head, snapshot, and the input since (DESIGN §5.6, point 2).

Values are few and at most 4 MiB: every call costs, and larger values cost more than their share.
All are in one map, because every state variable costs too. The head's nonce identifies the state
exactly: a copy under another nonce is another state.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

PIECE = 4 << 20
_LENGTH = struct.Struct("<Q")
_LEAST_WEIGHT = 64 << 10
"""Replaying a batch costs at least as much as reading this many bytes."""
_HEAD = 0
"""The key of the head; snapshot and log follow it."""


@dataclass(frozen=True, slots=True)
class Head:
    """The record of a shard in the store."""

    nonce: str = ""
    spec: str = ""  # changes when the shard's configuration does
    snapshot: int = 0  # pieces
    snapshot_bytes: int = 0
    log: int = 0  # pieces
    weight: int = 0  # of the log: bytes, and a least number for every batch


class ShardStore:
    """The store of the current shard; Spark sets its key."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._pieces = handle.getMapState("pieces", "piece long", "data binary")

    def head(self) -> Head:
        """The head; an empty one of a new shard."""
        found = self._pieces.getValue((_HEAD,))
        return Head(**json.loads(bytes(found[0]))) if found else Head()

    def commit(self, head: Head) -> Head:
        """Write a head under a new nonce."""
        head = replace(head, nonce=secrets.token_hex(16))
        self._put(_HEAD, json.dumps(asdict(head)).encode())
        return head

    def append(self, head: Head, messages: Sequence[bytes]) -> Head:
        """Log the input of a batch."""
        data = pack_messages(messages)
        n = head.log
        for at in range(0, len(data), PIECE):
            n += 1
            self._put(head.snapshot + n, data[at : at + PIECE])
        return replace(head, log=n, weight=head.weight + max(len(data), _LEAST_WEIGHT))

    def replace(self, head: Head, chunks: Iterable[bytes]) -> Head:
        """Replace snapshot and log by a new snapshot."""
        self._pieces.clear()
        n = size = 0
        for chunk in chunks:
            n += 1
            size += len(chunk)
            self._put(n, chunk)
        return replace(head, snapshot=n, snapshot_bytes=size, log=0, weight=0)

    def snapshot(self, head: Head) -> Iterator[bytes]:
        """The chunks of the snapshot."""
        for n in range(1, head.snapshot + 1):
            yield self._get(n)

    def batches(self, head: Head) -> Iterator[list[bytes]]:
        """The input of every batch since the snapshot."""
        pieces = (self._get(head.snapshot + n) for n in range(1, head.log + 1))
        for first in pieces:
            data = bytearray(first)
            while len(data) < _LENGTH.unpack_from(data)[0]:
                data += next(pieces)
            yield unpack_messages(bytes(data))

    def _put(self, key: int, data: bytes) -> None:
        self._pieces.updateValue((key,), (data,))

    def _get(self, key: int) -> bytes:
        found = self._pieces.getValue((key,))
        assert found is not None, f"piece {key} is missing in the state store"
        return bytes(found[0])


def pack_messages(messages: Sequence[bytes]) -> bytes:
    """Messages in one: length of all, their number, their lengths, themselves."""
    lengths = struct.pack(f"<Q{len(messages)}Q", len(messages), *map(len, messages))
    total = _LENGTH.size + len(lengths) + sum(map(len, messages))
    return b"".join((_LENGTH.pack(total), lengths, *messages))


def unpack_messages(data: bytes) -> list[bytes]:
    """Undo `pack_messages`."""
    count = _LENGTH.unpack_from(data, _LENGTH.size)[0]
    start = 2 * _LENGTH.size
    found, at = [], start + count * _LENGTH.size
    for length in struct.unpack_from(f"<{count}Q", data, start):
        found.append(data[at : at + length])
        at += length
    return found
