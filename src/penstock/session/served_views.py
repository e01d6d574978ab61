"""Answers on Spark: a view that was read once is kept in DuckDB from then on.

The first read asks the shards. The batch with the answer opens the view, and later batches update
it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.arrays import I64
from penstock.queries.registry import QueryInfo, TemplateInfo
from penstock.session import reading
from penstock.session.asking import AskedAnswers, Question
from penstock.session.books import Books
from penstock.session.changelog import ChangeBatch
from penstock.session.delivery import of_batch
from penstock.session.gate import Gate
from penstock.session.readers import Readers
from penstock.session.view_store import ViewStore
from penstock.shards.job import Job, JobBatch


class ServedViews:
    """Reads answers from kept views if there is one, else from the shards."""

    def __init__(
        self, asked: AskedAnswers, views: ViewStore, books: Books, gate: Gate, job: Job
    ) -> None:
        self.asked, self.views = asked, views
        self._books, self._gate, self._job = books, gate, job

    # ---- reading ---------------------------------------------------------------------
    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer after everything that was issued before; kept from now on."""
        with self._gate.open():
            kept = info.name in self.views
        if kept:
            self._job.wait(self._job.next_entry - 1)
            with self._gate.look():
                reading.check_runs(self._books.queries.registry, info)
                if info.name in self.views:
                    return self.views.read(info.name)
        return self.asked.rows(info)

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """Read the answers of queries as they are now; returns a function that gives them."""
        return self.asked.at_once(found)

    def all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of queries of a template at its clock."""
        return self.asked.all(template, qids)

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Block until the last changes of dropped queries have arrived."""
        self.asked.await_last_changes(readers, at)

    def forget(self) -> None:
        """Close views of queries that are in no book any more."""
        for name in self.views.names():
            if name not in self._books.queries.registry:
                self.views.close(name)

    # ---- batches ---------------------------------------------------------------------
    def take(self, batch: JobBatch) -> None:
        """Update the kept views from the changes of a batch."""
        kept = self.views.names()
        if kept:
            self.views.apply(batch.number, {n: self._changes(n, batch) for n in kept})
        for entry, question in self.asked.questions.items():
            info = question.opening
            if info is None or entry > batch.entry:
                continue
            question.opening = None  # it is the answer of this batch only
            if self._can_serve(question, info):
                rows = question.rows()
                self.views.open(info.name, rows.schema, rows, batch.number)

    def _can_serve(self, question: Question, info: QueryInfo) -> bool:
        """Whether to keep a view: its query must run, have an answer, and not be kept already."""
        there = info.failure is None and not info.group.gone[info.at]
        return there and question.refusal is None and info.name not in self.views

    def _changes(self, name: str, batch: JobBatch) -> pa.Table:
        info = self._books.queries.info(name)
        return of_batch(self._books.delivery.logs[info.template], info.qid, name, batch.number)
