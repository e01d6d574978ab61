"""Runner: runs the queries of a session in one process, on shards or on Spark.

A runner takes blocks in the order of the calls and passes their changes to the session's delivery:
in one process before the call returns, on shards batch by batch.
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
        """Check a stream before it is declared; raise an error if its source cannot be read."""

    def check(self, statement: st.Statement) -> None:
        """Raise an error, before it runs, for a statement that the sources do not allow."""

    def executed(self, statement: st.Statement) -> None:
        """Adapt to a statement that has run."""

    def pause(self, stream: str, paused: bool) -> None:
        """Pause or resume a source because the user asks for it."""

    def why_paused(self, stream: str) -> str:
        """Why the source of a stream is not read; empty if it is read."""

    def has_rows(self, stream: str) -> bool:
        """Whether a stream may have brought rows."""

    def unseen(self, stream: str) -> int | None:
        """The log entry that must have run before this process knows the stream's time."""

    def check_push(self, stream: StreamDef) -> None:
        """Raise an error if rows may not be pushed to a stream because it has another source."""

    def add_frame(
        self, name: str, frame: Any, clauses: dict[str, Any], sql: Callable[[str], Any]
    ) -> None:
        """Declare a stream that reads a streaming DataFrame."""


class Answers(Protocol):
    """Reads answers of queries."""

    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer of a query at its clock."""

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """Read the answers of queries in one step; returns a function that gives them."""

    def all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of queries of a template at its clock."""

    def forget(self) -> None:
        """Drop kept answers of queries that are in no book any more."""

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Block until the last changes of dropped queries have arrived."""


class SinkOpener(Protocol):
    """Opens sinks."""

    def open(self, create: st.CreateSink, again: bool = False) -> Sink:
        """Open a sink for the changes of a query.

        With `again`, continue after what it has written.
        """

    def remove(self, name: str) -> None:
        """Forget a dropped sink; a later sink with its name is new."""

    def foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        """Call a function with a DataFrame of the changes of every batch."""


class Steps(Protocol):
    """Brings blocks, rows and queries to the engine that processes them."""

    def apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        """Run a step; with `defer`, its changes are delivered by `publish`."""

    def bring(self, stream: StreamDef, admitted: Admitted) -> None:
        """Count admitted rows and add them to the stream."""

    def beat(self, blocks: list[b.Block]) -> None:
        """Apply the heartbeats of the wall clock."""

    # ---- queries ---------------------------------------------------------------------
    def choose_template(
        self, known: TemplateInfo | None, make: Callable[[], TemplateInfo]
    ) -> TemplateInfo:
        """The template to use; `known` is a template that has only failed queries."""

    def enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """The rows of Q of new queries, and which of these rows are new."""

    def leave(self, info: TemplateInfo, qids: I64) -> I64:
        """Remove queries from rows of Q; return the rows that no query uses any more."""

    def publish(self, output: b.Output | None, joining: Chosen) -> None:
        """Deliver a deferred step; queries that join existing rows of Q get the current answer."""

    def retract(self, chosen: Chosen) -> None:
        """Remove queries from the engine; their readers keep their last changes."""


class Runner(Protocol):
    """Runs the queries of a session."""

    gate: Gate
    vault: Vault
    shards: int

    @property
    def deployed(self) -> Deployed | None:
        """Plans on shards; None without shards."""

    @property
    def calls(self) -> Calls:
        """The names and numbers of calls."""

    @property
    def steps(self) -> Steps:
        """Brings blocks, rows and queries to the engine."""

    @property
    def sources(self) -> Sources:
        """The sources of rows."""

    @property
    def answers(self) -> Answers:
        """Reads answers."""

    @property
    def sinks(self) -> SinkOpener:
        """Opens sinks."""

    @property
    def is_dead(self) -> bool:
        """Whether the job that runs the queries has ended with an error."""

    def reports(self) -> list[dict[str, Any]] | None:
        """Reports of each shard on the state it holds and shares; None without shards."""

    def where(self) -> str:
        """Where the queries run, as a phrase."""

    def flush(self, feed: Feed) -> None:
        """Block until all pushed and available input is in the answers."""

    def start(self) -> None:
        """Run batches in the background."""

    def stop(self) -> None:
        """Undo start()."""

    def snapshot(self) -> Snapshot:
        """The whole session as one value."""

    def close(self, stop_ticker: Callable[[], None]) -> None:
        """Finish, stop the wall-clock thread, write the checkpoint, close the sinks."""
