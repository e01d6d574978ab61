"""Session: the public face of Penstock (DESIGN §4).

A session has books (catalog, query book, delivery, progress) and a runner. Calls take effect in the
order in which they are made. Every call that changes something has a name, so that a runner with a
log can repeat it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from penstock.engine import blocks as b
from penstock.errors import PenstockError, TypeError_
from penstock.logical.on_error import OnError
from penstock.logical.udf import Udf
from penstock.session import functions, once, params, show
from penstock.session.books import Books
from penstock.session.desk import QueryDesk
from penstock.session.feed import Feed
from penstock.session.front_door import FrontDoor
from penstock.session.outline import Outline
from penstock.session.plans import Plans
from penstock.session.progress import Listener
from penstock.session.query import Queries, Query
from penstock.session.registration import Registrar
from penstock.session.runner import Runner
from penstock.session.settings import configure
from penstock.session.snapshot import Snapshot
from penstock.session.statements import Statements
from penstock.session.ticker import Ticker
from penstock.session.values import event_time, parse_type
from penstock.sql import statements as st


class Session:
    """Streams, tables and standing queries."""

    def __init__(self, books: Books, runner: Runner, rules_off: frozenset[str]) -> None:
        plans = Plans(
            books.engine, books.queries, books.stats, rules_off, runner.deployed, runner.shards
        )
        self._books, self._runner, self._gate = books, runner, runner.gate
        self._feed = Feed(books.engine, books.catalog, runner)
        self._door = FrontDoor(books, runner)
        self._registrar = Registrar(books, runner, rules_off)
        self._desk = QueryDesk(books, runner, plans)
        self._statements = Statements(books, runner, self._door, self._registrar, self._desk, plans)
        self._ticker = Ticker(self._tick, self._gate.lock)
        runner.calls.repeat_with(
            {
                "execute": self._execute,
                "query": self.query,
                "query_many": self.query_many,
                "drop": self._desk.drop,
                "register_udf": self.register_udf,
                "advance": self.advance,
                "configure": partial(configure, books, runner),
            }
        )

    # ---- statements ------------------------------------------------------------------
    def sql(self, text: str) -> Any:
        """Run one or more statements and return the result of the last one.

        A SELECT over views and tables is evaluated once and returns a pyarrow Table.
        """
        result: Any = None
        todo: list[st.Statement] | None = None
        while todo is None or todo:
            with self._gate.open():
                todo = self._door.script(text) if todo is None else todo
                while todo and not once.is_once(self._books.catalog, todo[0]):
                    result = self._execute(self._runner.vault.hide(todo.pop(0)))
            if todo:  # without holding the session: it may wait for a batch
                result = once.answer(self._books, self._runner, todo.pop(0))
        return result

    def _execute(self, statement: st.Statement) -> Any:
        sources = self._runner.sources
        sources.check(statement)
        with self._runner.calls.statement(statement):
            result = self._statements.execute(statement)
        sources.executed(statement)
        return result

    def stream(self, name: str, frame: Any, **clauses: Any) -> None:
        """Declare a stream that reads a streaming DataFrame (on Spark).

        The clauses are `time` and those of CREATE STREAM: ``stream("t", frame, time="ts", delay="5
        seconds")``. After a restart, the same call gives the stream its frame again.
        """
        self._runner.sources.add_frame(name, frame, clauses, self.sql)

    # ---- queries ---------------------------------------------------------------------
    def query(self, text: str, history: bool = False, on_error: OnError | None = None) -> Query:
        """Register a standing SELECT and return its handle."""
        with self._gate.open():
            self._runner.calls.begin("query", text, history, on_error)
            prepared = self._door.text(text, on_error, "query()")
            return Query(self._desk, self._registrar.register(prepared, None, text, history), 0)

    def query_many(
        self, text: str, params: Any, history: bool = False, on_error: OnError | None = None
    ) -> Queries:
        """Register one query per row of `params`; its columns are the $names in the text.

        An optional column `qid` names the queries.
        """
        with self._gate.open():
            return self._query_many(text, params, history, on_error)

    def _query_many(
        self, text: str, given: Any, history: bool, on_error: OnError | None
    ) -> Queries:
        table = params.params_table(given)
        self._runner.calls.begin("query_many", text, table, history, on_error)
        prepared = self._door.text(text, on_error, "query_many()")
        names = params.given_names(table)
        rows = params.param_rows(prepared.compiled, table, self._books.engine.strings)
        names = self._books.queries.fresh_names(table.num_rows) if names is None else names
        return Queries(self._desk, self._registrar.add(prepared, history, rows, names, text))

    def __getitem__(self, name: str) -> Query:
        return self._statements.find(name)

    # ---- input -----------------------------------------------------------------------
    def push(self, stream: str, rows: Any) -> None:
        """Bring rows to a stream: a pyarrow Table or RecordBatch, a DataFrame, or dicts."""
        with self._gate.open():
            found = self._books.catalog.find_stream(stream)
            self._runner.sources.check_push(found)
            self._feed.take_in(found, [rows])

    def advance(self, stream: str | None = None, ts: Any = None) -> None:
        """Declare that the event time of a stream (or of all streams) has reached `ts`."""
        with self._gate.open():
            self._runner.calls.begin("advance", stream, ts)
            if stream is not None and not isinstance(stream, str) and ts is None:
                stream, ts = None, stream
            catalog = self._books.catalog
            known = list(catalog.meters) if stream is None else [stream]
            streams = [catalog.find_stream(name) for name in known]
            blocks: list[b.Block] = [b.Heartbeat(s.name, event_time(ts, s)) for s in streams]
            self._runner.steps.apply(blocks)

    def flush(self) -> None:
        """Block until all pushed and available input is in the answers."""
        self._runner.flush(self._feed)

    def register_udf(
        self,
        name: str,
        function: Any,
        arguments: list[str],
        result: str,
        timeout_s: float = 60.0,
    ) -> None:
        """Make a Python function over Arrow arrays callable in SQL.

        If a call raises or does not return within `timeout_s`, the queries that made it fail. A
        name that is registered again means the new function in queries that come later.
        """
        with self._gate.open():
            self._runner.calls.begin("register_udf", name, function, arguments, result, timeout_s)
            if not callable(function) or not isinstance(name, str):
                raise TypeError_(
                    f"register_udf() cannot register {function!r} as {name!r}",
                    code="PS-TYPE-014",
                    remedy="give a name and a function over Arrow arrays",
                )
            types = tuple(map(parse_type, arguments))
            udf = Udf(name.lower(), function, types, parse_type(result), timeout_s)
            made = functions.register(self._books, self._runner.calls, udf)
            self._runner.steps.apply([b.AddUdf(made)])

    def late(self, stream: str) -> pa.Table:
        """Rows that arrived too late, with the watermark they missed."""
        with self._gate.look():
            return self._books.catalog.meter(stream).late()

    def quarantine(self, stream: str) -> pa.Table:
        """Rejected rows, with the reason."""
        with self._gate.look():
            return self._books.catalog.meter(stream).quarantine()

    # ---- operations ------------------------------------------------------------------
    def stats(self) -> dict[str, Any]:
        """Rows and bytes per stream and operator, clocks, and counts of rejected rows.

        On shards, flows, joins and SteMs are those of the shards.
        """
        with self._gate.look():
            shards = self._runner.reports()
        with self._gate.open():
            found = show.stats(self._books, self._runner.sources.why_paused)
        return found if shards is None else show.with_shards(found, shards)

    def progress(self) -> list[dict[str, Any]]:
        """One record per batch, newest last (at most a thousand).

        Works also after the job has died.
        """
        with self._gate.glance():
            return list(self._books.progress.records)

    def on_progress(self, callback: Listener) -> None:
        """Call a function with the record of every batch from now on.

        Records are JSON-serializable.
        """
        with self._gate.open(), self._gate.look():
            self._books.progress.listeners.append(callback)

    def outline(self) -> Outline:
        """A summary for the command line: streams, names to complete, where queries run."""
        return Outline(self._books, self._runner, self._feed)

    def start(self) -> None:
        """Run wall-clock rules (TICK, IDLE AFTER) and, on Spark, batches in the background."""
        self._runner.start()
        with self._gate.open():
            self._ticker.start()

    def _tick(self) -> None:
        try:
            self._feed.tick()
        except PenstockError as error:  # a failure, say of a subscriber, must not stop the clock
            self._gate.complain(error)

    def stop(self) -> None:
        """Undo start(); on Spark, after the running batch."""
        self._ticker.stop()
        self._runner.stop()

    def snapshot(self) -> Snapshot:
        """The whole session as one value, for connect(snapshot=…)."""
        return self._runner.snapshot()

    def close(self) -> None:
        """Finish pending work, stop, write the checkpoint, and close the sinks."""
        self._runner.close(self._ticker.stop)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
