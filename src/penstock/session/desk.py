"""Serves the handles of `session/query.py`: views, changes, subscriptions, plans, drops.

Each call checks that the query can be read when it begins and again when the answer is there: in
between, another thread may have dropped the query, or a batch may have failed it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.errors import NameError_
from penstock.session import explain, history, reading
from penstock.session.books import Books
from penstock.session.changelog import Callback
from penstock.session.dropping import drop_queries
from penstock.session.plans import Plans
from penstock.session.readers import Readers
from penstock.session.runner import Runner


class QueryDesk:
    """Serves the handles of standing queries."""

    def __init__(self, books: Books, runner: Runner, plans: Plans) -> None:
        self._books, self._runner, self._plans = books, runner, plans

    def view(self, name: str) -> pa.Table:
        """The answer of a query at its clock."""
        queries = self._books.queries
        with self._runner.gate.look():
            info = queries.readable(name)
            said = history.note(queries, info)
        return history.labelled(self._runner.answers.rows(info), said)

    def view_all(self, readers: Readers) -> pa.Table:
        """The answers of the running queries among those registered together."""
        gate = self._runner.gate
        with gate.look():
            running = reading.running(self._books.queries.registry, readers.group)
            template = self._books.queries.registry.templates.get(readers.template)
            if template is None or not running.shape[0]:
                return readers.label_rows([])
            reading.check_keeps(template, readers.names[running[0]])
        found = self._runner.answers.all(template, np.unique(readers.qids[running]))
        with gate.look():
            owners = readers.owners(reading.running(self._books.queries.registry, readers.group))
            return readers.label_rows([part.of_all(owners) for part in found])

    def changes(self, readers: Readers, at: int | None = None) -> pa.Table:
        """The unread changes of one reader, or of all.

        When a query has ended and nothing is unread, this raises the reason.
        """
        self._runner.answers.await_last_changes(readers, at)
        with self._runner.gate.glance():
            table = readers.take_all() if at is None else readers.take(at)
            self._books.delivery.let_go(readers.log)
            if not table.num_rows:
                places = np.arange(len(readers)) if at is None else np.array([at])
                reading.check_any_runs(self._books.queries.registry, readers.group, places)
                self._runner.gate.check_alive()
            return table

    def status(self, name: str) -> str:
        """running, warming or failed."""
        with self._runner.gate.glance():
            info = self._books.queries.info(name)
            if info.failure is not None or self._runner.is_dead:
                return "failed"
            warming = self._books.queries.warming(info.group, np.array([info.at]))
            return "warming" if warming[0] else "running"

    def subscribe(self, name: str, callback: Callback) -> None:
        """Call a function with the changes of a query."""
        with self._runner.gate.look():
            self._books.queries.info(name)
            self._books.delivery.subscribe(name, callback)

    def subscribe_all(self, readers: Readers, callback: Callback) -> None:
        """Call a function with the changes of queries registered together."""
        with self._runner.gate.look():
            if not readers.running().shape[0]:
                raise NameError_("all these queries were dropped", code="PS-NAME-010")
            self._books.delivery.listen(readers, callback)

    def foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        """Call a function with a DataFrame of the changes of every batch."""
        self._runner.sinks.foreach_batch(name, function, whole)

    def explain(self, name: str) -> str:
        """The plan of a query."""
        with self._runner.gate.look():
            return explain.explain_query(self._plans, self._books.queries.info(name))

    def drop(self, places: list[tuple[int, I64]]) -> None:
        """Drop queries of one template, given as groups and places, in one step."""
        with self._runner.gate.open():
            self._runner.calls.begin("drop", places)
            drop_queries(self._books, self._runner, places)
