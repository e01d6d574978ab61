"""The runner of one process: the engine lives in this process, and flush() reads files."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.errors import DataError
from penstock.queries.registry import QueryInfo, TemplateInfo
from penstock.session import reading, snapshot
from penstock.session.books import Books
from penstock.session.calls import PlainCalls
from penstock.session.changelog import ChangeBatch
from penstock.session.directory import SessionDirectory
from penstock.session.file_sinks import FileSinks
from penstock.session.file_sources import FileSources
from penstock.session.gate import Gate
from penstock.session.readers import Readers
from penstock.session.runners.engine_steps import EngineSteps
from penstock.session.vault import Vault

if TYPE_CHECKING:
    from penstock.session.feed import Feed


class HeldAnswers:
    """Reads answers from the engine of this process."""

    def __init__(self, books: Books, gate: Gate) -> None:
        self._books, self._gate = books, gate

    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer of a query at its clock."""
        with self._gate.lock:
            reading.check_runs(self._books.queries.registry, info)
            template = self._books.queries.template(info)
            return reading.held(self._books.engine, template, np.array([info.qid])).table

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """Read the answers of queries as they are now; returns a function that gives them."""
        tables = [self.rows(info) for info in found]
        return lambda: tables

    def all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of queries of a template at its clock."""
        engine = self._books.engine
        with self._gate.lock:
            there = template.key in engine.templates  # another thread may have dropped all of them
            return [reading.held(engine, template, qids)] if there else []

    def forget(self) -> None:
        """Do nothing: only the engine keeps answers."""

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Do nothing: the last changes are there when a drop returns."""


class OneProcess:
    """Runs queries in an engine of this process."""

    shards = 1
    deployed = None
    is_dead = False

    def __init__(self, books: Books, checkpoint: SessionDirectory | None = None) -> None:
        self.gate = Gate()
        self.calls = PlainCalls()
        self.vault = Vault(checkpoint.path if checkpoint else None)
        self.sources = FileSources(books.catalog, self.vault)
        self.steps = EngineSteps(books, self.sources.why_paused)
        self.answers = HeldAnswers(books, self.gate)
        self.sinks = FileSinks(self.vault, checkpoint.id if checkpoint else uuid.uuid4().hex)
        self._books = books
        self._checkpoint = checkpoint

    def reports(self) -> None:
        """None: there are no shards."""

    def where(self) -> str:
        """Where the queries run, as a phrase."""
        return "in this process, on one core, without Spark"

    def flush(self, feed: Feed) -> None:
        """Read all that file sources have, and write the checkpoint."""
        with self.gate.open():
            feed.tick()
            list(feed.read_sources())
            self._save()

    def start(self) -> None:
        """Do nothing: no thread runs in the background."""

    def stop(self) -> None:
        """Do nothing: no thread runs in the background."""

    def snapshot(self) -> snapshot.Snapshot:
        """The whole session as one value."""
        with self.gate.lock:
            return snapshot.take(self._books)

    def _save(self) -> None:
        path = self._checkpoint.path if self._checkpoint is not None else None
        snapshot.settle(self._books, path)

    def close(self, stop_ticker: Callable[[], None]) -> None:
        """Write the checkpoint, and close the sinks."""
        stop_ticker()
        try:
            if not self.gate.closed:
                self._save()
        except DataError:  # the error of a sink
            if self._checkpoint is None:
                raise  # the sinks are still open and may be able to write now
        self.gate.closed = True
        try:
            self._books.delivery.sinks.close()
        finally:
            if self._checkpoint is not None:
                self._checkpoint.close()
