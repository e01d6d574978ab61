"""Taking the results of a batch: changelogs, answers, failures, rows kept out, subscribers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.expressions.hidden import Totals
from penstock.session import delivery, progress
from penstock.session.changelog import ChangeBatch, Changelog, concat_batches
from penstock.session.query import Callback
from penstock.session.readers import Readers
from penstock.shards import job, wire
from penstock.shards.changes import block_table, numbers, whose

if TYPE_CHECKING:
    from penstock.session.sharded import ShardedSession


@dataclass(frozen=True, slots=True)
class Leaving:
    """Queries whose drop is entry `entry`: until that is run, changes of them may come."""

    entry: int
    readers: Readers
    places: I64
    listeners: dict[int, tuple[Callback, ...]] = field(default_factory=dict)  # by place

    def concerns(self, readers: Readers, at: int | None) -> bool:
        """Whether a reader (or any) waits for its last changes."""
        return self.readers is readers and (at is None or at in self.places)

    @property
    def qids(self) -> I64:
        """Their numbers."""
        return self.readers.qids[self.places]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return self.readers.names.at(self.places)

    def tell(self, batch: int) -> list[BaseException]:
        """The changes of a batch to those who listen to one of the queries; what they raised."""
        errors: list[BaseException] = []
        for at, callbacks in self.listeners.items():
            name, qid = self.readers.names[at], int(self.readers.qids[at])
            table = delivery.of_batch(self.readers.log, qid, name, batch)
            for callback in callbacks:
                errors += delivery.call(callback, table, name)
        return errors


def receive(session: ShardedSession, batch: job.JobBatch) -> None:
    """Take a batch."""
    touched = _take_changes(session, batch)
    failures: dict[tuple[int, int], str] = {}
    for result in batch.results:
        if result.kind == "read":
            request, data = wire.loads(result.data)
            if request in session._questions:
                session._questions[request].take(data)
        elif result.kind == "failure":
            qid, reason = wire.loads(result.data)
            failures.setdefault((result.template, qid), reason)
    _count_hidden(session, batch)
    progress.note_batch(session, batch, sum(rows for _, rows in touched))
    leaving = list(session._leaving)  # not who leaves because of what is delivered
    errors = delivery.deliver(session, batch.number, {key for key, _ in touched})
    for gone in leaving:
        errors += gone.tell(batch.number)
    session._engine.collect_strings()
    _let_go(session, batch.entry)
    for (template, qid), reason in sorted(failures.items()):
        session._fail(template, qid, reason)
    if errors:  # must not stop the job, nor this batch
        earlier = [session._complaint] if session._complaint is not None else []
        session._complaint = delivery.gravest(earlier + errors)


def _count_hidden(session: ShardedSession, batch: job.JobBatch) -> None:
    """What ON ERROR has hidden on the shards."""
    for result in batch.results:
        if result.kind == "hidden":
            shard, found = wire.loads(result.data)
            for key, totals in found.items():
                if key in session._engine.templates:
                    session._engine.templates[key].note_of(shard, Totals(*totals))


def _take_changes(session: ShardedSession, batch: job.JobBatch) -> list[tuple[int, int]]:
    """Changes into the changelogs; the templates that changed, with how many rows."""
    found: dict[int, list[wire.Result]] = {}
    for result in batch.results:
        if result.kind == "changes":
            found.setdefault(result.template, []).append(result)
    leaving = {gone.readers.template: gone.readers.log for gone in session._leaving}
    touched: list[tuple[int, int]] = []
    for template, results in sorted(found.items()):
        log = session._changelogs.get(template) or leaving.get(template)
        if log is not None:
            kept = log.keep(merge_blocks(log, batch.number, results))
            touched.append((template, kept.table.num_rows))
    return touched


def merge_blocks(log: Changelog, number: int, results: list[wire.Result]) -> ChangeBatch:
    """The blocks of a template in a batch, in the order in which they happened.

    That is by time, then by place in the batch: the steps of a batch follow each other in time,
    and in a step a query's changes come from several shards.
    """
    blocks = [(wire.unpack_batch(result.data), result.order) for result in results]
    blocks.sort(key=lambda block: block[1])
    tables = [
        block_table(data, order, number, log.schema.names, log.unit_time) for data, order in blocks
    ]
    owners = [whose(data) for data, _ in blocks]
    parts = zip(tables, owners, strict=True)
    whole = concat_batches([ChangeBatch(number, who, table, sets) for table, (who, sets) in parts])
    times = np.concatenate([numbers(data, "_time") for data, _ in blocks])
    if len(blocks) > 1 and bool(np.any(times[1:] < times[:-1])):
        order = np.argsort(times, kind="stable")
        return ChangeBatch(number, whole.who[order], whole.table.take(pa.array(order)), whole.sets)
    return whole


def _let_go(session: ShardedSession, entry: int) -> None:
    """Queries whose drop has been run: their last changes go to their handles."""
    done = [gone for gone in session._leaving if gone.entry <= entry]
    session._leaving = [gone for gone in session._leaving if gone.entry > entry]
    for gone in done:
        gone.readers.leave(gone.places)
        session._control.release(gone.readers.template, gone.qids)
    delivery.let_listeners_go(session)
