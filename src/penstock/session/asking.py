"""Reads answers from shards: a log entry asks, and the batch of that entry brings the answer.

The answer is as of the end of that batch: it includes all changes of the batch, and no later one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.errors import QueryFailed
from penstock.queries.registry import QueryInfo, TemplateInfo
from penstock.session import reading
from penstock.session.calls import LoggedCalls
from penstock.session.changelog import ChangeBatch
from penstock.session.gate import Gate
from penstock.session.leaving import LeavingQueries
from penstock.session.query_book import QueryBook
from penstock.session.readers import Readers
from penstock.shards import wire
from penstock.shards.changes import own_columns, owners_of
from penstock.shards.job import Job


@dataclass(slots=True)
class Question:
    """The answers of some queries of one template, collected from the shards part by part.

    If `opening` is given, the view of that query may be kept from this answer on.
    """

    template: TemplateInfo
    opening: QueryInfo | None = None
    parts: list[pa.RecordBatch] = field(default_factory=list)
    refusal: str | None = None  # why a shard could not answer

    def take(self, data: bytes | str) -> None:
        """Store one shard's part, or its reason for having none."""
        if isinstance(data, str):
            self.refusal = self.refusal or data
        else:
            self.parts.append(wire.unpack_batch(data))

    def check(self) -> None:
        """Raise an error if a shard could not answer."""
        if self.refusal is not None:
            raise QueryFailed(self.refusal)

    def rows(self) -> pa.Table:
        """The answer rows, without the column of queries."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def batches(self) -> list[ChangeBatch]:
        """The answer rows, with the query of each row."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        owners = map(owners_of, self.parts)
        return [
            ChangeBatch(0, who, rows, sets)
            for rows, (who, sets) in zip(tables, owners, strict=True)
        ]


class AskedAnswers:
    """Answers of queries that run on the shards of a job.

    `wait` blocks until the batch of a log entry has been delivered.
    """

    def __init__(
        self,
        queries: QueryBook,
        gate: Gate,
        job: Job,
        calls: LoggedCalls,
        leaving: LeavingQueries,
        wait: Callable[[int], None],
    ) -> None:
        self.questions: dict[int, Question] = {}  # by log entry, while a call waits for the answer
        self._queries, self._gate, self._job = queries, gate, job
        self._calls, self._leaving, self._wait = calls, leaving, wait

    def take(self, request: int, data: bytes | str) -> None:
        """Store one shard's part of an answer."""
        if request in self.questions:
            self.questions[request].take(data)

    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer of one query at its clock."""
        with self._gate.look():
            reading.check_runs(self._queries.registry, info)
            question = Question(self._queries.template(info), info)
        self._ask(question, np.array([info.qid]))
        with self._gate.look():
            reading.check_runs(self._queries.registry, info)
        question.check()
        return question.rows()

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """Ask for all answers with one log entry, so that they have the same clock."""
        questions = [Question(self._queries.template(info)) for info in found]
        entry = self._job.next_entry
        requests = [-(entry << 20) - at for at in range(len(found))]
        for request, question, info in zip(requests, questions, found, strict=True):
            self.questions[request] = question
            self._calls.tell([b.Read(request, info.template, np.array([info.qid]))])

        def read() -> list[pa.Table]:
            try:
                self._wait(entry)
            finally:
                with self._gate.lock:
                    for request in requests:
                        self.questions.pop(request, None)
            for question, info in zip(questions, found, strict=True):
                reading.check_runs(self._queries.registry, info)
                question.check()
            return [question.rows() for question in questions]

        return read if found else list

    def all(self, template: TemplateInfo, qids: I64) -> list[ChangeBatch]:
        """The answers of several queries of one template at its clock."""
        question = Question(template)
        self._ask(question, qids)
        question.check()
        return question.batches()

    def forget(self) -> None:
        """Do nothing: answers are kept by the shards only."""

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Block until the last changes of dropped queries have arrived."""
        entry = self._leaving.awaited(readers, at)
        if entry is not None and not self._job.dead:
            self._wait(entry)

    def _ask(self, question: Question, qids: I64) -> None:
        """Ask the shards and block until all have answered."""
        try:
            self._wait(self.pose(question, qids))
        finally:
            with self._gate.lock:
                self.questions = {n: q for n, q in self.questions.items() if q is not question}

    def pose(self, question: Question, qids: I64) -> int:
        """Append a question to the log and return the number of its entry."""
        with self._gate.open():
            self._gate.check_alive()
            entry = self._job.next_entry
            self.questions[entry] = question
            self._calls.tell([b.Read(entry, question.template.key, qids)])
        return entry
