"""A session whose queries run on shards: calls become entries of a log, answers come in batches.

The session's own engine is a `ControlEngine`. Every call that changes something is applied to
it and appended to the job's log as one entry; what the shards find comes back by `_receive`, in
the order of the log. A call can be repeated after a restart: what was chosen by measurement
or by number is in its notes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.delta import Emission
from penstock.eddy.eddy import Routing
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.engine.control import ControlEngine
from penstock.engine.engine import Engine
from penstock.errors import UnsupportedError
from penstock.logical.on_error import OnError
from penstock.queries.registry import Chosen, QueryInfo, TemplateInfo
from penstock.session import delivery, feed, inbox, progress, reading, registration
from penstock.session.asking import Question
from penstock.session.changelog import ChangeBatch
from penstock.session.compile import Compiled
from penstock.session.placement import Deployed, place
from penstock.session.portable import portable
from penstock.session.query import Queries, Query
from penstock.session.readers import Readers
from penstock.session.session import Session
from penstock.session.snapshot import Snapshot
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.shards.job import Job, JobBatch
from penstock.shards.messages import Counts
from penstock.sql import statements as st
from penstock.sql.alter import PauseSource
from penstock.sql.catalog import StreamDef
from penstock.state.convert import to_rows

_SAMPLE_ROWS = 2_000


@dataclass(slots=True)
class Call:
    """What repeats a call: a method of the session, its arguments, and what it chose."""

    method: str
    arguments: tuple[Any, ...]
    notes: list[Any] = field(default_factory=list)
    lasting: bool = False  # to be repeated even if it told the shards nothing


class ShardedSession(Session):
    """Streams, tables and standing queries on the shards of a job."""

    def __init__(
        self, make_job: Callable[[Callable[[JobBatch], None]], Job], **options: Any
    ) -> None:
        self._deployed = Deployed()
        self._pending: list[e.EntryBlock] = []
        self._call: Call | None = None
        self._watched = False  # whether somebody is told at once what the call does
        self._replayed: list[Any] | None = None
        self._last_rows = 0  # entry of the last push
        self._leaving: list[inbox.Leaving] = []
        self._questions: dict[int, Question] = {}  # by entry, while a call waits for the answer
        self._repeated = 0  # number of the entry that is being repeated
        self._pushed: dict[int, dict[str, Counts]] = {}  # by entry, until its batch
        super().__init__(**options)
        self._job = make_job(self._receive)

    def _new_engine(self) -> Engine:
        return ControlEngine()

    @property
    def _control(self) -> ControlEngine:
        return cast(ControlEngine, self._engine)

    # ---- calls and entries -----------------------------------------------------------
    @contextmanager
    def _open(self) -> Iterator[None]:
        """Hold the session for a call; what it did becomes an entry when it ends."""
        with super()._open():
            try:
                yield
            finally:
                if self._depth == 1:
                    self._end_call()

    @contextmanager
    def _glance(self) -> Iterator[None]:
        with super()._glance():
            self._job.catch_up()
            yield

    def _check_alive(self) -> None:
        if not self._closed:
            self._job.check()

    def _is_dead(self) -> bool:
        return self._job.dead

    def _wait(self, entry: int) -> None:
        """Return when the batch of an entry is delivered; it is run here, by one thread."""
        with self._lock:
            self._job.wait(entry)

    def _end_call(self) -> None:
        blocks, self._pending = tuple(self._pending), []
        call, self._call = self._call, None
        if self._replayed is None and (blocks or (call is not None and call.lasting)):
            self._job.append(blocks, call)
            if self._watched:
                self._job.catch_up()

    def _begin(self, method: str, *arguments: Any) -> None:
        """Name the call, unless it is part of another; a dead job takes only what may repair it."""
        if not _may_mend(method, arguments):
            self._check_alive()
        if self._call is None:
            self._see_rows()
            self._call = Call(method, arguments)
            told = (self._subscribers, self._listeners, self._watchers, self._sinks)
            self._watched = any(told)

    def _see_rows(self) -> None:
        """What a query registered now does not see."""
        external = any(self._is_external(n) for n in self._meters)
        self._control.see(self._number - 1 if external else self._last_rows)

    def _is_external(self, stream: str) -> bool:
        """Whether rows of a stream come past this session, so that only entries order them."""
        return False

    def _note(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, or gave when the call was made first."""
        if self._replayed is not None:
            return self._replayed.pop(0)
        value = make()
        if self._call is not None:
            self._call.notes.append(value)
        return value

    @property
    def _number(self) -> int:
        """The number of the entry that the present call becomes."""
        return self._repeated or self._job.next_entry

    @property
    def _is_repeating(self) -> bool:
        return self._replayed is not None

    def _replay(self, number: int, call: Call) -> None:
        """Repeat a call of a former process, entry `number`, on this session's own state."""
        self._replayed, self._repeated = list(call.notes), number
        try:
            getattr(self, call.method)(*call.arguments)
        finally:
            self._replayed, self._repeated = None, 0

    def _apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        del defer  # what comes of it comes later
        output = self._engine.apply(blocks)
        self._pending += [p for block in blocks for p in portable(self, block)]
        if self._depth == 0:
            self._end_call()
        return output

    # ---- calls -----------------------------------------------------------------------
    def _execute(self, statement: st.Statement) -> Any:
        self._job.catch_up()  # a sink gets nothing of before
        self._begin("_execute", statement)
        try:
            result = super()._execute(statement)
            if self._call is not None:
                self._call.lasting = isinstance(statement, st.CreateSink | st.Drop | PauseSource)
            return result
        finally:
            self._end_call()

    def query(self, text: str, history: bool = False, on_error: OnError | None = None) -> Query:
        """Register a standing SELECT and return its handle."""
        with self._open():
            self._begin("query", text, history, on_error)
            return super().query(text, history, on_error)

    def query_many(
        self, text: str, params: Any, history: bool = False, on_error: OnError | None = None
    ) -> Queries:
        """Register one query per row of `params`, whose columns are the $names in the text."""
        with self._open():
            table = registration.params_table(params)
            self._begin("query_many", text, table, history, on_error)
            return super().query_many(text, table, history, on_error)

    def _drop_queries(self, places: list[tuple[int, I64]]) -> None:
        with self._open():
            self._begin("_drop_queries", places)
            super()._drop_queries(places)

    def register_udf(
        self, name: str, function: Any, arguments: list[str], result: str, timeout_s: float = 60.0
    ) -> None:
        """Make a Python function over Arrow arrays callable in SQL."""
        with self._open():
            self._begin("register_udf", name, function, arguments, result, timeout_s)
            super().register_udf(name, function, arguments, result, timeout_s)

    def advance(self, stream: str | None = None, ts: Any = None) -> None:
        """Heartbeat: the event time of a stream (or of all) has reached `ts`."""
        with self._open():
            self._begin("advance", stream, ts)
            super().advance(stream, ts)

    def _new_template(
        self, known: TemplateInfo | None, compiled: Compiled, emission: Emission
    ) -> TemplateInfo:
        del known  # a template whose queries failed may still be on its way out
        found = self._note(lambda: registration.new_template(self, compiled, emission))
        info = cast(TemplateInfo, found)
        if info.views:  # refuse what cannot be placed before anything is changed
            block = registration.template_block(info)
            place(block, self._job.shards, self._deployed)
        return info

    def stats(self) -> dict[str, Any]:
        """What the session holds; flows, joins and SteMs are those of the shards."""
        with self._look():
            shards = self._job.reports()
        found = super().stats() | {"shards": shards}
        for what in ("flows", "joins", "stems"):
            found[what] = [
                {"level": shard["level"], "shard": shard["shard"], **one}
                for shard in shards
                for one in shard.pop(what)
            ]
        return found

    def _route(self, routing: Routing) -> None:
        with self._open():
            self._begin("_route", routing)
            super()._route(routing)

    # ---- rows ------------------------------------------------------------------------
    def _bring(self, stream: StreamDef, admitted: Admitted) -> None:
        self._check_alive()
        accepted = admitted.accepted
        sample = to_rows(accepted.slice(0, _SAMPLE_ROWS), stream.schema, self._engine.strings)
        data = wire.stream_batch(accepted, admitted.ts, None)
        ends = np.array([f(admitted.ts) for f in (np.min, np.max)] if len(admitted.ts) else [])
        told = replace(admitted, accepted=accepted.slice(0, 0), ts=ends)
        self._call = Call("_count_push", (stream.name, told, sample, accepted.num_rows))
        self._count_push(stream.name, told, sample, accepted.num_rows)
        self._pending.append(e.Push(stream.name, data, admitted.watermark))
        self._end_call()

    def _count_push(self, stream: str, admitted: Admitted, sample: I64, rows: int) -> None:
        """What remains of a push in this session."""
        self._pushed.setdefault(self._number, {})[stream] = progress.counted(admitted, rows)
        self._meters[stream].count(admitted, sample, feed.now_us(), rows)
        self._last_rows = self._number
        self._control.pass_by(stream, rows, admitted.watermark)

    def _beat(self, blocks: list[b.Block]) -> None:
        self._begin("_beat", blocks)
        super()._beat(blocks)
        self._end_call()

    # ---- reading ---------------------------------------------------------------------
    def _receive(self, batch: JobBatch) -> None:
        """Take the results of a batch."""
        with self._lock:
            begun = time.perf_counter()
            with delivery.keeping(self):
                self._take_batch(batch)
            record = self._progress[-1]
            progress.add_stage(record, "deliver_s", time.perf_counter() - begun)
            said = progress.tell(self._watchers, record)  # must not stop the job
            self._complaint = self._complaint or said

    def _take_batch(self, batch: JobBatch) -> None:
        inbox.receive(self, batch)

    def _read_rows(self, info: QueryInfo) -> pa.Table:
        with self._look():
            reading.check_runs(self, info)
            question = Question(self._registry.templates[info.template], info)
        self._ask(question, np.array([info.qid]))
        with self._look():
            reading.check_runs(self, info)
        question.check()
        return question.rows()

    def _read_at_once(self, views: list[str]) -> Callable[[], list[pa.Table]]:
        """One entry asks for all, so that they are answered at the same clock."""
        found = [self._readable(name) for name in views]
        questions = [Question(self._registry.templates[info.template]) for info in found]
        entry = self._job.next_entry
        requests = [-(entry << 20) - at for at in range(len(found))]
        for request, question, info in zip(requests, questions, found, strict=True):
            self._questions[request] = question
            self._pending.append(e.Read(request, info.template, np.array([info.qid])))

        def read() -> list[pa.Table]:
            try:
                self._wait(entry)
            finally:
                with self._lock:
                    for request in requests:
                        self._questions.pop(request, None)
            for question, info in zip(questions, found, strict=True):
                reading.check_runs(self, info)
                question.check()
            return [question.rows() for question in questions]

        return read if found else list

    def _read_all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        question = Question(template)
        self._ask(question, qids)
        question.check()
        return question.batches()

    def _ask(self, question: Question, qids: I64) -> None:
        """Return when the shards have answered."""
        try:
            self._wait(self._pose(question, qids))
        finally:
            with self._lock:
                self._questions = {n: q for n, q in self._questions.items() if q is not question}

    def _pose(self, question: Question, qids: I64) -> int:
        """Hand a question to the shards; the number of its entry."""
        with self._open():
            self._check_alive()
            entry = self._job.next_entry
            self._questions[entry] = question
            self._pending.append(e.Read(entry, question.template.key, qids))
        return entry

    def _retire(self, template: int) -> None:
        """A template has no queries any more."""
        self._deployed.remove(template)

    def _retract(self, chosen: Chosen) -> None:
        """Drop queries on the shards; their last changes come when they have done it."""
        subscribers = self._subscribers
        for group, places in chosen:
            told = {
                at: tuple(subscribers[group.names[at]])
                for at in (places.tolist() if subscribers else ())
                if group.names[at] in subscribers
            }
            readers = self._readers[group.number]
            self._leaving.append(inbox.Leaving(self._number, readers, places, told))
        qids = np.concatenate([group.qids[places] for group, places in chosen])
        self._apply([b.DropQueries(chosen[0][0].template, qids)])

    def _fail(self, template: int, qid: int, reason: str) -> None:
        """A shard could not go on with a query: all drop it."""
        members = self._registry.members(template, np.array([qid]))
        if not members:
            return  # dropped, or failed on another shard too
        with self._open():
            self._begin("_fail", template, qid, reason)
            self._retract(members)
            self._registry.fail(members, reason)

    def _changes(self, readers: Readers, at: int | None = None) -> pa.Table:
        waiting = [gone.entry for gone in self._leaving if gone.concerns(readers, at)]
        if waiting and not self._is_dead():
            self._wait(max(waiting))
        return super()._changes(readers, at)

    def _enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """Every query has a number of its own; shards find out which are identical.

        They get the numbers they had, when a call is repeated.
        """
        places = np.arange(rows.shape[1])
        template = self._engine.templates.get(info.key)
        vacant = places if template is None else template.queries.vacant(places.shape[0])
        return cast(I64, self._note(lambda: vacant)), places

    def _leave(self, info: TemplateInfo, qids: I64) -> I64:
        return qids

    def snapshot(self) -> Snapshot:
        """Refused: the state is on the shards."""
        raise UnsupportedError(
            "a session on shards cannot write a snapshot: its state is on the shards",
            code="PS-RUNNER-002",
            remedy="connect() on Spark with checkpoint=, or in process without shards=",
        )

    def flush(self) -> None:
        """Return when all pushed and available input is in the answers."""
        super().flush()
        with self._open():
            self._job.drain()
            self._check_alive()

    def close(self) -> None:
        """Finish what was begun, stop the job and close the sinks."""
        if not self._closed:
            self._job.drain()
            self._job.close()
        super().close()


def _may_mend(method: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a dead job takes a call: what drops, pauses or resumes, and what comes by itself."""
    if method == "_execute":
        return isinstance(arguments[0], st.Drop | PauseSource)
    return method in ("_drop_queries", "_beat", "_fail")
