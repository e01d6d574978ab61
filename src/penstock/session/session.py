"""Session: the public face of Penstock on one in-process shard (DESIGN §4).

Every call that changes something is one step of the engine, taken before the call returns, in
the order the calls are made.
"""

from __future__ import annotations

import threading
import time as wall_clock
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.delta import Emission
from penstock.eddy.eddy import Routing
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.engine.engine import Engine
from penstock.errors import (
    DataError,
    NameError_,
    PenstockError,
    SqlSyntaxError,
    TypeError_,
    UnsupportedError,
)
from penstock.files.sinks import Sink, open_sink
from penstock.inprocess.waiting_sink import WaitingSink
from penstock.logical.on_error import OnError
from penstock.logical.udf import Udf
from penstock.optimizer.stats import Stats
from penstock.queries.registry import Chosen, QueryInfo, Registry, TemplateInfo
from penstock.queries.shared_rows import SharedRows
from penstock.session import (
    delivery,
    dropping,
    explain,
    feed,
    history,
    names,
    once,
    progress,
    reading,
    registration,
    show,
    statements,
)
from penstock.session.changelog import DEFAULT_KEPT_ROWS, ChangeBatch, Changelog
from penstock.session.compile import Compiled, compile_select
from penstock.session.directory import SessionDirectory
from penstock.session.known_texts import KnownTexts
from penstock.session.measure import StreamMeter, measured_stats
from penstock.session.on_error import with_setting
from penstock.session.progress import Listener
from penstock.session.query import Callback, Queries, Query
from penstock.session.readers import Readers
from penstock.session.snapshot import Snapshot, settle, take
from penstock.session.standing import Standing, check_readers
from penstock.session.ticker import Ticker
from penstock.session.values import event_time, parse_type
from penstock.session.vault import Vault
from penstock.session.windows import Lengths, warming
from penstock.shards.messages import Counts
from penstock.sql import statements as st
from penstock.sql.catalog import (
    MemoryCatalog,
    StreamDef,
    ViewDef,
)
from penstock.sql.parser import parse_script, parse_statement
from penstock.state.convert import to_rows


class Session:
    """Streams, tables and standing queries."""

    def __init__(
        self,
        *,
        optimizer_off: frozenset[str] = frozenset(),
        keep_changes: int = DEFAULT_KEPT_ROWS,
        checkpoint: SessionDirectory | None = None,
    ) -> None:
        self._engine = self._new_engine()
        self._catalog = MemoryCatalog()
        self._registry = Registry()
        self._lengths = Lengths(lambda: self._registry)
        self._texts = KnownTexts(self._lengths)
        self._followed: dict[str, ViewDef] = {}  # views whose changes queries follow
        self._changelogs: dict[int, Changelog] = {}
        self._readers: dict[int, Readers] = {}  # by group of queries
        self._read_early: list[Changelog] | None = None  # None: no batch is being delivered
        self._meters: dict[str, StreamMeter] = {}
        self._subscribers: dict[str, list[Callback]] = {}
        self._listeners: list[tuple[Readers, Callback]] = []  # to many queries at once
        self._sinks: dict[str, tuple[st.CreateSink, Sink]] = {}
        self._progress: list[dict[str, Any]] = []
        self._watchers: list[Listener] = []
        self._arrived: dict[str, Counts] = {}  # rows of the step to come
        self._state_bytes = 0  # after the last step that brought rows
        self._off = optimizer_off
        self._keep = keep_changes
        self._checkpoint = checkpoint
        self._vault = Vault(checkpoint.path if checkpoint else None)
        self._id = checkpoint.id if checkpoint else uuid.uuid4().hex
        self._lock = threading.RLock()
        self._ticker = Ticker(self._tick, self._lock)
        self._depth = 0  # of calls within calls
        self._complaint: BaseException | None = (
            None  # of work that no call waited for; the next call raises it
        )
        self._closed = False

    def _new_engine(self) -> Engine:
        """The engine this session speaks to."""
        return Engine()

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Hold the session for one call; a closed one takes none."""
        with self._lock:
            if self._closed:
                raise PenstockError(
                    "the session is closed", code="PS-RUN-003", remedy="connect() again"
                )
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            if self._depth == 0:
                self._raise_complaint()

    def _raise_complaint(self) -> None:
        """Raise once what went wrong while no call waited."""
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint

    @contextmanager
    def _glance(self) -> Iterator[None]:
        """Hold the session to look at what has come, even if no more will."""
        with self._lock:
            yield

    @contextmanager
    def _look(self) -> Iterator[None]:
        """Hold the session to look at it: calls made before have had their effect."""
        with self._glance():
            self._check_alive()
            yield

    def _check_alive(self) -> None:
        """Say what ended the job that runs the queries, if something has."""

    def _is_dead(self) -> bool:
        return False

    # ---- statements ------------------------------------------------------------------
    def sql(self, text: str) -> Any:
        """Run one or more statements; returns the result of the last one.

        A SELECT over views and tables is evaluated once and gives a pyarrow Table.
        """
        result: Any = None
        todo: list[st.Statement] | None = None
        while todo is None or todo:
            with self._open():
                todo = parse_script(text) if todo is None else todo
                while todo and not once.is_once(self, todo[0]):
                    result = self._execute(self._vault.hide(todo.pop(0)))
            if todo:  # it may wait for a batch, which needs the session
                result = once.answer(self, todo.pop(0))
        return result

    def _execute(self, statement: st.Statement) -> Any:
        return statements.execute(self, statement)

    def _declare(self, stream: StreamDef) -> None:
        """Look at a stream before it exists; a runner may refuse its source."""
        feed.check_source(self, stream)

    def _pause_source(self, stream: StreamDef, paused: bool) -> None:
        """The user wants a source to be read or not; in process, flush() looks."""

    def _why_paused(self, stream: str) -> str:
        """Why the source of a stream is not read; empty when it is."""
        return self._meters[stream].source.paused

    def _open_sink(self, create: st.CreateSink, again: bool = False) -> Sink:
        """A sink for the changes of a query; opened again, it goes on with what it has written."""
        options, writer = delivery.own_options(self, create, again), f"{self._id}-{create.name}"
        opened = partial(open_sink, create.format, options, create.name, writer)
        return WaitingSink(opened, later=again)

    def _fed_sinks(self) -> Collection[tuple[st.CreateSink, Sink]]:
        """The sinks that get their changes from this session."""
        return self._sinks.values()

    def _drop_sink(self, name: str) -> None:
        """Deliver nothing more to a sink; one that has its name later is new."""
        delivery.drop_sink(self, name)

    def stream(self, name: str, frame: Any, **clauses: Any) -> None:
        """Make a streaming DataFrame a stream (on Spark)."""
        raise UnsupportedError(
            "streaming DataFrames need the Spark runner",
            code="PS-RUNNER-002",
            remedy="connect() without runner=, or push() the rows",
        )

    # ---- queries ---------------------------------------------------------------------
    def query(self, text: str, history: bool = False, on_error: OnError | None = None) -> Query:
        """Register a standing SELECT and return its handle."""
        with self._open():
            prepared = self._texts.prepare(text, self._standing(), on_error)
            return registration.register(self, prepared, None, text, history)

    def query_many(
        self, text: str, params: Any, history: bool = False, on_error: OnError | None = None
    ) -> Queries:
        """Register one query per row of `params`, whose columns are the $names in the text.

        A column `qid` gives the queries their names.
        """
        with self._open():
            statement = parse_statement(text)
            if not isinstance(statement, st.Select):
                raise SqlSyntaxError(
                    "query_many() takes a SELECT", remedy="use sql() for statements"
                )
            statement = with_setting(statement, on_error)
            compiled = compile_select(statement, self._standing(), self._lengths)
            table = registration.params_table(params)
            rows, names = registration.param_rows(self, compiled, table)
            wants = history or statement.history
            return registration.add_queries(
                self, compiled, statement.emission, wants, rows, names, text
            )

    def _standing(self) -> Standing:
        """What names mean to a query that is registered now."""
        return Standing(self, self._note(dict))

    def _note(self, make: Callable[[], Any]) -> Any:
        """What `make` gives; a call that is repeated after a restart gets what it got."""
        return make()

    def _has_rows(self, stream: str) -> bool:
        """Whether a stream may have brought rows."""
        return self._meters[stream].accepted > 0

    def _unseen(self, stream: str) -> int | None:
        """The entry until whose batch is run the time of a stream is not known here."""
        return None

    @property
    def _is_repeating(self) -> bool:
        """Whether a call of a former process is repeated, which was judged then."""
        return False

    def _stats(self) -> Stats:
        return measured_stats(self._meters, self._engine)

    def _new_template(
        self, known: TemplateInfo | None, compiled: Compiled, emission: Emission
    ) -> TemplateInfo:
        """A template for the engine; `known` is one whose queries have all failed."""
        return known or registration.new_template(self, compiled, emission)

    def __getitem__(self, name: str) -> Query:
        info = self._query_info(name)
        return Query(self, self._readers[info.group.number], info.at)

    def _query_info(self, name: str) -> QueryInfo:
        info = self._registry.find(name)
        if info is None:
            raise NameError_(f"there is no query {name}", remedy="SHOW QUERIES lists them")
        return info

    # ---- reading ---------------------------------------------------------------------
    def _running(self, name: str) -> tuple[QueryInfo, TemplateInfo]:
        info = self._query_info(name)
        reading.check_runs(self, info)
        return info, self._registry.templates[info.template]

    def _view(self, name: str) -> pa.Table:
        with self._look():
            info = self._readable(name)
            said = history.note(self, info)
        return history.labelled(self._read_rows(info), said)

    def _read_rows(self, info: QueryInfo) -> pa.Table:
        """The answer of a query at its clock."""
        with self._lock:
            reading.check_runs(self, info)
            template = self._registry.templates[info.template]
            return reading.held(self._engine, template, np.array([info.qid])).table

    def _read_at_once(self, views: list[str]) -> Callable[[], list[pa.Table]]:
        """What gives the answers of queries as they are now, in one step."""
        found = [self._readable(name) for name in views]
        tables = [self._read_rows(info) for info in found]
        return lambda: tables

    def _readable(self, name: str) -> QueryInfo:
        """A query whose answer can be read."""
        info, template = self._running(name)
        reading.check_keeps(template, name)
        return info

    def _view_all(self, readers: Readers) -> pa.Table:
        return reading.view_all(self, readers)

    def _read_all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of queries of a template at its clock."""
        with self._lock:
            there = template.key in self._engine.templates  # another thread may have dropped all
            return [reading.held(self._engine, template, qids)] if there else []

    def _changes(self, readers: Readers, at: int | None = None) -> pa.Table:
        """What one of the readers, or all, have not read yet; after that, why no more comes."""
        with self._glance():
            table = readers.take_all() if at is None else readers.take(at)
            delivery.let_go(self, readers.log)
            if not table.num_rows:
                places = np.arange(len(readers)) if at is None else np.array([at])
                reading.check_any_runs(self, readers.group, places)
                self._check_alive()
            return table

    def _status(self, name: str) -> str:
        with self._glance():
            info = self._query_info(name)
            if info.failure is not None or self._is_dead():
                return "failed"
            return "warming" if warming(self, info.group, np.array([info.at]))[0] else "running"

    def _subscribe(self, name: str, callback: Callback) -> None:
        with self._look():
            self._query_info(name)
            self._subscribers.setdefault(name, []).append(callback)

    def _subscribe_all(self, readers: Readers, callback: Callback) -> None:
        with self._look():
            if not readers.running().shape[0]:
                raise NameError_("all these queries were dropped", code="PS-NAME-010")
            self._listeners.append((readers, callback))

    def _foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        raise UnsupportedError(
            "DataFrames of changes need the Spark runner",
            code="PS-RUNNER-002",
            remedy="subscribe() gives the changes of every commit as a pyarrow Table",
        )

    def _drop_queries(self, places: list[tuple[int, I64]]) -> None:
        """Drop queries of one template, by group and place, in one step."""
        with self._open():
            chosen = [(self._registry.groups[number], some) for number, some in places]
            dropping.check_sinks(self, chosen)
            check_readers(self, chosen)
            for group, some in chosen:
                group.dropped[some] = True
            running = [(group, group.running(some)) for group, some in chosen]
            running = [(group, some) for group, some in running if some.shape[0]]
            try:
                if running:
                    self._retract(running)
            finally:  # whatever a subscriber raised
                self._forget(chosen)

    def _forget(self, chosen: Chosen) -> None:
        """Take queries that the engine no longer has out of all books."""
        dropping.forget(self, chosen)

    def _retract(self, chosen: Chosen) -> None:
        """Take queries out of the engine; their readers keep their last changes."""
        dropping.retract(self, chosen)

    def _explain_query(self, name: str) -> str:
        with self._look():
            return explain.explain_query(self, self._query_info(name))

    # ---- input -----------------------------------------------------------------------
    def push(self, stream: str, rows: Any) -> None:
        """Bring rows to a stream: a pyarrow Table or RecordBatch, a DataFrame, or dicts."""
        with self._open():
            feed.take_in(self, names.find_stream(self, stream), [rows])

    def _bring(self, stream: StreamDef, admitted: Admitted) -> None:
        """Count admitted rows and hand them to the engine."""
        matrix = to_rows(admitted.accepted, stream.schema, self._engine.strings)
        self._meters[stream.name].count(admitted, matrix, feed.now_us())
        self._arrived[stream.name] = progress.counted(admitted, matrix.shape[1])
        self._apply([b.Rows(stream.name, matrix, admitted.ts, admitted.watermark)])

    def advance(self, stream: str | None = None, ts: Any = None) -> None:
        """Heartbeat: the event time of a stream (or of all) has reached `ts`."""
        with self._open():
            if stream is not None and not isinstance(stream, str) and ts is None:
                stream, ts = None, stream
            known = list(self._meters) if stream is None else [stream]
            streams = [names.find_stream(self, name) for name in known]
            blocks: list[b.Block] = [b.Heartbeat(s.name, event_time(ts, s)) for s in streams]
            self._apply(blocks)

    def flush(self) -> None:
        """Read all that file sources have, and return when it is in the answers."""
        with self._open():
            feed.tick(self)
            list(feed.read_sources(self))
            self._save()

    def snapshot(self) -> Snapshot:
        """The whole session as one value, for connect(snapshot=…)."""
        with self._lock:
            return take(self)

    def _save(self) -> None:
        settle(self, self._checkpoint.path if self._checkpoint is not None else None)

    def register_udf(
        self,
        name: str,
        function: Any,
        arguments: list[str],
        result: str,
        timeout_s: float = 60.0,
    ) -> None:
        """Make a Python function over Arrow arrays callable in SQL.

        A call that raises, or does not return within `timeout_s`, fails the queries that made it.
        """
        with self._open():
            if not callable(function) or not isinstance(name, str):
                raise TypeError_(
                    f"register_udf() cannot register {function!r} as {name!r}",
                    code="PS-TYPE-014",
                    remedy="give a name and a function over Arrow arrays",
                )
            types = tuple(map(parse_type, arguments))
            udf = Udf(name.lower(), function, types, parse_type(result), timeout_s)
            self._catalog.add(udf)
            self._apply([b.AddUdf(udf)])

    def late(self, stream: str) -> pa.Table:
        """Rows that came too late, with the watermark they missed."""
        with self._look():
            return self._meters[names.find_stream(self, stream).name].late()

    def quarantine(self, stream: str) -> pa.Table:
        """Rows that were kept out, with the reason."""
        with self._look():
            return self._meters[names.find_stream(self, stream).name].quarantine()

    # ---- steps -----------------------------------------------------------------------
    def _apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        started = wall_clock.perf_counter()
        output = self._engine.apply(blocks)
        record = progress.note_step(self, output, wall_clock.perf_counter() - started)
        try:
            if not defer:
                self._publish(output)
        finally:
            self._tell_progress(record)
        return output

    def _tell_progress(self, record: dict[str, Any]) -> None:
        if (said := progress.tell(self._watchers, record)) is not None:
            raise said

    def _beat(self, blocks: list[b.Block]) -> None:
        """Heartbeats that the wall clock asks for."""
        self._apply(blocks)

    def _enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """The rows of Q that new queries have, and the places at which a new one begins."""
        since = 0 if history else self._engine.epoch + 1
        if registration.is_unshared(info, history):
            since = -1 - self._engine.batch  # no other call has
        return self._rows_of(info).enter(rows, since)

    def _leave(self, info: TemplateInfo, qids: I64) -> I64:
        """Queries go, by their rows of Q; the rows that nobody is left to ask for."""
        return self._rows_of(info).leave(qids)

    def _rows_of(self, info: TemplateInfo) -> SharedRows:
        scope = self._engine.arena.scope(f"rows/{info.key}")
        return SharedRows(scope, len(info.params))

    def _publish(self, output: b.Output) -> None:
        delivery.publish(self, output)

    # ---- operations ------------------------------------------------------------------
    def _route(self, routing: Routing) -> None:
        """How rows of flows made from here on find their way."""
        if self._engine.flows.routing != routing:
            self._apply([b.SetRouting(routing)])

    def stats(self) -> dict[str, Any]:
        """Rows and bytes per stream and operator, clocks, and counts of rows kept out."""
        with self._open():
            return show.stats(self)

    def progress(self) -> list[dict[str, Any]]:
        """One record per batch, newest last (the last thousand); also of a job that is dead."""
        with self._glance():
            return list(self._progress)

    def on_progress(self, callback: Listener) -> None:
        """Call a function with the record of every batch from now on; json.dumps takes it."""
        with self._open(), self._look():
            self._watchers.append(callback)

    def start(self) -> None:
        """Let wall-clock rules (TICK, IDLE AFTER) work in the background."""
        with self._open():
            self._ticker.start()

    def _tick(self) -> None:
        try:
            feed.tick(self)
        except PenstockError as error:  # of a subscriber, say: time goes on
            self._complaint = self._complaint or error

    def stop(self) -> None:
        """End what start() began."""
        self._ticker.stop()

    def close(self) -> None:
        """Stop, write the checkpoint, and close the sinks."""
        self.stop()
        try:
            if not self._closed:
                self._save()
        except DataError:  # of a sink
            if self._checkpoint is None:
                raise  # still open: what waits can be written yet
        self._closed = True
        try:
            delivery.close_sinks(self)
        finally:
            if self._checkpoint is not None:
                self._checkpoint.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
