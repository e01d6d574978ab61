"""The interface between a session and its shards: a durable, ordered log and its effects."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.engine import blocks as b
from penstock.errors import PenstockError, UnsupportedError
from penstock.shards import wire
from penstock.shards.cluster import Cluster
from penstock.shards.encoding import Encoded
from penstock.shards.entries import LogEntry
from penstock.shards.messages import LogMessage

_MOST_WAITING = 32  # entries: shards of a process share derived values up to this number


@dataclass(frozen=True, slots=True)
class JobBatch:
    """A batch that was run: its number, the last entry in it, its results in order.

    `stages` are the seconds of its consecutive stages.
    """

    number: int
    entry: int
    results: list[wire.Result]
    stages: dict[str, float] = field(default_factory=dict)


Deliver = Callable[[JobBatch], None]


class Job(Protocol):
    """Runs entries on shards. `deliver` is called once per batch, in order."""

    shards: int

    @property
    def next_entry(self) -> int:
        """The number that the next entry will have."""

    def append(self, blocks: tuple[Encoded, ...], call: Any) -> int:
        """Make an entry durable; its number. `call` is what repeats it on the driver."""

    @property
    def dead(self) -> bool:
        """Whether an error has ended the job."""

    def check(self) -> None:
        """Raise the error that ended the job, if there is one."""

    def catch_up(self) -> None:
        """Run entries that wait for the next read, if there are any."""

    def wait(self, entry: int) -> None:
        """Return when the batch that holds an entry has been delivered."""

    def drain(self) -> None:
        """Return when every entry, and all that external sources have, is in the answers."""

    def reports(self) -> list[dict[str, Any]]:
        """The known reports of shards on what queries share (`Shard.report`)."""

    def close(self) -> None:
        """Stop."""


class LocalJob:
    """The shards in this process: an entry is a batch, run before `append` returns.

    Entries that add or drop single queries wait for the next other entry or for a read
    (`catch_up`), and run in one batch. With `eager=False` all entries wait for `drain`.
    One thread at a time may call it. After an error the shards cannot continue.
    """

    def __init__(self, shards: int, deliver: Deliver, eager: bool = True) -> None:
        self.shards = shards
        self.cluster = Cluster(shards)
        self._deliver = deliver
        self._eager = eager
        self._waiting: list[bytes] = []
        self._entries = 0
        self._batches = 0
        self._delivered = 0  # the last entry that was run
        self._running = False
        self._death: PenstockError | None = None

    @property
    def dead(self) -> bool:
        """Whether an error has ended the shards."""
        return self._death is not None

    def check(self) -> None:
        """Raise the error that ended the shards, if there is one."""
        if self._death is not None:
            raise self._death.with_traceback(None)

    @property
    def next_entry(self) -> int:
        """The number that the next entry will have."""
        return self._entries + 1

    def append(self, blocks: tuple[Encoded, ...], call: Any) -> int:
        """Take an entry."""
        try:
            data = wire.dumps(LogEntry(self._entries + 1, blocks))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnsupportedError(
                f"the call cannot be sent to the shards: {error}",
                code="PS-RUNNER-003",
                remedy="define user-defined functions at the top level of a module",
            ) from error
        self._entries += 1
        self._waiting.append(data)
        if len(self._waiting) >= _MOST_WAITING or not all(map(_can_wait, blocks)):
            self.catch_up()
        return self._entries

    def catch_up(self) -> None:
        """Run waiting entries, unless they wait for `drain`."""
        if self._eager:
            self.drain()

    def wait(self, entry: int) -> None:
        """Run waiting entries. A subscriber cannot call this: its batch is not complete."""
        if self._running and entry > self._delivered:
            raise UnsupportedError(
                "a subscriber cannot wait for the next batch: the batch waits for the subscriber",
                code="PS-RUN-004",
                remedy="read views after the call; push() and sql() do not wait",
            )
        self.drain()
        self.check()

    def drain(self) -> None:
        """Run waiting entries as one batch; entries added during delivery are another batch."""
        if self._running or self._death is not None:
            return
        self._running = True
        try:
            while self._waiting:
                message, last = LogMessage(tuple(self._waiting)), self._entries
                self._waiting = []
                begun = time.perf_counter()
                results = self._run(message)
                self._batches += 1
                self._delivered = last
                stages = {"run_s": time.perf_counter() - begun}
                self._deliver(JobBatch(self._batches, last, results, stages))
        finally:
            self._running = False

    def _run(self, message: LogMessage) -> list[wire.Result]:
        try:
            return self.cluster.run(message)
        except Exception as error:
            self._death = PenstockError(
                f"the shards stopped: {error!r}",
                code="PS-RUN-006",
                remedy="connect() again, and report this as a bug",
            )
            raise self._death from error

    def reports(self) -> list[dict[str, Any]]:
        """Reports on what the shards share, by level and number."""
        levels = (self.cluster.lowers, self.cluster.uppers)
        return [shard.report() for level in levels for shard in level]

    def close(self) -> None:
        """Do nothing: no thread runs in the background."""


def _can_wait(block: Encoded) -> bool:
    """Whether a block has no visible effect before the next read, and little work waits."""
    return isinstance(block, b.AddTemplate) or (
        isinstance(block, b.AddQueries | b.DropQueries) and block.qids.shape[0] == 1
    )
