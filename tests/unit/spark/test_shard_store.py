"""A shard in the state store: what is put comes back, in pieces or not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark import shard_store
from penstock.spark.shard_store import Head, ShardStore, pack_messages, unpack_messages


class FakeMap:
    """Spark's map state."""

    def __init__(self) -> None:
        self.values: dict[tuple[int], tuple[bytes]] = {}
        self.getValue = self.values.get
        self.clear = self.values.clear

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        assert key == (0,) or len(value[0]) <= shard_store.PIECE
        self.values[key] = value


class FakeHandle:
    def __init__(self) -> None:
        self.map = FakeMap()

    def getMapState(self, *arguments: Any) -> FakeMap:  # noqa: N802
        return self.map


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> ShardStore:
    monkeypatch.setattr(shard_store, "PIECE", 40)
    return ShardStore(FakeHandle())  # type: ignore[arg-type]


BATCHES = [[b"one"], [b"a" * 100, b"", b"b" * 7], [], [b"c" * 16]]


@pytest.mark.parametrize("messages", BATCHES)
def test_messages_come_back(messages: list[bytes]) -> None:
    assert unpack_messages(pack_messages(messages)) == messages


def test_the_log_comes_back(store: ShardStore) -> None:
    head = store.head()
    assert head == Head()
    for messages in BATCHES:
        head = store.commit(store.append(head, messages))
        assert store.head() == head
    assert list(store.batches(head)) == BATCHES
    assert head.weight >= 4 * (64 << 10)


def test_a_snapshot_replaces_all(store: ShardStore) -> None:
    head = Head(spec="x")
    for chunks in ([b"s" * 40, b"t"], [b"u"]):
        head = store.append(head, BATCHES[1])
        head = store.replace(head, chunks)
        assert list(store.snapshot(head)) == chunks
        assert list(store.batches(head)) == []
        assert (head.snapshot_bytes, head.weight) == (sum(map(len, chunks)), 0)
    head = store.append(head, BATCHES[1])
    assert list(store.snapshot(head)) == [b"u"]
    assert list(store.batches(head)) == [BATCHES[1]]


def test_every_commit_has_its_own_nonce(store: ShardStore) -> None:
    assert len({store.commit(Head()).nonce for _ in range(5)}) == 5
