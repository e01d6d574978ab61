"""Asking shards: an entry of the log asks, and the batch that holds it brings the answer.

An answer is that at the end of its batch: all changes of the batch are in it, none of a later one.
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
from penstock.shards.changes import own_columns, whose
from penstock.shards.job import Job


@dataclass(slots=True)
class Question:
    """The answers of queries of one template, in the parts that shards have.

    `opening` is the query whose view may be kept from this answer on.
    """

    template: TemplateInfo
    opening: QueryInfo | None = None
    parts: list[pa.RecordBatch] = field(default_factory=list)
    refusal: str | None = None  # why a shard has none

    def take(self, data: bytes | str) -> None:
        """A part, or why there is none."""
        if isinstance(data, str):
            self.refusal = self.refusal or data
        else:
            self.parts.append(wire.unpack_batch(data))

    def check(self) -> None:
        """Refuse an answer of which a part is missing."""
        if self.refusal is not None:
            raise QueryFailed(self.refusal)

    def rows(self) -> pa.Table:
        """The answer, without the query of each row."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def batches(self) -> list[ChangeBatch]:
        """The answers, with the query of each row."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        owners = map(whose, self.parts)
        return [
            ChangeBatch(0, who, rows, sets)
            for rows, (who, sets) in zip(tables, owners, strict=True)
        ]


class AskedAnswers:
    """Answers that the shards of a job hold.

    `wait` returns when the batch of an entry has been delivered.
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
        self.questions: dict[int, Question] = {}  # by entry, while a call waits for the answer
        self._queries, self._gate, self._job = queries, gate, job
        self._calls, self._leaving, self._wait = calls, leaving, wait

    def take(self, request: int, data: bytes | str) -> None:
        """A shard's part of an answer."""
        if request in self.questions:
            self.questions[request].take(data)

    def rows(self, info: QueryInfo) -> pa.Table:
        """The answer of a query at its clock."""
        with self._gate.look():
            reading.check_runs(self._queries.registry, info)
            question = Question(self._queries.template(info), info)
        self._ask(question, np.array([info.qid]))
        with self._gate.look():
            reading.check_runs(self._queries.registry, info)
        question.check()
        return question.rows()

    def at_once(self, found: list[QueryInfo]) -> Callable[[], list[pa.Table]]:
        """One entry asks for all, so that they are answered at the same clock."""
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
        """The answers of queries of a template at its clock."""
        question = Question(template)
        self._ask(question, qids)
        question.check()
        return question.batches()

    def forget(self) -> None:
        """No answer is kept beside those of the shards."""

    def await_last_changes(self, readers: Readers, at: int | None) -> None:
        """Return when the last changes of dropped queries have come."""
        entry = self._leaving.awaited(readers, at)
        if entry is not None and not self._job.dead:
            self._wait(entry)

    def _ask(self, question: Question, qids: I64) -> None:
        """Return when the shards have answered."""
        try:
            self._wait(self.pose(question, qids))
        finally:
            with self._gate.lock:
                self.questions = {n: q for n, q in self.questions.items() if q is not question}

    def pose(self, question: Question, qids: I64) -> int:
        """Hand a question to the shards; the number of its entry."""
        with self._gate.open():
            self._gate.check_alive()
            entry = self._job.next_entry
            self.questions[entry] = question
            self._calls.tell([b.Read(entry, question.template.key, qids)])
        return entry
