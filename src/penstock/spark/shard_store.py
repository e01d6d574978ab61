"""A shard in Spark's state store: head, snapshot, and the input since (DESIGN §5.6, point 2).

Values are few and of at most 4 MiB, because every call costs and large ones cost more than
their share. The head's nonce names the state exactly; whoever has a copy under another nonce has
another state.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

PIECE = 4 << 20
_LENGTH = struct.Struct("<Q")
_LEAST_WEIGHT = 64 << 10
"""Taking a batch again costs at least as much as reading this many bytes."""
_HEAD = (
    "nonce string, spec string, pieces long, weight long, snapshot_pieces long, snapshot_bytes long"
)


@dataclass(frozen=True, slots=True)
class Head:
    """What the store holds of a shard."""

    nonce: str = ""
    spec: str = ""  # changes when the shard's configuration does
    pieces: int = 0  # of the log
    weight: int = 0  # of the log: bytes, and a least number for every batch
    snapshot_pieces: int = 0
    snapshot_bytes: int = 0


class ShardStore:
    """The store of the shard whose key Spark has set."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD)
        self._log = handle.getMapState("log", "piece long", "data binary")
        self._snapshot = handle.getMapState("snapshot", "piece long", "data binary")

    def head(self) -> Head:
        """The head; an empty one of a new shard."""
        found = self._head.get()
        return Head(*found) if found else Head()

    def commit(self, head: Head) -> Head:
        """Write a head under a new nonce."""
        head = replace(head, nonce=secrets.token_hex(16))
        self._head.update(astuple(head))
        return head

    def append(self, head: Head, messages: Sequence[bytes]) -> Head:
        """Log the input of a batch."""
        data = pack_messages(messages)
        n = head.pieces
        for at in range(0, len(data), PIECE):
            self._log.updateValue((n,), (data[at : at + PIECE],))
            n += 1
        return replace(head, pieces=n, weight=head.weight + max(len(data), _LEAST_WEIGHT))

    def batches(self, head: Head) -> Iterator[list[bytes]]:
        """The input of every batch since the snapshot."""
        n = 0
        while n < head.pieces:
            data = bytearray(self._piece(n))
            size = _LENGTH.unpack_from(data)[0]
            n += 1
            while len(data) < size:
                data += self._piece(n)
                n += 1
            yield unpack_messages(bytes(data))

    def _piece(self, n: int) -> bytes:
        return _bytes(self._log.getValue((n,)))

    def replace(self, head: Head, chunks: Iterable[bytes]) -> Head:
        """Put a snapshot in the place of snapshot and log."""
        self._log.clear()
        self._snapshot.clear()
        n = size = 0
        for chunk in chunks:
            self._snapshot.updateValue((n,), (chunk,))
            n += 1
            size += len(chunk)
        return replace(head, pieces=0, weight=0, snapshot_pieces=n, snapshot_bytes=size)

    def snapshot(self, head: Head) -> Iterator[bytes]:
        """The chunks of the snapshot."""
        for n in range(head.snapshot_pieces):
            yield _bytes(self._snapshot.getValue((n,)))


def _bytes(row: tuple[Any, ...] | None) -> bytes:
    assert row is not None, "a piece is missing in the state store"
    return bytes(row[0])


def pack_messages(messages: Sequence[bytes]) -> bytes:
    """Messages in one piece: length of all, their number, their lengths, themselves."""
    lengths = struct.pack(f"<Q{len(messages)}Q", len(messages), *map(len, messages))
    total = _LENGTH.size + len(lengths) + sum(map(len, messages))
    return b"".join((_LENGTH.pack(total), lengths, *messages))


def unpack_messages(data: bytes) -> list[bytes]:
    """What `pack_messages` packed."""
    count = _LENGTH.unpack_from(data, _LENGTH.size)[0]
    start = 2 * _LENGTH.size
    found, at = [], start + count * _LENGTH.size
    for length in struct.unpack_from(f"<{count}Q", data, start):
        found.append(data[at : at + length])
        at += length
    return found
