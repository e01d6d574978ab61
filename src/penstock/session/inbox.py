"""Takes the results of a batch: changes, answers, failures, rejected rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.engine.control import ControlEngine
from penstock.expressions.hidden import Totals
from penstock.session.asking import AskedAnswers
from penstock.session.books import Books
from penstock.session.changelog import ChangeBatch, Changelog, concat_batches
from penstock.session.gate import Gate, gravest
from penstock.session.leaving import LeavingQueries
from penstock.session.progress import WhyPaused
from penstock.session.runners.shard_steps import ShardSteps
from penstock.shards import wire
from penstock.shards.changes import block_table, numbers, owners_of
from penstock.shards.job import Job, JobBatch


class Inbox:
    """Enters the results of batches in the books."""

    def __init__(
        self,
        books: Books,
        control: ControlEngine,
        job: Job,
        steps: ShardSteps,
        answers: AskedAnswers,
        leaving: LeavingQueries,
        gate: Gate,
        why_paused: WhyPaused,
    ) -> None:
        self._books, self._control, self._job = books, control, job
        self._steps, self._answers, self._leaving = steps, answers, leaving
        self._gate, self._why_paused = gate, why_paused

    def receive(self, batch: JobBatch, take: Callable[[JobBatch], None]) -> None:
        """Take a batch by the runner's function `take`, and report its progress."""
        with self._gate.lock:
            begun = time.perf_counter()
            with self._books.delivery.keeping():
                take(batch)
            progress = self._books.progress
            record = progress.add_stage("deliver_s", time.perf_counter() - begun)
            if (said := progress.tell(record)) is not None:  # an error must not stop the job
                self._gate.complain(said)

    def take(self, batch: JobBatch) -> None:
        """Enter the results of a batch in the books; call subscribers and sinks."""
        touched = self._take_changes(batch)
        failures: dict[tuple[int, int], str] = {}
        for result in batch.results:
            if result.kind == "read":
                self._answers.take(*wire.loads(result.data))
            elif result.kind == "failure":
                qid, reason = wire.loads(result.data)
                failures.setdefault((result.template, qid), reason)
        self._count_hidden(batch)
        self._note_progress(batch, sum(rows for _, rows in touched))
        self._deliver(batch, {key for key, _ in touched})
        self._control.collect_strings()
        self._let_go(batch.entry)
        for (template, qid), reason in sorted(failures.items()):
            self._steps.fail(template, qid, reason)

    def _deliver(self, batch: JobBatch, touched: set[int]) -> None:
        leaving = self._leaving.all()  # without queries that subscribers drop during delivery
        errors = self._books.delivery.deliver(batch.number, touched)
        for gone in leaving:
            errors += gone.tell(batch.number)
        if errors:  # an error must stop neither the job nor this batch
            self._gate.complain(gravest(errors))

    def _note_progress(self, batch: JobBatch, changes_out: int) -> None:
        self._books.progress.note_batch(
            batch, self._steps.take_pushed(batch.entry), changes_out, self._state_bytes,
            self._why_paused,
        )  # fmt: skip

    def _state_bytes(self) -> int:
        return sum(told["state_bytes"] for told in self._job.reports())

    def _count_hidden(self, batch: JobBatch) -> None:
        """Add the counts of what ON ERROR has hidden on the shards."""
        for result in batch.results:
            if result.kind == "hidden":
                shard, found = wire.loads(result.data)
                for key, totals in found.items():
                    if key in self._control.templates:
                        self._control.templates[key].note_of(shard, Totals(*totals))

    def _take_changes(self, batch: JobBatch) -> list[tuple[int, int]]:
        """Append changes to changelogs; return the changed templates and their numbers of rows."""
        found: dict[int, list[wire.Result]] = {}
        for result in batch.results:
            if result.kind == "changes":
                found.setdefault(result.template, []).append(result)
        leaving = self._leaving.logs()
        touched: list[tuple[int, int]] = []
        for template, results in sorted(found.items()):
            log = self._books.delivery.logs.get(template) or leaving.get(template)
            if log is not None:
                kept = log.keep(merge_blocks(log, batch.number, results))
                touched.append((template, kept.table.num_rows))
        return touched

    def _let_go(self, entry: int) -> None:
        """Give handles the last changes of queries that the shards have dropped."""
        for gone in self._leaving.let_go(entry):
            self._control.release(gone.readers.template, gone.qids)
        self._books.delivery.let_listeners_go()
        self._steps.let_retired_go(entry)


def merge_blocks(log: Changelog, number: int, results: list[wire.Result]) -> ChangeBatch:
    """Merge the blocks of a template in a batch into the order in which changes happened.

    Changes are sorted by time, then by position in the batch: the steps of a batch follow each
    other in time, and within a step several shards may contribute changes of one query.
    """
    blocks = [(wire.unpack_batch(result.data), result.order) for result in results]
    blocks.sort(key=lambda block: block[1])
    tables = [
        block_table(data, order, number, log.schema.names, log.unit_time) for data, order in blocks
    ]
    owners = [owners_of(data) for data, _ in blocks]
    parts = zip(tables, owners, strict=True)
    whole = concat_batches([ChangeBatch(number, who, table, sets) for table, (who, sets) in parts])
    times = np.concatenate([numbers(data, "_time") for data, _ in blocks])
    if len(blocks) > 1 and bool(np.any(times[1:] < times[:-1])):
        order = np.argsort(times, kind="stable")
        return ChangeBatch(number, whole.who[order], whole.table.take(pa.array(order)), whole.sets)
    return whole
