"""The Spark session: shards in one Spark job, external sources, served views, restart.

Rows of external streams never pass through here: `pack` admits them on Spark and each batch
says how many there were and how far time has come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.delta import Lineage
from penstock.errors import DataError
from penstock.files.sinks import Sink
from penstock.logical.nodes import Scan, walk
from penstock.queries.registry import Chosen, QueryInfo
from penstock.session import (
    at_exit,
    counting,
    delivery,
    feed,
    history,
    image,
    names,
    reading,
    spark_sources,
)
from penstock.session.asking import Question
from penstock.session.kept_out import KeptOut
from penstock.session.sharded import ShardedSession
from penstock.session.spark_sources import FRAME
from penstock.session.vault import Vault
from penstock.session.view_store import ViewStore
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.shards.intake import Intake
from penstock.shards.job import JobBatch
from penstock.shards.prefilter import (
    MOST_QUERIES,
    Clause,
    Prefilter,
    readers,
    with_constants,
)
from penstock.spark.change_frames import QueryNames
from penstock.spark.checkpoint import check_shards
from penstock.spark.config import build_session, is_running
from penstock.spark.job import SparkJob
from penstock.spark.sinks import FunctionSink, SinkSpec, SparkSinks
from penstock.spark.sources import Source, checked_frame, frame_columns
from penstock.sql import statements as st
from penstock.sql.catalog import StreamDef

_SAVE_EVERY = 500  # entries


class OnSpark(ShardedSession):
    """Streams, tables and standing queries in one Spark job."""

    def __init__(
        self,
        *,
        spark: Any = None,
        master: str | None = None,
        shards: int | None = None,
        checkpoint: Path | None = None,
        spark_options: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if checkpoint is not None and shards is not None:
            check_shards(checkpoint, shards)  # before a JVM is started for nothing
        self._own_spark = spark is None and not is_running()  # another's goes on after close()
        self._spark = build_session(master, spark, spark_options)
        self._frames: dict[str, Source] = {}
        self._functions: list[Sink] = []  # of foreach_batch(); a new process gives them again
        self._retired: list[tuple[int, e.Deploy]] = []
        self._saved = self._received = self._taken = 0
        self._restoring = False
        self._retrying: spark_sources.Retrying | None = None
        count = shards or max(1, int(self._spark.sparkContext.defaultParallelism))
        self._spark_sinks = SparkSinks(self._spark)

        def make(deliver: Any) -> SparkJob:
            return SparkJob(
                self._spark, deliver, shards=count, checkpoint=checkpoint,
                intakes=self._intakes, sinks=self._spark_sinks, wanted=self._wanted,
            )  # fmt: skip

        try:
            super().__init__(make, **options)
            self._spark_job: SparkJob = self._job  # type: ignore[assignment]
            self._take_up(checkpoint is not None)
        except BaseException:
            at_exit.let_go(self)
            raise
        at_exit.remember(self)

    def _take_up(self, durable: bool) -> None:
        """Open what the directory of the job holds."""
        path, name = self._spark_job.path, self._spark_job.id
        self._spark_sinks.checkpoint = name
        self._durable = durable
        self._vault = Vault(path)
        self._kept_out = KeptOut(path)
        self._views = ViewStore(path / "views.duckdb" if durable else None, name)
        if durable:
            self._restore()

    # ---- streams ---------------------------------------------------------------------
    def _is_external(self, stream: str) -> bool:
        found = self._catalog.relation(stream)
        return isinstance(found, StreamDef) and found.format is not None

    def _has_rows(self, stream: str) -> bool:
        """Rows of a batch that runs are not counted yet."""
        return super()._has_rows(stream) or self._unseen(stream) is not None

    def _unseen(self, stream: str) -> int | None:
        return self._number if self._is_external(stream) and self._spark_job.running else None

    def _declare(self, stream: StreamDef) -> None:
        spark_sources.declare(self, stream)

    def _pause_source(self, stream: StreamDef, paused: bool) -> None:
        spark_sources.pause(self, stream.name, paused)

    def _why_paused(self, stream: str) -> str:
        return self._spark_job.sources.paused.get(stream, "")

    def stream(self, name: str, frame: Any, **clauses: Any) -> None:
        """Make a streaming DataFrame a stream; clauses are `time` and those of CREATE STREAM.

        ``stream("t", frame, time="ts", delay="5 seconds")``. After a restart the same call gives
        the stream its frame again.
        """
        self._frames[name] = Source(checked_frame(frame, name))
        known = self._catalog.relation(name)
        if isinstance(known, StreamDef) and known.format == FRAME:
            spark_sources.add(self, name, self._frames[name])
            return
        columns = ", ".join(f'"{c}" {t}' for c, t in frame_columns(frame, name))
        time = clauses.pop("time", None)
        if time is None:
            raise DataError(
                f"stream {name} needs a time column", code="PS-DATA-014", remedy='pass time="ts"'
            )
        rest = " ".join(f"{k.replace('_', ' ').upper()} {v}" for k, v in clauses.items())
        self.sql(f'CREATE STREAM {name} ({columns}) TIMESTAMP BY "{time}" {rest} FROM {FRAME}')

    def push(self, stream: str, rows: Any) -> None:
        """Bring rows to a stream that has no source of its own."""
        found = names.find_stream(self, stream)
        if found.format is not None:
            raise DataError(
                f"stream {stream} reads its rows from {found.format}: push() cannot add any",
                code="PS-DATA-010",
                remedy="declare the stream without FROM to push its rows",
            )
        super().push(stream, rows)

    def _intakes(self, entry: int) -> dict[str, Intake]:
        """How rows of external streams are taken in after an entry."""
        with self._lock:
            deployed = [*self._deployed.values(), *(d for at, d in self._retired if at > entry)]
            return {
                s.name: self._intake(s, deployed)
                for s in self._catalog.relations.values()
                if isinstance(s, StreamDef) and s.format is not None
            }

    def _intake(self, stream: StreamDef, deployed: list[e.Deploy]) -> Intake:
        read: dict[str, set[int]] = {}
        routes = {}
        for deploy in deployed:
            for route in deploy.plan.routes:
                if route.stream == stream.name:
                    routes[route.name] = route
            roots = [deploy.plan.view, *(send.node for send in deploy.plan.sends)]
            for node in (n for root in roots for n in walk(root)):
                if isinstance(node, Scan):
                    read.setdefault(node.stream, set()).update(node.columns)
        ahead = stream.max_ahead
        if ahead is None and not stream.unit_time:
            ahead = feed.DAY_US
        columns = stream.schema.names
        shipped = tuple(
            (route, tuple(columns[c] for c in sorted(read.get(name, ()))))
            for name, route in sorted(routes.items())
        )
        wants = tuple(self._prefilter(deployed, route.name) for route, _ in shipped)
        return Intake(
            stream.schema, stream.time, stream.delay, ahead, bool(stream.retain), shipped, wants
        )

    def _prefilter(self, deployed: list[e.Deploy], route: str) -> Prefilter | None:
        """What the queries behind a route want, where that is worth asking before the shuffle."""
        clauses: list[Clause] = []
        for deploy in deployed:
            template = self._engine.templates.get(deploy.key)
            for clause in readers(deploy, route):
                if clause is None or template is None or self._is_leaving(deploy.key):
                    return None
                live = template.queries.live(Lineage.QUERY)
                each = with_constants(
                    clause, deploy.params, template.queries, live, self._engine.strings
                )
                if each is None:
                    return None
                clauses += each
        return tuple(clauses) if len(clauses) <= MOST_QUERIES else None

    def _is_leaving(self, template: int) -> bool:
        return any(gone.readers.template == template for gone in self._leaving)

    # ---- batches ---------------------------------------------------------------------
    def _take_status(self, batch: JobBatch) -> None:
        """Counts, times and rows kept out of external streams."""
        if batch.number > self._received:  # else they are in the image
            kept_out = [result.data for result in batch.results if result.kind == "kept_out"]
            if self._durable:
                self._kept_out.note(batch.number, kept_out)
            counting.keep_out(self, kept_out, batch.entry)
            self._received = batch.number
        for result in batch.results:
            if result.kind == "status":
                counting.take_counts(self, wire.loads(result.data), batch.entry)

    def _take_batch(self, batch: JobBatch) -> None:
        if batch.number == self._taken:  # and comes again, because its views failed
            self._views.drop()
            return
        self._take_status(batch)
        super()._take_batch(batch)
        self._taken = batch.number
        self._serve(batch)
        history.settle(self, batch.entry)
        self._retired = [(at, d) for at, d in self._retired if at > batch.entry]

    # ---- views -----------------------------------------------------------------------
    def _read_rows(self, info: QueryInfo) -> pa.Table:
        """The answer, after everything that was issued before; kept from now on."""
        with self._open():
            kept = info.name in self._views
        if kept:
            self._wait(self._job.next_entry - 1)
            with self._look():
                reading.check_runs(self, info)
                if info.name in self._views:
                    return self._views.read(info.name)
        return super()._read_rows(info)

    def _wait(self, entry: int) -> None:
        self._job.wait(entry)  # another thread delivers, and holds the session for it

    def _wanted(self) -> set[int] | None:
        """The templates whose changes somebody reads here; None: all may be read later."""
        if self._keep > 0:
            return None
        with self._lock:
            heard = {*self._subscribers, *self._views.names()}
            heard |= {r.names[at] for r, _ in self._listeners for at in r.running()[:1]}
            found = (self._registry.find(name) for name in heard)
            return {info.template for info in found if info is not None}

    def _serve(self, batch: JobBatch) -> None:
        """Keep the views that somebody reads, from the changes of a batch."""
        kept = self._views.names()
        if kept:
            self._views.apply(batch.number, {n: self._batch_changes(n, batch) for n in kept})
        for entry, question in self._questions.items():
            info = question.opening
            if info is None or entry > batch.entry:
                continue
            question.opening = None  # it is the answer of this batch, and of none to come
            if self._can_serve(question, info):
                rows = question.rows()
                self._views.open(info.name, rows.schema, rows, batch.number)

    def _can_serve(self, question: Question, info: QueryInfo) -> bool:
        """Whether to keep a view: the query may have gone, and others may have asked too."""
        there = info.failure is None and not info.group.gone[info.at]
        return there and question.refusal is None and info.name not in self._views

    def _batch_changes(self, name: str, batch: JobBatch) -> pa.Table:
        info = self._query_info(name)
        return delivery.of_batch(self._changelogs[info.template], info.qid, name, batch.number)

    def _forget(self, chosen: Chosen) -> None:
        super()._forget(chosen)
        for name in self._views.names():
            if name not in self._registry:
                self._views.close(name)

    def _retire(self, template: int) -> None:
        gone = self._deployed.get(template)
        if gone is not None:  # rows of batches before this entry still go to it
            self._retired.append((self._number, gone))
        super()._retire(template)

    def _execute(self, statement: st.Statement) -> Any:
        spark_sources.check(self, statement)
        result = super()._execute(statement)
        spark_sources.execute(self, statement)
        return result

    # ---- sinks -----------------------------------------------------------------------
    def _open_sink(self, create: st.CreateSink, again: bool = False) -> Sink:
        """A sink of a query, or (option `whole_template`) of all queries that share its plan."""
        del again  # the directory of a sink tells, when it is opened
        options, whole = delivery.own_options(self, create), delivery.is_whole(create)
        return self._add_sink(create.name, create.view, create.format, options, whole)

    def _fed_sinks(self) -> Collection[tuple[st.CreateSink, Sink]]:
        return ()  # Spark writes them from the frames of its batches

    def _add_sink(
        self, name: str, view: str, form: str | FunctionSink, options: dict[str, str], whole: bool
    ) -> Sink:
        info = self._query_info(view)
        template = self._registry.templates[info.template]
        spec = SinkSpec(
            name, info.name, info.template, None if whole else info.qid, template.plan.schema,
            template.unit_time, form, options, lambda: self._names(info.template),
            template.emission.per_row,
        )  # fmt: skip
        return self._spark_sinks.add(spec, later=self._restoring)

    def _drop_sink(self, name: str) -> None:
        self._spark_sinks.remove(name)
        super()._drop_sink(name)
        self._spark_job.forgive()

    def _names(self, template: int) -> QueryNames:
        with self._lock:
            leaving = [gone for gone in self._leaving if gone.readers.template == template]
            some = [(gone.readers.group, gone.places) for gone in leaving]
            for group in self._registry.of_template(template):
                some.append((group, group.running(group.there())))
            qids = np.concatenate([group.qids[places] for group, places in some])
            names = [group.names.arrow().take(pa.array(places)) for group, places in some]
            return QueryNames.of(qids, pa.concat_arrays(names))

    def _foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        with self._open(), self._look():
            label = f"{name}, function {len(self._functions) + 1}"
            sink = self._add_sink(label, name, FunctionSink(function), {}, whole)
            self._functions.append(sink)

    # ---- operations ------------------------------------------------------------------
    def flush(self) -> None:
        """Return when all pushed and available input is in the answers."""
        with self._open(), self._look():
            feed.tick(self)
        self._spark_job.sources.retry()
        self._job.drain()
        with self._lock:
            self._raise_complaint()
        if self._job.next_entry - self._saved > _SAVE_EVERY:
            self._save()

    def start(self) -> None:
        """Run batches in the background as input comes; TICK and IDLE AFTER work."""
        self._spark_job.start()
        self._retrying = self._retrying or spark_sources.Retrying(self)
        super().start()

    def stop(self) -> None:
        """Stop after the batch that runs; start() or flush() go on."""
        super().stop()
        if self._retrying is not None:
            self._retrying.end()
            self._retrying = None
        self._spark_job.stop()
        self._save()

    def close(self) -> None:
        """Finish what was begun, stop the job, write the checkpoint, close the sinks."""
        if self._closed:
            return
        with ExitStack() as last:  # whatever fails, the rest is done
            last.callback(at_exit.let_go, self)
            last.callback(self._close_sinks)
            last.callback(self.stop)
            self._spark_job.finish()

    def _close_sinks(self) -> None:
        self._closed = True
        for _, sink in self._sinks.values():
            sink.close()
        self._sinks.clear()

    def _save(self) -> None:
        if self._durable and not self._spark_job.broken:
            with self._lock:
                self._saved = image.save(self, self._spark_job.path)
                self._kept_out.forget(self._received)
            self._spark_job.trim(self._saved + 1)

    def _restore(self) -> None:
        """Take up what a former process left in the checkpoint."""
        job = self._spark_job
        self._restoring = True
        self._saved = image.load(self, job.path, job.first_entry)
        spark_sources.pause_again(self)
        for number, call in job.calls(self._saved + 1):
            if call is not None:
                self._replay(number, call)
        self._restoring = False
        done = job.mark.batch + 1  # batches that are not marked as done come again
        expected = job.kept_out(self._received)
        kept_out = self._kept_out.since(self._received, done, expected)
        counting.keep_out(self, kept_out, job.mark.last)
        self._received = max(self._received, done)
        self._views.forget_stale(done)
        self._pushed = {n: rows for n, rows in self._pushed.items() if n > job.mark.last}
        counting.restore(self, job.mark)
        history.settle(self, job.mark.last)
