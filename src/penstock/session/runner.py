"""Runner: where the queries of a session run (one process, shards, Spark), behind one protocol.

A runner takes blocks in the order in which calls are made and hands what they change to
the session's delivery: in one process before the call returns, on shards batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.files.sinks import Sink
from penstock.queries.registry import Chosen, QueryInfo, TemplateInfo
from penstock.session.calls import Calls
from penstock.session.changelog import ChangeBatch
from penstock.session.gate import Gate
from penstock.session.placement import Deployed
from penstock.session.readers import Readers
from penstock.session.vault import Vault
from penstock.sql import statements as st
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.feed import Feed
    from penstock.session.snapshot import Snapshot


class Sources(Protocol):
    """Where the rows of streams come from."""

    def declare(self, stream: StreamDef) -> None:
        """Look at a stream before it exists; its source may be refused."""

    def check(self, statement: st.Statement) -> None:
        """Refuse a statement that the sources do not allow, before it is run."""

    def executed(self, statement: st.Statement) -> None:
        """A statement was run: follow it."""

    def pause(self, stream: str, paused: bool) -> None:
        """The user wants a source to be read or not."""

    def why_paused(self, stream: str) -> str:
        """Why the source of a stream is not read; empty when it is."""

    def has_rows(self, stream: str) -> bool:
        """Whether a stream may have brought rows."""

    def unseen(self, stream: str) -> int | None:
        """The entry until whose batch is run the time of a stream is not known here."""

    def check_push(self, stream: StreamDef) -> None:
        """Refuse rows for a stream that has another source."""

    def add_frame(
        self, name: str, frame: Any, clauses: dict[str, Any], sql: Callable[[str], Any]
    ) -> None:
        """Make a streaming DataFrame a stream."""


class Answers(Protocol):
    """How answers are read."""

    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer of a query at its clock."""

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """What gives the answers of queries as they are now, in one step."""

    def all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of queries of a template at its clock."""

    def forget(self) -> None:
        """Queries were taken out of all books: keep no answer of them."""

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Return when the last changes of dropped queries have come."""


class SinkOpener(Protocol):
    """How sinks are opened."""

    def open(self, create: st.CreateSink, again: bool = False) -> Sink:
        """A sink for the changes of a query; opened again, it goes on with what it has written."""

    def remove(self, name: str) -> None:
        """A sink is dropped; one that has its name later is new."""

    def foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        """Call a function with a DataFrame of the changes of every batch."""


class Steps(Protocol):
    """How blocks, rows and queries reach the engine that processes them."""

    def apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        """Take a step; with `defer`, what it changes is handed on by `publish`."""

    def bring(self, stream: StreamDef, admitted: Admitted) -> None:
        """Count admitted rows and take them in."""

    def beat(self, blocks: list[b.Block]) -> None:
        """Heartbeats that the wall clock asks for."""

    # ---- queries ---------------------------------------------------------------------
    def choose_template(
        self, known: TemplateInfo | None, make: Callable[[], TemplateInfo]
    ) -> TemplateInfo:
        """A template for the engine; `known` is one whose queries have all failed."""

    def enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """The rows of Q that new queries have, and the places at which a new one begins."""

    def leave(self, info: TemplateInfo, qids: I64) -> I64:
        """Queries go, by their rows of Q; the rows that no query is left to ask for."""

    def publish(self, output: b.Output | None, joining: Chosen) -> None:
        """Hand on a deferred step; queries that join rows of Q get what these hold."""

    def retract(self, chosen: Chosen) -> None:
        """Take queries out of the engine; their readers keep their last changes."""


class Runner(Protocol):
    """Runs the queries of a session."""

    gate: Gate
    vault: Vault
    shards: int

    @property
    def deployed(self) -> Deployed | None:
        """Plans on shards; None where there are none."""

    @property
    def calls(self) -> Calls:
        """How calls are named and numbered."""

    @property
    def steps(self) -> Steps:
        """How blocks, rows and queries reach the engine."""

    @property
    def sources(self) -> Sources:
        """Where rows come from."""

    @property
    def answers(self) -> Answers:
        """How answers are read."""

    @property
    def sinks(self) -> SinkOpener:
        """How sinks are opened."""

    @property
    def is_dead(self) -> bool:
        """Whether something has ended the job that runs the queries."""

    def reports(self) -> list[dict[str, Any]] | None:
        """What each shard holds and shares; None where there are no shards."""

    def where(self) -> str:
        """Where the queries run, in words."""

    def flush(self, feed: Feed) -> None:
        """Return when all pushed and available input is in the answers."""

    def start(self) -> None:
        """Run batches in the background."""

    def stop(self) -> None:
        """End what start() began."""

    def snapshot(self) -> Snapshot:
        """The whole session as one value."""

    def close(self, stop_ticker: Callable[[], None]) -> None:
        """Finish, stop the thread of the wall clock, write the checkpoint, close the sinks."""
