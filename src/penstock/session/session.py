"""Session: the public face of Penstock on one in-process shard (DESIGN §4).

Every call that changes something is one step of the engine, taken before the call returns, in
the order the calls are made.
"""

from __future__ import annotations

import threading
import time as wall_clock
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.delta import BEGINNING, I64
from penstock.engine import blocks as b
from penstock.engine.admission import admit
from penstock.engine.engine import Engine
from penstock.errors import (
    DataError,
    HistoryError,
    NameError_,
    PenstockError,
    QueryFailed,
    SqlSyntaxError,
    UnsupportedError,
)
from penstock.inprocess.sinks import Sink, open_sink
from penstock.inprocess.sources import open_source
from penstock.logical.nodes import Scan, TableScan, walk
from penstock.logical.udf import Udf
from penstock.optimizer.emit import choose_emits
from penstock.optimizer.stats import Stats
from penstock.schema import Schema
from penstock.session import compile as compiling
from penstock.session import explain as explaining
from penstock.session import show, tables
from penstock.session.changelog import DEFAULT_KEPT_ROWS, Changelog, change_schema, label
from penstock.session.compile import Compiled, compile_select
from penstock.session.measure import StreamMeter, measured_stats
from penstock.session.query import Callback, Query
from penstock.session.snapshot import Snapshot, save, take
from penstock.session.values import literal_rows, parse_type
from penstock.sharing.registry import QueryInfo, Registry, RowKey, TemplateInfo
from penstock.sql import statements as st
from penstock.sql.catalog import (
    MemoryCatalog,
    StreamDef,
    TableDef,
    ViewDef,
    stream_def,
    table_def,
)
from penstock.sql.parser import parse_script, parse_statement
from penstock.state.convert import to_arrow, to_rows

_DAY_US = 86_400_000_000
_BATCH_ROWS = 50_000


class Session:
    """Streams, tables and standing queries."""

    def __init__(
        self,
        *,
        optimizer_off: frozenset[str] = frozenset(),
        keep_changes: int = DEFAULT_KEPT_ROWS,
        checkpoint: Path | None = None,
    ) -> None:
        self._engine = Engine()
        self._catalog = MemoryCatalog()
        self._registry = Registry()
        self._changelogs: dict[int, Changelog] = {}
        self._handles: dict[str, Query] = {}
        self._meters: dict[str, StreamMeter] = {}
        self._subscribers: dict[str, list[Callback]] = {}
        self._sinks: dict[str, tuple[st.CreateSink, Sink]] = {}
        self._inputs: dict[str, int] = {}  # rows read of each file source
        self._progress: list[dict[str, Any]] = []
        self._off = optimizer_off
        self._keep = keep_changes
        self._checkpoint = checkpoint
        self._lock = threading.RLock()
        self._ticker: threading.Thread | None = None
        self._stopping = threading.Event()
        self._closed = False

    # ---- statements ------------------------------------------------------------------
    def sql(self, text: str) -> Any:
        """Run one or more statements; returns the result of the last one."""
        result: Any = None
        with self._lock:
            for statement in parse_script(text):
                result = self._execute(statement)
        return result

    def _execute(self, statement: st.Statement) -> Any:
        method = getattr(self, f"_do_{type(statement).__name__.lower()}")
        return method(statement)

    def _exists(self, name: str, if_not_exists: bool) -> bool:
        if self._catalog.relation(name) is None and name not in self._registry.queries:
            return False
        if if_not_exists:
            return True
        raise NameError_(
            f"{name} already exists",
            code="PS-NAME-002",
            remedy="choose another name, drop it first, or write IF NOT EXISTS",
        )

    def _do_createstream(self, statement: st.CreateStream) -> None:
        if not self._exists(statement.name, statement.if_not_exists):
            self._add_stream(stream_def(statement))

    def _add_stream(self, stream: StreamDef) -> None:
        self._catalog.add(stream)
        self._meters[stream.name] = StreamMeter(stream)
        self._apply([b.AddStream(stream.name, stream.schema, stream.retain or 0)])

    def _do_createtable(self, statement: st.CreateTable) -> None:
        if not self._exists(statement.name, statement.if_not_exists):
            self._catalog.add(table_def(statement))
            self._apply([b.AddTable(statement.name, statement.schema)])

    def _table(self, name: str) -> TableDef:
        found = self._catalog.relation(name)
        if not isinstance(found, TableDef):
            raise NameError_(f"no table called {name}", remedy="SHOW TABLES lists them")
        return found

    def _stream(self, name: str) -> StreamDef:
        found = self._catalog.relation(name)
        if not isinstance(found, StreamDef):
            raise NameError_(f"no stream called {name}", remedy="SHOW STREAMS lists them")
        return found

    def _do_insert(self, statement: st.Insert) -> None:
        self._apply([tables.insert(statement, self._table(statement.table), self._engine)])

    def _do_update(self, statement: st.Update) -> None:
        table = self._table(statement.table)
        self._apply([tables.update(statement, table, self._catalog, self._engine)])

    def _do_delete(self, statement: st.Delete) -> None:
        table = self._table(statement.table)
        self._apply([tables.delete(statement, table, self._catalog, self._engine)])

    def _do_createview(self, statement: st.CreateView) -> Query:
        if self._exists(statement.name, statement.if_not_exists):
            return self[statement.name]
        select = statement.select
        query, compiled = self._register(select, select.history, statement.name, statement.source)
        self._catalog.add(ViewDef(statement.name, compiled.bound.node))
        return query

    def _do_select(self, statement: st.Select) -> Query:
        return self._register(statement, statement.history, None, statement.source)[0]

    def _do_createsink(self, statement: st.CreateSink) -> None:
        if statement.name in self._sinks:
            if statement.if_not_exists:
                return
            raise NameError_(f"there is already a sink called {statement.name}")
        self._query_info(statement.view)
        sink = open_sink(statement.format, dict(statement.options), statement.name)
        self._sinks[statement.name] = (statement, sink)

    def _do_drop(self, statement: st.Drop) -> None:
        name = statement.name
        if statement.kind == "SINK":
            if name in self._sinks:
                self._sinks.pop(name)[1].close()
                return
        elif statement.kind == "VIEW":
            if name in self._registry.queries:
                self._drop_query(name)
                return
        elif self._drop_relation(name, statement.kind):
            return
        if not statement.if_exists:
            raise NameError_(f"no {statement.kind.lower()} called {name}")

    def _drop_relation(self, name: str, kind: str) -> bool:
        found = self._catalog.relation(name)
        wanted = StreamDef if kind == "STREAM" else TableDef
        if not isinstance(found, wanted):
            return False
        readers = [
            q.name
            for t in self._registry.templates.values()
            if found.name in _reads(t)
            for q in self._registry.of_template(t.key)
        ]
        if readers:
            raise NameError_(
                f"{name} is read by {readers[0]}" + (" and others" if len(readers) > 1 else ""),
                code="PS-NAME-003",
                remedy="drop the queries that read it first",
            )
        del self._catalog.relations[name.lower()]
        self._meters.pop(found.name, None)
        self._apply([b.Drop(found.name)])
        return True

    def _do_show(self, statement: st.Show) -> pa.Table:
        return show.show(statement.what, self)

    def _do_describe(self, statement: st.Describe) -> pa.Table:
        return show.describe(statement.name, self)

    def _do_explain(self, statement: st.Explain) -> str:
        if isinstance(statement.target, str):
            return self._explain_query(statement.target)
        compiled = compile_select(statement.target, self._catalog)
        return explaining.explain_select(self, compiled, statement.target.on_commit)

    # ---- queries ---------------------------------------------------------------------
    def query(self, text: str, history: bool = False) -> Query:
        """Register a standing SELECT and return its handle."""
        with self._lock:
            statement = parse_statement(text)
            if not isinstance(statement, st.Select):
                raise SqlSyntaxError("query() takes a SELECT", remedy="use sql() for statements")
            return self._register(statement, history or statement.history, None, text)[0]

    def query_many(self, text: str, params: Any, history: bool = False) -> list[Query]:
        """Register one query per row of `params`, whose columns are the $names in the text.

        A column `qid` gives the queries their names.
        """
        with self._lock:
            statement = parse_statement(text)
            if not isinstance(statement, st.Select):
                raise SqlSyntaxError("query_many() takes a SELECT")
            compiled = compile_select(statement, self._catalog)
            table = params if isinstance(params, pa.Table) else pa.Table.from_pandas(params)
            rows, names = self._param_rows(compiled, table)
            wants = history or statement.history
            return self._add_queries(compiled, statement, wants, rows, names, text)

    def _param_rows(self, compiled: Compiled, table: pa.Table) -> tuple[I64, list[str]]:
        names = (
            [str(v) for v in table.column("qid").to_pylist()]
            if "qid" in table.column_names
            else [self._registry.fresh_name() for _ in range(table.num_rows)]
        )
        explicit = Schema(compiled.params.fields[: compiled.explicit])
        for field in explicit:
            if field.name not in table.column_names:
                raise DataError(
                    f"no column for parameter ${field.name}",
                    remedy=f"params needs the columns {', '.join(explicit.names)}",
                )
        try:
            chosen = table.select(list(explicit.names)).cast(explicit.arrow())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"parameters of the wrong type: {error}") from error
        batch = chosen.combine_chunks()
        arrays = [c.combine_chunks() for c in batch.columns]
        n = table.num_rows
        rows = np.zeros((1 + len(compiled.params), n), np.int64)
        if len(explicit):
            part = pa.RecordBatch.from_arrays(arrays, schema=explicit.arrow())
            rows[: 1 + len(explicit)] = to_rows(part, explicit, self._engine.strings)
        constants = Schema(compiled.params.fields[compiled.explicit :])
        fixed = literal_rows(compiled.literals, constants, self._engine.strings)
        rows[1 + len(explicit) :] = fixed[1:]
        rows[0] |= fixed[0] << len(explicit)
        return rows, names

    def _register(
        self, select: st.Select, history: bool, name: str | None, text: str
    ) -> tuple[Query, Compiled]:
        compiled = compile_select(select, self._catalog)
        if compiled.explicit:
            raise SqlSyntaxError(
                f"parameter ${compiled.params[0].name} has no value",
                remedy="register it with query_many(text, params)",
            )
        rows = literal_rows(compiled.literals, compiled.params, self._engine.strings)
        names = [name or self._registry.fresh_name()]
        query = self._add_queries(compiled, select, history, rows, names, text)[0]
        return query, compiled

    def _add_queries(
        self, compiled: Compiled, select: st.Select, history: bool, rows: I64, names: list[str],
        text: str,
    ) -> list[Query]:  # fmt: skip
        for name in names:
            if name in self._registry.queries:
                self._exists(name, False)
        if len(set(names)) < len(names):
            raise NameError_("two queries of one name in params", code="PS-NAME-002")
        if history:
            self._check_history(compiled)
        info, blocks = self._template(compiled, select.on_commit)
        since = 0 if history else self._engine.epoch + 1
        words = [tuple(r) for r in rows.T.tolist()]
        keys = [(info.key, since, w) for w in words]
        first: dict[RowKey, int] = {}
        for i, key in enumerate(keys):
            if self._registry.qid_of(key) is None:
                first.setdefault(key, i)
        order = list(first.values())
        if order:
            chosen = np.ascontiguousarray(rows[:, order])
            output = self._apply([*blocks, b.AddQueries(info.key, chosen, history)], defer=True)
            qids = dict(zip((keys[i] for i in order), output.added[0].tolist(), strict=True))
        else:
            output, qids = None, {}
        handles = self._handles_for(info, keys, qids, names, text, history)
        if output is not None:
            self._publish(output)
        return handles

    def _handles_for(
        self, info: TemplateInfo, keys: list[Any], qids: dict[Any, int], names: list[str],
        text: str, history: bool,
    ) -> list[Query]:  # fmt: skip
        clock = self._engine.templates[info.key].clock
        log = self._changelogs[info.key]
        handles = []
        for key, name in zip(keys, names, strict=True):
            known = self._registry.qid_of(key)
            qid = qids[key] if known is None else known
            initial = None
            if known is not None and key not in qids:
                initial = self._initial(info, qid, clock)
            self._registry.add_query(QueryInfo(name, text, info.key, qid, key, clock, history))
            handle = Query(self, name, log.end, initial)
            self._handles[name] = handle
            handles.append(handle)
        return handles

    def _initial(self, info: TemplateInfo, qid: int, clock: int) -> pa.Table | None:
        """What a row of Q that others already use holds, as insertions at the clock."""
        if info.monotonic:
            return None
        rows = self._engine.view(info.key, qid)
        n = rows.shape[1]
        time: pa.Array = pa.array(np.full(n, clock), mask=np.full(n, clock == BEGINNING))
        schema = change_schema(info.template.schema, info.unit_time)
        kind = pa.array(["insert"] * n).dictionary_encode().cast(schema.field(1).type)
        meta = [kind, time.cast(schema.field(2).type), pa.array(np.full(n, self._engine.batch)),
                pa.array(np.arange(n))]  # fmt: skip
        columns = to_arrow(rows, info.template.schema, self._engine.strings)
        return pa.Table.from_arrays([*meta, *columns], names=schema.names[1:])

    def _check_history(self, compiled: Compiled) -> None:
        for stream, need in compiling.history_needs(compiled.template).items():
            source = self._engine.sources[stream]
            enough = need is not None and (source.retain or 0) >= need
            if enough or source.discarded == 0:
                continue
            unit = "" if self._stream(stream).unit_time else " MICROSECONDS"
            raise HistoryError(
                f"stream {stream} does not retain the history this query asks for",
                remedy=f"declare {stream} with RETAIN {need}{unit}"
                if need is not None
                else "register the query before the first row, or use a RANGE window and RETAIN",
            )

    def _template(self, compiled: Compiled, at_commit: bool) -> tuple[TemplateInfo, list[b.Block]]:
        info = self._registry.find_template(compiled.template, at_commit)
        if info is not None:
            return info, []
        info = self._new_template(compiled, at_commit)
        block = b.AddTemplate(info.key, info.plan, info.params, at_commit, info.emits)
        self._registry.add_template(info)
        self._changelogs[info.key] = Changelog(info.plan.schema, info.unit_time, self._keep)
        return info, [block]

    def _new_template(self, compiled: Compiled, at_commit: bool) -> TemplateInfo:
        template, stats = compiled.template, self._stats()
        plan = compiling.optimise(template, stats, self._off)
        return TemplateInfo(
            self._registry.next_template,
            template,
            plan,
            tuple(choose_emits(plan, stats).items()),
            compiled.params,
            at_commit,
            compiling.time_unit(template, self._catalog),
            compiling.is_monotonic(template),
            compiling.longest_window(template),
        )

    def _stats(self) -> Stats:
        return measured_stats(self._meters, self._engine.tables)

    def __getitem__(self, name: str) -> Query:
        self._query_info(name)
        return self._handles[name]

    def _query_info(self, name: str) -> QueryInfo:
        info = self._registry.queries.get(name)
        if info is None:
            raise NameError_(f"no query called {name}", remedy="SHOW QUERIES lists them")
        return info

    # ---- reading ---------------------------------------------------------------------
    def _running(self, name: str) -> tuple[QueryInfo, TemplateInfo]:
        info = self._query_info(name)
        if info.failure is not None:
            raise QueryFailed(
                f"query {name} failed: {info.failure}", remedy="drop it and register it again"
            )
        return info, self._registry.templates[info.template]

    def _view(self, name: str) -> pa.Table:
        with self._lock:
            info, template = self._running(name)
            if template.monotonic:
                raise UnsupportedError(
                    f"query {name} keeps nothing: it has changes but no view",
                    code="PS-PLAN-004",
                    remedy="read changes(), or put a window on its stream",
                )
            rows = self._engine.view(info.template, info.qid)
            schema = template.plan.schema
            columns = to_arrow(rows, schema, self._engine.strings)
            return pa.Table.from_arrays(columns, schema=schema.arrow())

    def _changes(self, query: Query) -> pa.Table:
        with self._lock:
            info = self._query_info(query.name)
            log = self._changelogs[info.template]
            alone = len(self._engine.templates[info.template].queries) == 1 if (
                info.template in self._engine.templates
            ) else False  # fmt: skip
            alone = alone and log.end - query._read <= len(log.batches) and info.failure is None
            table = log.read(info.qid, query.name, query._read, alone)
            if query._initial is not None:
                first = label([query._initial], query.name, table.schema)
                table, query._initial = pa.concat_tables([first, table]), None
            query._read = log.end
            if alone:
                log.forget(min(self._handles[n]._read for n in self._registry.members(
                    info.template, info.qid)))  # fmt: skip
            return table

    def _status(self, name: str) -> str:
        info = self._query_info(name)
        if info.failure is not None:
            return "failed"
        longest = self._registry.templates[info.template].longest
        clock = self._engine.templates[info.template].clock
        if info.history or longest == 0:
            return "running"
        started = info.registered_at
        if longest is None or started == BEGINNING:
            return "running"
        return "warming" if clock < started + longest else "running"

    def _subscribe(self, name: str, callback: Callback) -> None:
        self._query_info(name)
        self._subscribers.setdefault(name, []).append(callback)

    def _drop_query(self, name: str) -> None:
        with self._lock:
            info = self._query_info(name)
            dependants = [c.name for c, _ in self._sinks.values() if c.view == name]
            if dependants:
                raise NameError_(
                    f"{name} feeds the sink {dependants[0]}",
                    code="PS-NAME-003",
                    remedy=f"DROP SINK {dependants[0]} first",
                )
            last = len(self._registry.members(info.template, info.qid)) == 1
            if last and info.failure is None and info.template in self._engine.templates:
                qids = np.array([info.qid])
                self._apply([b.DropQueries(info.template, qids)])
            self._registry.remove_query(name)
            self._subscribers.pop(name, None)
            self._handles.pop(name, None)
            if isinstance(self._catalog.relation(name), ViewDef):
                del self._catalog.relations[name.lower()]
            gone = info.template not in self._engine.templates
            if gone and not self._registry.of_template(info.template):
                self._registry.forget_template(info.template)
                del self._changelogs[info.template]

    def _explain_query(self, name: str) -> str:
        info = self._query_info(name)
        return explaining.explain_query(self, info)

    # ---- input -----------------------------------------------------------------------
    def push(self, stream: str, rows: Any) -> None:
        """Bring rows to a stream: a pyarrow Table or RecordBatch, a DataFrame, or dicts."""
        with self._lock:
            definition = self._stream(stream)
            self._tick()
            meter = self._meters[definition.name]
            source = self._engine.sources[definition.name]
            ahead = definition.max_ahead
            if ahead is None and not definition.unit_time:
                ahead = _DAY_US
            admitted = admit(
                rows, definition.schema, definition.time, definition.delay, ahead,
                source.watermark, _now_us(),
            )  # fmt: skip
            matrix = to_rows(admitted.accepted, definition.schema, self._engine.strings)
            meter.count(admitted, matrix, _now_us())
            self._apply([b.Rows(definition.name, matrix, admitted.ts, admitted.watermark)])

    def advance(self, stream: str | None = None, ts: Any = None) -> None:
        """Heartbeat: the event time of a stream (or of all) has reached `ts`."""
        with self._lock:
            if stream is not None and not isinstance(stream, str) and ts is None:
                stream, ts = None, stream
            names = [self._stream(stream).name] if stream is not None else list(self._meters)
            blocks: list[b.Block] = [
                b.Heartbeat(n, _event_time(ts, self._stream(n))) for n in names
            ]
            self._apply(blocks)

    def flush(self) -> None:
        """Read all that file sources have, and return when it is in the answers."""
        with self._lock:
            self._tick()
            self._read_sources()
            self._save()

    def snapshot(self) -> Snapshot:
        """The whole session as one value, for connect(snapshot=…)."""
        with self._lock:
            return take(self)

    def _save(self) -> None:
        if self._checkpoint is not None:
            save(self, self._checkpoint)

    def _read_sources(self) -> None:
        readers = {}
        for stream in [r for r in self._catalog.relations.values() if isinstance(r, StreamDef)]:
            if stream.format is not None:
                options = dict(stream.options)
                reader = open_source(stream.format, options, stream.schema, _BATCH_ROWS)
                readers[stream.name] = iter(reader)
        skip = {name: self._inputs.get(name, 0) for name in readers}
        while readers:
            for name in list(readers):
                batch = next(readers[name], None)
                if batch is None:
                    del readers[name]
                    continue
                unseen = batch.slice(min(skip[name], batch.num_rows))
                skip[name] -= batch.num_rows - unseen.num_rows
                if unseen.num_rows:
                    self.push(name, unseen)
                    self._inputs[name] = self._inputs.get(name, 0) + unseen.num_rows

    def register_udf(self, name: str, function: Any, arguments: list[str], result: str) -> None:
        """Make a Python function over Arrow arrays callable in SQL."""
        with self._lock:
            udf = Udf(name.lower(), function, tuple(map(parse_type, arguments)), parse_type(result))
            self._catalog.add(udf)
            self._apply([b.AddUdf(udf)])

    def late(self, stream: str) -> pa.Table:
        """Rows that came too late, with the watermark they missed."""
        return self._meters[self._stream(stream).name].late()

    def quarantine(self, stream: str) -> pa.Table:
        """Rows that were kept out, with the reason."""
        return self._meters[self._stream(stream).name].quarantine()

    # ---- steps -----------------------------------------------------------------------
    def _apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        started = wall_clock.perf_counter()
        output = self._engine.apply(blocks)
        self._note_progress(blocks, output, wall_clock.perf_counter() - started)
        if not defer:
            self._publish(output)
        return output

    def _publish(self, output: b.Output) -> None:
        for failure in output.failures:
            for name in self._registry.members(failure.template, failure.qid):
                self._registry.queries[name].failure = failure.reason
        for key, changes in output.changes:
            if len(changes):
                self._changelogs[key].add(output.batch, changes, self._engine.strings)
        self._deliver(output)
        self._engine.collect_strings()

    def _deliver(self, output: b.Output) -> None:
        listening = {*self._subscribers, *(c.view for c, _ in self._sinks.values())}
        if not listening:
            return
        touched = {key for key, changes in output.changes if len(changes)}
        for name in sorted(listening):
            info = self._registry.queries.get(name)
            if info is None or info.template not in touched:
                continue
            log = self._changelogs[info.template]
            fresh = [x for x in log.batches[-len(output.changes) :] if x.number == output.batch]
            start = log.end - len(fresh)
            table = log.read(info.qid, name, start, False)
            if table.num_rows:
                for callback in self._subscribers.get(name, []):
                    callback(table)
                for create, sink in self._sinks.values():
                    if create.view == name:
                        sink.write(table, output.batch)

    def _tick(self) -> None:
        """Let silent streams move: TICK follows the wall clock, IDLE AFTER stops holding back."""
        now = _now_us()
        blocks: list[b.Block] = []
        for name, meter in self._meters.items():
            stream = self._stream(name)
            quiet = now - meter.last_push
            if stream.tick is not None and not stream.unit_time and quiet >= stream.tick:
                blocks.append(b.Heartbeat(name, now - stream.delay))
            if meter.idle(now):
                reached = self._active_watermark(name, now)
                if reached is not None:
                    blocks.append(b.Heartbeat(name, reached))
        if blocks:
            self._apply(blocks)

    def _active_watermark(self, but: str, now: int) -> int | None:
        marks = [
            self._engine.sources[n].watermark
            for n, meter in self._meters.items()
            if n != but and not meter.idle(now)
        ]
        known = [m for m in marks if m != BEGINNING]
        return min(known) if known else None

    def _note_progress(self, blocks: list[b.Block], output: b.Output, seconds: float) -> None:
        rows_in = sum(x.ts.shape[0] for x in blocks if isinstance(x, b.Rows))
        changed = sum(len(c) for _, c in output.changes)
        clocks = {n: s.watermark for n, s in self._engine.sources.items()}
        self._progress.append(
            {
                "batch": output.batch,
                "rows_in": rows_in,
                "changes_out": changed,
                "seconds": seconds,
                "watermarks": {n: w for n, w in clocks.items() if w != BEGINNING},
            }
        )
        del self._progress[:-1000]

    # ---- operations ------------------------------------------------------------------
    def stats(self) -> dict[str, Any]:
        """Rows and bytes per stream and operator, clocks, and counts of rows kept out."""
        with self._lock:
            return show.stats(self)

    def progress(self) -> list[dict[str, Any]]:
        """One record per batch, newest last (the last thousand)."""
        return list(self._progress)

    def start(self) -> None:
        """Let wall-clock rules (TICK, IDLE AFTER) work in the background."""
        if self._ticker is None:
            self._stopping.clear()
            self._ticker = threading.Thread(target=self._run_ticker, daemon=True)
            self._ticker.start()

    def _run_ticker(self) -> None:
        while not self._stopping.wait(0.1):
            with self._lock:
                self._tick()

    def stop(self) -> None:
        """End what start() began."""
        if self._ticker is not None:
            self._stopping.set()
            self._ticker.join()
            self._ticker = None

    def close(self) -> None:
        """Stop, write the checkpoint, and close the sinks."""
        self.stop()
        if not self._closed:
            self._save()
        self._closed = True
        for _, sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reads(info: TemplateInfo) -> set[str]:
    """Streams and tables of a template, as written (the plan may have lost some)."""
    found = set()
    for node in walk(info.template):
        if isinstance(node, Scan):
            found.add(node.stream)
        elif isinstance(node, TableScan):
            found.add(node.table)
    return found


def _now_us() -> int:
    return wall_clock.time_ns() // 1000


def _event_time(ts: Any, stream: StreamDef) -> int:
    """A heartbeat's time in the stream's units."""
    try:
        if stream.unit_time:
            return int(ts)
        if isinstance(ts, int | np.integer):
            return int(ts)
        return int(pa.scalar(ts).cast(pa.timestamp("us")).cast(pa.int64()).as_py())
    except (pa.ArrowInvalid, TypeError, ValueError) as error:
        raise PenstockError(
            f"{ts!r} is not an event time of {stream.name}",
            code="PS-DATA-005",
            remedy="pass an integer for BIGINT time; a datetime, text or µs for TIMESTAMP time",
        ) from error
