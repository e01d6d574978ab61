"""Taking the results of a batch: changelogs, answers, failures, rows kept out, subscribers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.delta import BEGINNING, I64
from penstock.session import delivery
from penstock.session.changelog import CHANGE_TYPES, Batch, Changelog
from penstock.session.query import Query
from penstock.shards import job, wire

if TYPE_CHECKING:
    from penstock.session.sharded import ShardedSession


@dataclass(frozen=True, slots=True)
class Leaving:
    """A query whose drop is entry `entry`: until that is run, changes of it may come."""

    entry: int
    template: int
    qid: int
    name: str
    handle: Query
    log: Changelog


def receive(session: ShardedSession, batch: job.Batch) -> None:
    """Take a batch."""
    touched = _take_changes(session, batch)
    failures: dict[tuple[int, int], str] = {}
    for result in batch.results:
        if result.kind == "read":
            request, data, _ = wire.loads(result.data)
            if request in session._answers:
                session._answers[request].append(wire.unpack_batch(data))
        elif result.kind == "failure":
            qid, reason = wire.loads(result.data)
            failures.setdefault((result.template, qid), reason)
    session._note_batch(batch, touched)
    delivery.hand_out(session, batch.number, {key for key, _ in touched})
    session._engine.collect_strings()
    _let_go(session, batch.entry)
    for (template, qid), reason in sorted(failures.items()):
        session._fail(template, qid, reason)


def _take_changes(session: ShardedSession, batch: job.Batch) -> list[tuple[int, Any]]:
    """Changes into the changelogs; the templates that changed, with how much."""
    touched: list[tuple[int, Any]] = []
    leaving = {gone.template: gone.log for gone in session._leaving}
    for result in batch.results:
        if result.kind != "changes":
            continue
        log = session._changelogs.get(result.template) or leaving.get(result.template)
        if log is None:
            continue
        data = wire.unpack_batch(result.data)
        log.keep(Batch(batch.number, _numbers(data, "_qid"), as_changes(log, batch, result, data)))
        touched.append((result.template, data))
    return touched


def as_changes(
    log: Changelog, batch: job.Batch, result: wire.Result, data: pa.RecordBatch
) -> pa.Table:
    """A block of changes with the columns of the changelog, but for the query's name."""
    n = data.num_rows
    times = _numbers(data, "_time")
    time: pa.Array = pa.array(times, mask=times == BEGINNING)
    if not log.unit_time:
        time = time.cast(pa.timestamp("us"))
    kind = pa.DictionaryArray.from_arrays(data.column("_kind"), CHANGE_TYPES)
    numbers = (np.int64(result.order) << 32) + np.arange(n)
    meta = [kind, time, pa.array(np.full(n, batch.number)), pa.array(numbers)]
    names = ["_change_type", "_time", "_batch", "_seq", *log.schema.names]
    return pa.Table.from_arrays([*meta, *data.columns[3:]], names=names)


def _numbers(data: pa.RecordBatch, name: str) -> I64:
    return np.asarray(data.column(name).to_numpy(zero_copy_only=False))


def _let_go(session: ShardedSession, entry: int) -> None:
    """Queries whose drop has been run: their last changes go to their handles."""
    done = [gone for gone in session._leaving if gone.entry <= entry]
    session._leaving = [gone for gone in session._leaving if gone.entry > entry]
    for gone in done:
        start = max(gone.handle._read, gone.log.first)
        gone.handle._final = gone.log.read(gone.qid, gone.name, start)
        session._control.release(gone.template, np.array([gone.qid]))
