"""Runs statements: one method per kind of statement, listed in a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.errors import DataError, NameError_
from penstock.logical.reads import streams_of, tables_of
from penstock.queries.registry import TemplateInfo
from penstock.roomy import roomy
from penstock.session import (
    definitions,
    explain,
    history,
    once,
    show,
    sink_start,
    table_history,
    tables,
)
from penstock.session.books import Books
from penstock.session.desk import QueryDesk
from penstock.session.front_door import FrontDoor
from penstock.session.measure import StreamMeter
from penstock.session.ordering import is_ordered
from penstock.session.plans import Plans
from penstock.session.query import Query
from penstock.session.registration import Registrar
from penstock.session.runner import Runner
from penstock.session.source_state import BY_USER
from penstock.sql import statements as st
from penstock.sql.alter import PauseSource, SetRetain
from penstock.sql.catalog import StreamDef, TableDef, ViewDef, stream_def, table_def


class Statements:
    """Runs the statements of a session."""

    def __init__(
        self,
        books: Books,
        runner: Runner,
        door: FrontDoor,
        registrar: Registrar,
        desk: QueryDesk,
        plans: Plans,
    ) -> None:
        self._books, self._runner, self._door = books, runner, door
        self._registrar, self._desk, self._plans = registrar, desk, plans

    def execute(self, statement: st.Statement) -> Any:
        """Run one statement; an error about a name also shows the statement."""
        try:
            return self.KINDS[type(statement)](self, statement)
        except NameError_ as error:
            error.place = error.place or statement.place
            raise

    # ---- streams and tables ----------------------------------------------------------
    def _create_stream(self, statement: st.CreateStream) -> None:
        if self._books.queries.is_taken(statement.name, statement.if_not_exists):
            definitions.check_stream(self._books.catalog, statement)
            return
        stream = stream_def(statement)
        self._runner.sources.declare(stream)
        self._books.catalog.add(stream)
        self._books.catalog.meters[stream.name] = StreamMeter(stream)
        self._runner.steps.apply([b.AddStream(stream.name, stream.schema, stream.retain or 0)])

    def _set_retain(self, statement: SetRetain) -> None:
        history.set_retain(self._books, self._runner, statement)

    def _pause_source(self, statement: PauseSource) -> None:
        """ALTER STREAM … PAUSE or RESUME."""
        stream = self._books.catalog.find_stream(statement.name)
        if stream.format is None:
            raise DataError(
                f"stream {stream.name} has no source to pause or resume: its rows are pushed",
                code="PS-SRC-008",
                place=statement.place,
                remedy="do not push rows while the stream should wait",
            )
        meter = self._books.catalog.meters[stream.name]
        meter.source.paused = BY_USER if statement.paused else ""
        self._runner.sources.pause(stream.name, statement.paused)

    def _create_table(self, statement: st.CreateTable) -> None:
        if self._books.queries.is_taken(statement.name, statement.if_not_exists):
            definitions.check_table(self._books.catalog, statement)
        else:
            self._books.catalog.add(table_def(statement))
            self._runner.steps.apply([b.AddTable(statement.name, statement.schema)])

    def _insert(self, statement: st.Insert) -> None:
        table = self._books.catalog.find_table(statement.table)
        self._change(tables.insert(statement, table, self._books.engine))

    def _update(self, statement: st.Update) -> None:
        catalog, engine = self._books.catalog, self._books.engine
        table = catalog.find_table(statement.table)
        self._change(tables.update(statement, table, catalog, engine))

    def _delete(self, statement: st.Delete) -> None:
        catalog, engine = self._books.catalog, self._books.engine
        table = catalog.find_table(statement.table)
        self._change(tables.delete(statement, table, catalog, engine))

    def _change(self, change: b.TableChange[I64]) -> None:
        table_history.note_change(self._books, self._runner, change.table)
        self._runner.steps.apply([change])

    # ---- queries ---------------------------------------------------------------------
    def _create_view(self, statement: st.CreateView) -> Query:
        if self._books.queries.is_taken(statement.name, statement.if_not_exists):
            return self.find(definitions.check_view(self._door.standing({}), statement))
        node, prepared = self._door.view(statement.select)
        readers = self._registrar.register(prepared, statement.name, statement.source)
        self._books.catalog.add(ViewDef(statement.name, node))
        return Query(self._desk, readers, 0)

    def _select(self, statement: st.Select) -> Query:
        prepared = self._door.select(statement)
        return Query(self._desk, self._registrar.register(prepared, None, statement.source), 0)

    def find(self, name: str) -> Query:
        """The handle of a query by name."""
        info = self._books.queries.info(name)
        return Query(self._desk, self._books.delivery.readers[info.group.number], info.at)

    # ---- sinks -----------------------------------------------------------------------
    def _create_sink(self, statement: st.CreateSink) -> None:
        sinks = self._books.delivery.sinks
        if statement.name in sinks:
            if statement.if_not_exists:
                definitions.check_sink(sinks, statement)
                return
            raise NameError_(
                f"there is already a sink called {statement.name}",
                code="PS-NAME-008",
                remedy="choose another name, drop it first, or write IF NOT EXISTS",
            )
        self._check_sink(statement)
        sink = self._runner.sinks.open(statement)
        sinks.add(statement, sink)
        sink_start.begin(self._books, statement, sink)

    def _check_sink(self, statement: st.CreateSink) -> None:
        """Raise an error if the format cannot hold what the query emits."""
        queries = self._books.queries
        per_row = queries.template(queries.info(statement.view)).emission.per_row
        if per_row and statement.format.lower() == "csv":
            raise DataError(
                f"{statement.view} emits lists of query names (PER ROW), which CSV cannot hold",
                code="PS-SINK-005",
                remedy="write parquet or json, or EMIT CHANGES without PER ROW",
            )

    # ---- drop ------------------------------------------------------------------------
    def _drop(self, statement: st.Drop) -> None:
        if not self._dropped(statement) and not statement.if_exists:
            raise NameError_(
                f"there is no {statement.kind.lower()} {statement.name}",
                remedy="check the name, or write IF EXISTS",
            )

    def _dropped(self, statement: st.Drop) -> bool:
        """Drop what a statement names; return False if it does not exist."""
        name = statement.name
        if statement.kind == "SINK":
            return self._drop_sink(name)
        if statement.kind == "VIEW":
            info = self._books.queries.registry.find(name)
            if info is not None:
                self._desk.drop([(info.group.number, np.array([info.at]))])
            return info is not None
        return self._drop_relation(name, StreamDef if statement.kind == "STREAM" else TableDef)

    def _drop_sink(self, name: str) -> bool:
        if name not in self._books.delivery.sinks:
            return False
        self._runner.sinks.remove(name)
        self._books.delivery.sinks.drop(name)
        return True

    def _drop_relation(self, name: str, kind: type[StreamDef] | type[TableDef]) -> bool:
        """Drop a stream or table; raise an error if a query reads it."""
        found = self._books.catalog.relation(name)
        if not isinstance(found, kind):
            return False
        registry = self._books.queries.registry
        reading = [t.key for t in registry.templates.values() if found.name in _reads(t)]
        readers = [name for key in reading for name in registry.some_names(key, 2)]
        if readers:
            raise NameError_(
                f"{name} is read by {readers[0]}" + (" and others" if len(readers) > 1 else ""),
                code="PS-NAME-009",
                remedy="drop the queries that read it first",
            )
        self._books.catalog.remove(name)
        self._runner.steps.apply([b.Drop(found.name)])
        return True

    # ---- looking ---------------------------------------------------------------------
    def _show(self, statement: st.Show) -> pa.Table:
        if statement.of:
            with self._runner.gate.look():
                meter = self._books.catalog.meter(statement.of)
                return meter.late() if statement.what == "LATE" else meter.quarantine()
        return show.show(statement.what, self._books, self._runner.sources.why_paused)

    def _describe(self, statement: st.Describe) -> pa.Table:
        return show.describe(statement.name, self._books)

    def _explain(self, statement: st.Explain) -> str:
        if isinstance(statement.target, str):
            return self._desk.explain(statement.target)
        select = statement.target
        if is_ordered(select.body.query) and once.is_once(self._books.catalog, select):
            return once.plan(self._books, self._plans, select)
        prepared = self._door.trial(select)
        return explain.explain_select(self._plans, prepared)

    KINDS: ClassVar[dict[type[st.Statement], Callable[[Statements, Any], Any]]] = {
        st.CreateStream: _create_stream,
        SetRetain: _set_retain,
        PauseSource: _pause_source,
        st.CreateTable: _create_table,
        st.Insert: _insert,
        st.Update: _update,
        st.Delete: _delete,
        st.CreateView: _create_view,
        st.Select: _select,
        st.CreateSink: _create_sink,
        st.Drop: _drop,
        st.Show: _show,
        st.Describe: _describe,
        st.Explain: _explain,
    }
    """The method for each kind of statement."""


_KINDS = {kind.__name__ for kind in st.Statement.__subclasses__()}
_MISSING = _KINDS - {kind.__name__ for kind in Statements.KINDS}
assert not _MISSING, f"statements that nothing runs: {_MISSING}"


@roomy
def _reads(info: TemplateInfo) -> set[str]:
    """Streams and tables in a template's text; the optimized plan may read fewer."""
    return {*streams_of(info.template), *tables_of(info.template)}
