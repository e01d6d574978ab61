"""The runner of shards in this process: calls become log entries, answers come in batches."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.engine.control import ControlEngine
from penstock.errors import UnsupportedError
from penstock.session.asking import AskedAnswers
from penstock.session.books import Books
from penstock.session.calls import LoggedCalls
from penstock.session.file_sinks import FileSinks
from penstock.session.file_sources import FileSources
from penstock.session.gate import Gate
from penstock.session.inbox import Inbox
from penstock.session.leaving import LeavingQueries
from penstock.session.runners.shard_steps import ShardSteps
from penstock.session.vault import Vault
from penstock.shards.job import Deliver, Job, JobBatch

if TYPE_CHECKING:
    from penstock.session.feed import Feed
    from penstock.session.snapshot import Snapshot


def no_snapshot() -> UnsupportedError:
    """The error for a snapshot of a session with its state on shards."""
    return UnsupportedError(
        "a session on shards cannot write a snapshot: its state is on the shards",
        code="PS-RUNNER-002",
        remedy="connect() on Spark with checkpoint=, or in process without shards=",
    )


def is_heard(books: Books) -> bool:
    """Whether a subscriber, sink or progress listener must learn of a call's changes at once."""
    return books.delivery.is_heard or bool(books.progress.listeners)


class OnShards:
    """Runs queries on the shards of a job, one thread at a time."""

    def __init__(
        self, books: Books, control: ControlEngine, make_job: Callable[[Deliver], Job]
    ) -> None:
        self.job = job = make_job(self._receive)
        self.shards = job.shards
        self.gate = gate = Gate(self._end_call, job.catch_up, job.check)
        self.vault = Vault()
        self.calls = LoggedCalls(job, control, gate, lambda: False, lambda: is_heard(books))
        self.sources = FileSources(books.catalog, self.vault)
        self.sinks = FileSinks(self.vault, uuid.uuid4().hex)
        leaving = LeavingQueries()
        self.steps = ShardSteps(books, control, gate, self.calls, leaving, job.shards)
        self.deployed = self.steps.deployed
        self.answers = AskedAnswers(books.queries, gate, job, self.calls, leaving, self._wait)
        self._books = books
        self._inbox = Inbox(
            books, control, job, self.steps, self.answers, leaving, gate, self.sources.why_paused
        )

    @property
    def is_dead(self) -> bool:
        """Whether the job has ended with an error."""
        return self.job.dead

    def _end_call(self) -> None:
        self.calls.end()

    def _wait(self, entry: int) -> None:
        """Block until the batch of an entry is delivered; the calling thread runs it."""
        with self.gate.lock:
            self.job.wait(entry)

    def _receive(self, batch: JobBatch) -> None:
        self._inbox.receive(batch, self._inbox.take)

    def reports(self) -> list[dict[str, Any]]:
        """Reports of each shard on the state it holds and shares."""
        return self.job.reports()

    def where(self) -> str:
        """Where the queries run, as a phrase."""
        return f"in this process, on {self.shards} shards, without Spark"

    def flush(self, feed: Feed) -> None:
        """Read all that file sources have, and block until it is in the answers."""
        with self.gate.open():
            feed.tick()
            list(feed.read_sources())
            self._write_sinks()
        with self.gate.open():
            self.job.drain()
            self.gate.check_alive()

    def _write_sinks(self) -> None:
        """Write changes that wait in sinks.

        Raise an error for those that still cannot be written.
        """
        for error in self._books.delivery.sinks.catch_up():
            raise error

    def start(self) -> None:
        """Do nothing: no thread runs in the background."""

    def stop(self) -> None:
        """Do nothing: no thread runs in the background."""

    def snapshot(self) -> Snapshot:
        """Raise an error: the state is on the shards."""
        raise no_snapshot()

    def close(self, stop_ticker: Callable[[], None]) -> None:
        """Finish pending work, stop the job and close the sinks."""
        if not self.gate.closed:
            self.job.drain()
            self.job.close()
        stop_ticker()
        if not self.gate.closed:
            self._write_sinks()
        self.gate.closed = True
        self._books.delivery.sinks.close()
