"""Executing statements: each kind of statement is one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.engine import blocks as b
from penstock.errors import DataError, NameError_
from penstock.logical.reads import streams_of, tables_of
from penstock.queries.registry import TemplateInfo
from penstock.roomy import roomy
from penstock.session import (
    definitions,
    explain,
    history,
    names,
    once,
    registration,
    show,
    sink_start,
    source_state,
    tables,
)
from penstock.session.compile import Compiled, compile_named, compile_select
from penstock.session.known_texts import Prepared
from penstock.session.measure import StreamMeter
from penstock.session.ordering import is_ordered
from penstock.session.query import Query
from penstock.session.standing import Standing
from penstock.sql import statements as st
from penstock.sql.alter import PauseSource, SetRetain
from penstock.sql.catalog import StreamDef, TableDef, ViewDef, stream_def, table_def

if TYPE_CHECKING:
    from penstock.session.session import Session


def execute(session: Session, statement: st.Statement) -> Any:
    """Run one statement; an error about a name says in which statement the name stands."""
    try:
        return globals()[f"_do_{type(statement).__name__.lower()}"](session, statement)
    except NameError_ as error:
        error.place = error.place or statement.place
        raise


def _do_createstream(session: Session, statement: st.CreateStream) -> None:
    if names.is_taken(session, statement.name, statement.if_not_exists):
        definitions.check_stream(session, statement)
    else:
        add_stream(session, stream_def(statement))


def add_stream(session: Session, stream: StreamDef) -> None:
    """Declare a stream."""
    session._declare(stream)
    session._catalog.add(stream)
    session._meters[stream.name] = StreamMeter(stream)
    session._apply([b.AddStream(stream.name, stream.schema, stream.retain or 0)])


def _do_setretain(session: Session, statement: SetRetain) -> None:
    history.set_retain(session, statement)


def _do_pausesource(session: Session, statement: PauseSource) -> None:
    source_state.alter(session, statement)


def _do_createtable(session: Session, statement: st.CreateTable) -> None:
    if names.is_taken(session, statement.name, statement.if_not_exists):
        definitions.check_table(session, statement)
    else:
        session._catalog.add(table_def(statement))
        session._apply([b.AddTable(statement.name, statement.schema)])


def _do_insert(session: Session, statement: st.Insert) -> None:
    session._apply(
        [tables.insert(statement, names.find_table(session, statement.table), session._engine)]
    )


def _do_update(session: Session, statement: st.Update) -> None:
    table = names.find_table(session, statement.table)
    session._apply([tables.update(statement, table, session._catalog, session._engine)])


def _do_delete(session: Session, statement: st.Delete) -> None:
    table = names.find_table(session, statement.table)
    session._apply([tables.delete(statement, table, session._catalog, session._engine)])


def _do_createview(session: Session, statement: st.CreateView) -> Query:
    if names.is_taken(session, statement.name, statement.if_not_exists):
        return session[definitions.check_view(session, statement)]
    node, compiled = compile_named(statement.select, session._standing(), session._lengths)
    query = _register(session, statement.select, compiled, statement.name, statement.source)
    session._catalog.add(ViewDef(statement.name, node))
    return query


def _do_select(session: Session, statement: st.Select) -> Query:
    compiled = compile_select(statement, session._standing(), session._lengths)
    return _register(session, statement, compiled, None, statement.source)


def _register(
    session: Session, select: st.Select, compiled: Compiled, name: str | None, text: str
) -> Query:
    prepared = Prepared(compiled, select.history, select.emission)
    return registration.register(session, prepared, name, text)


def _do_createsink(session: Session, statement: st.CreateSink) -> None:
    if statement.name in session._sinks:
        if statement.if_not_exists:
            definitions.check_sink(session, statement)
            return
        raise NameError_(
            f"there is already a sink called {statement.name}",
            code="PS-NAME-008",
            remedy="choose another name, drop it first, or write IF NOT EXISTS",
        )
    info = session._query_info(statement.view)
    per_row = session._registry.templates[info.template].emission.per_row
    if per_row and statement.format.lower() == "csv":
        raise DataError(
            f"{statement.view} emits lists of query names (PER ROW), which CSV cannot hold",
            code="PS-SINK-005",
            remedy="write parquet or json, or EMIT CHANGES without PER ROW",
        )
    sink = session._open_sink(statement)
    session._sinks[statement.name] = (statement, sink)
    sink_start.begin(session, statement, sink)


def _do_drop(session: Session, statement: st.Drop) -> None:
    name = statement.name
    if statement.kind == "SINK":
        if name in session._sinks:
            session._drop_sink(name)
            return
    elif statement.kind == "VIEW":
        info = session._registry.find(name)
        if info is not None:
            session._drop_queries([(info.group.number, np.array([info.at]))])
            return
    elif drop_relation(session, name, statement.kind):
        return
    if not statement.if_exists:
        raise NameError_(
            f"there is no {statement.kind.lower()} {name}",
            remedy="check the name, or write IF EXISTS",
        )


def drop_relation(session: Session, name: str, kind: str) -> bool:
    """Drop a stream or table that nothing reads; False when there is none."""
    found = session._catalog.relation(name)
    wanted = StreamDef if kind == "STREAM" else TableDef
    if not isinstance(found, wanted):
        return False
    registry = session._registry
    reading = [t.key for t in registry.templates.values() if found.name in _reads(t)]
    readers = [name for key in reading for name in registry.some_names(key, 2)]
    if readers:
        raise NameError_(
            f"{name} is read by {readers[0]}" + (" and others" if len(readers) > 1 else ""),
            code="PS-NAME-009",
            remedy="drop the queries that read it first",
        )
    del session._catalog.relations[name.lower()]
    session._meters.pop(found.name, None)
    session._apply([b.Drop(found.name)])
    return True


def _do_show(session: Session, statement: st.Show) -> pa.Table:
    if statement.of:
        kept_out = session.late if statement.what == "LATE" else session.quarantine
        return kept_out(statement.of)
    return show.show(statement.what, session)


def _do_describe(session: Session, statement: st.Describe) -> pa.Table:
    return show.describe(statement.name, session)


def _do_explain(session: Session, statement: st.Explain) -> str:
    if isinstance(statement.target, str):
        return session._explain_query(statement.target)
    select = statement.target
    if is_ordered(select.query) and once.is_once(session, select):
        return once.plan(session, select)
    catalog, lengths = Standing(session, {}), session._lengths.trial()
    compiled = compile_select(select, catalog, lengths)
    return explain.explain_select(session, compiled, select.emission)


@roomy
def _reads(info: TemplateInfo) -> set[str]:
    """Streams and tables of a template, as written (the plan may have lost some)."""
    return {*streams_of(info.template), *tables_of(info.template)}
