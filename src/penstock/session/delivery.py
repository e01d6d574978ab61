"""Delivery: sends the changes of a step or batch to changelogs, subscribers and sinks.

If a subscriber or sink fails, the others still get the changes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.changes import Changes, concat_changes
from penstock.engine import blocks as b
from penstock.errors import PenstockError
from penstock.queries.registry import Chosen, Group, TemplateInfo
from penstock.session.changelog import Callback, ChangeBatch, Changelog, label
from penstock.session.gate import gravest
from penstock.session.query_book import QueryBook
from penstock.session.readers import Readers, all_of_batch
from penstock.session.sinks import SinkBook, is_whole, write
from penstock.sql.statements import CreateSink
from penstock.state.strings import StringTable


class Delivery:
    """Changelogs, their readers, subscribers and sinks."""

    def __init__(self, book: QueryBook, sinks: SinkBook, kept_rows: int) -> None:
        self.logs: dict[int, Changelog] = {}  # by template
        self.readers: dict[int, Readers] = {}  # by group of queries
        self.subscribers: dict[str, list[Callback]] = {}
        self.listeners: list[tuple[Readers, Callback]] = []  # callbacks for many queries at once
        self.sinks = sinks
        self.kept_rows = kept_rows
        self._book = book
        self._read_early: list[Changelog] | None = None  # None: no batch is being delivered

    @property
    def is_heard(self) -> bool:
        """Whether a subscriber or sink must learn of a call's changes at once."""
        return bool(self.subscribers or self.listeners or self.sinks)

    # ---- changelogs ------------------------------------------------------------------
    def new_log(self, info: TemplateInfo) -> Changelog:
        """An empty changelog for the queries of a template."""
        return Changelog(info.plan.schema, info.unit_time, self.kept_rows, info.emission.per_row)

    def open_log(self, info: TemplateInfo) -> None:
        """Start to keep the changes of a template's queries, unless that is done already."""
        self.logs.setdefault(info.key, self.new_log(info))

    def read_from_now(self, group: Group) -> Readers:
        """Readers for the queries of a group, which see changes from now on."""
        self.readers[group.number] = readers = Readers.of(group, self.logs[group.template])
        return readers

    def take(self, output: b.Output, strings: StringTable) -> list[BaseException]:
        """Append the changes of a step and deliver them.

        Return what subscribers and sinks raised.
        """
        touched: dict[int, list[Changes]] = {}
        for key, changes in output.changes:
            if len(changes):
                touched.setdefault(key, []).append(changes)
        for key, parts in sorted(touched.items()):
            self.logs[key].add(output.batch, concat_changes(parts), strings)
        with self.keeping():
            return self.deliver(output.batch, touched)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """A context that keeps a batch's changes until sinks, views and subscribers have them."""
        around, self._read_early = self._read_early, []  # a subscriber may push
        try:
            yield
        finally:
            read, self._read_early = self._read_early or [], around
            for log in read:
                self.let_go(log)

    def let_go(self, log: Changelog) -> None:
        """Drop the changes that every reader has read, now or once the batch is delivered."""
        if self._read_early is None:
            log.forget()
        else:
            self._read_early.append(log)

    # ---- subscribers and sinks -------------------------------------------------------
    def subscribe(self, name: str, callback: Callback) -> None:
        """Call a function with the changes of one query from now on."""
        self.subscribers.setdefault(name, []).append(callback)

    def listen(self, readers: Readers, callback: Callback) -> None:
        """Call a function with the changes of queries that were registered together."""
        self.listeners.append((readers, callback))

    def deliver(self, batch: int, touched: Collection[int]) -> list[BaseException]:
        """Deliver this step's changes to every subscriber and sink; return what they raised."""
        errors: list[BaseException] = []
        for name in sorted(self.subscribers):
            info = self._book.registry.find(name)
            if info is not None and info.template in touched:
                errors += self._tell(
                    name, of_batch(self.logs[info.template], info.qid, name, batch)
                )
        for create, sink in self.sinks.fed() if touched else ():
            errors += write(sink, self._for_sink(create, batch, touched), batch)
        for readers, callback in self.listeners:
            if readers.template in touched:
                errors += call(callback, readers.of_batch(batch), f"{len(readers)} queries")
        return errors

    def _for_sink(self, create: CreateSink, batch: int, touched: Collection[int]) -> pa.Table:
        """The changes of a batch for one sink; often an empty table."""
        info = self._book.registry.find(create.view)
        if info is None or info.template not in touched:
            return pa.table({})
        log = self.logs[info.template]
        if is_whole(create):
            return all_of_batch(log, batch)
        return of_batch(log, info.qid, info.name, batch)

    def deliver_apart(self, parts: list[tuple[Readers, ChangeBatch]]) -> None:
        """Deliver changes of one template and batch that are not in its changelog, by reader."""
        parts = [(readers, batch) for readers, batch in parts if batch.table.num_rows]
        errors: list[BaseException] = []
        for readers, batch in parts:
            readers.put_aside(batch)
            errors += self._tell_batch(readers, batch)
        for create, sink in self.sinks.fed() if parts else ():
            info = self._book.registry.find(create.view)
            if info is not None and info.template == parts[0][0].template and is_whole(create):
                tables = [readers.label([batch]) for readers, batch in parts]
                errors += write(sink, pa.concat_tables(tables), parts[0][1].number)
        if errors:
            raise gravest(errors)

    def _tell(self, name: str, table: pa.Table) -> list[BaseException]:
        """Call every subscriber of a query; return what they raised."""
        calls = self.subscribers.get(name, [])
        return [error for callback in calls for error in call(callback, table, name)]

    def _tell_batch(self, readers: Readers, batch: ChangeBatch) -> list[BaseException]:
        """Call the subscribers of all queries in a batch; return what they raised."""
        errors: list[BaseException] = []
        for at in np.unique(batch.owners).tolist():
            if readers.names[at] in self.subscribers:
                name = readers.names[at]
                table = label([batch.of(at)], name, readers.log.columns(many=False))
                errors += self._tell(name, table)
        for listening, callback in self.listeners:
            if listening is readers:
                errors += call(callback, readers.label([batch]), f"{len(readers)} queries")
        return errors

    # ---- queries that go -------------------------------------------------------------
    def leave(self, chosen: Chosen) -> None:
        """Detach readers of queries that are gone: they keep the changes up to now."""
        for group, places in chosen:
            self.readers[group.number].leave(places)

    def subscribers_of(self, group: Group, places: I64) -> dict[int, tuple[Callback, ...]]:
        """The subscribers of single queries of a group, by place."""
        return {
            at: tuple(self.subscribers[group.names[at]])
            for at in (places.tolist() if self.subscribers else ())
            if group.names[at] in self.subscribers
        }

    def forget(self, chosen: Chosen) -> None:
        """Remove subscribers and readers of queries that are in no book any more."""
        for group, places in chosen:
            for name in group.names.at(places) if self.subscribers else ():
                self.subscribers.pop(name, None)
            if not group.left:
                del self.readers[group.number]
        self.let_listeners_go()

    def let_listeners_go(self) -> None:
        """Remove listeners that have no query left."""
        self.listeners = [pair for pair in self.listeners if pair[0].there]


def of_batch(log: Changelog, qid: int, name: str, batch: int) -> pa.Table:
    """The changes of one query in the last batch."""
    parts = [b.of(qid) for b in log.of_number(batch)]
    return label(parts, name, log.columns(many=False))


def _in_main_thread() -> bool:
    """Whether Ctrl-C and sys.exit() end the program in the current thread."""
    return threading.current_thread() is threading.main_thread()


def call(callback: Callback, table: pa.Table, name: str) -> list[BaseException]:
    """Call a subscriber with changes, if there are any; return what it raised.

    After Ctrl-C or sys.exit() in a subscriber, the others still get the changes; then the program
    ends.
    """
    try:
        if table.num_rows:
            callback(table)
    except BaseException as error:  # the other subscribers must get the changes
        if not isinstance(error, Exception) and _in_main_thread():
            return [error]  # in another thread it would end a thread of Spark, not the program
        said = PenstockError(
            f"a subscriber of {name} raised {error!r}; the batch was applied",
            code="PS-RUN-002",
            remedy="correct the function given to subscribe()",
        )
        said.__cause__ = error
        return [said]
    return []
