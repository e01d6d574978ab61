"""SHOW, DESCRIBE and stats(): what a session holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.errors import NameError_
from penstock.expressions.hidden import Totals
from penstock.queries.registry import Group
from penstock.roomy import roomy
from penstock.session import history, source_state
from penstock.session.values import shown_time
from penstock.session.windows import filled_at
from penstock.sql.catalog import StreamDef, TableDef

if TYPE_CHECKING:
    from penstock.session.session import Session


@roomy
def show(what: str, session: Session) -> pa.Table:
    """The streams, tables, queries or sinks of a session."""
    rows: list[dict[str, Any]]
    if what == "STREAMS":
        rows = [_stream_row(s, session) | _time_row(s, session) for s in _of(session, StreamDef)]
        return _table(rows, "name", "time", "watermark", "received", "late", "quarantined",
                      "source")  # fmt: skip
    if what == "TABLES":
        rows = [
            {"name": t.name, "rows": len(session._engine.tables[t.name]),
             "kind": "non-retroactive" if t.nonretroactive else "retroactive"}
            for t in _of(session, TableDef)
        ]  # fmt: skip
        return _table(rows, "name", "kind", "rows")
    if what == "SINKS":
        rows = [
            {"name": c.name, "view": c.view, "format": c.format} for c, _ in session._sinks.values()
        ]
        return _table(rows, "name", "view", "format")
    return _queries(session)


def _queries(session: Session) -> pa.Table:
    schema = pa.schema([("name", pa.string()), ("status", pa.string()), ("template", pa.int64()),
                        ("sql", pa.string()), ("note", pa.string()), ("nulled", pa.int64()),
                        ("skipped", pa.int64()), ("reason", pa.string())])  # fmt: skip
    found = [_group(session, group, schema) for group in session._registry.groups.values()]
    return pa.concat_tables(found) if found else schema.empty_table()


def _group(session: Session, group: Group, schema: pa.Schema) -> pa.Table:
    """The queries of a group that were not dropped."""
    there, n = group.there(), group.left
    status = np.full(len(group), "failed", object)
    notes = np.full(len(group), None, object)
    running = group.running(there)
    if running.shape[0]:
        until = filled_at(session, group, running)
        cold = until > BEGINNING
        status[running] = np.where(cold, "warming", "running")
        unit = session._registry.templates[group.template].unit_time
        notes[running[cold]] = [history.warming_note(int(at), unit) for at in until[cold]]
    columns = [
        group.names.arrow().take(pa.array(there)),
        pa.array(status[there], pa.string()),
        pa.repeat(pa.scalar(group.template), n),
        pa.repeat(pa.scalar(group.text), n),
        pa.array(notes[there], pa.string()),
        *_hidden(session, group.template, n),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _hidden(session: Session, key: int, n: int) -> list[pa.Array]:
    """What ON ERROR hid from the queries of a template, for each of `n`."""
    template = session._engine.templates.get(key)
    found = Totals() if template is None else template.hidden
    values = (found.nulls, found.rows, found.reason or None)
    types = (pa.int64(), pa.int64(), pa.string())
    return [pa.repeat(pa.scalar(v, t), n) for v, t in zip(values, types, strict=True)]


def _hidden_rows(session: Session) -> list[dict[str, Any]]:
    """The same of all templates that have some."""
    return [
        {"template": key, "nulled": t.hidden.nulls, "skipped": t.hidden.rows,
         "reason": t.hidden.reason}
        for key, t in session._engine.templates.items()
        if t.hidden
    ]  # fmt: skip


def _of(session: Session, kind: type) -> list[Any]:
    return [r for r in session._catalog.relations.values() if isinstance(r, kind)]


def _table(rows: list[dict[str, Any]], *names: str) -> pa.Table:
    return pa.table({n: pa.array([row[n] for row in rows]) for n in names})


def _stream_row(stream: StreamDef, session: Session) -> dict[str, Any]:
    meter = session._meters[stream.name]
    mark = session._engine.sources[stream.name].watermark
    return {
        "name": stream.name,
        "time": stream.time,
        "watermark": None if mark == BEGINNING else mark,
        "received": meter.received,
        "accepted": meter.accepted,
        "late": meter.late_rows,
        "quarantined": meter.quarantined,
        "source": source_state.status(session, stream),
    }


def _time_row(stream: StreamDef, session: Session) -> dict[str, Any]:
    """The watermark as the stream's times are written."""
    mark = session._engine.sources[stream.name].watermark
    return {"watermark": None if mark == BEGINNING else shown_time(mark, stream.unit_time)}


@roomy
def describe(name: str, session: Session) -> pa.Table:
    """The columns of a stream, table or query."""
    found = session._catalog.relation(name)
    if isinstance(found, StreamDef | TableDef):
        schema = found.schema
    elif (info := session._registry.find(name)) is not None:
        schema = session._registry.templates[info.template].plan.schema
    else:
        raise NameError_(
            f"there is no stream, table or query {name}",
            remedy="SHOW STREAMS, TABLES or QUERIES lists them",
        )
    return pa.table({"column": list(schema.names), "type": [str(f.type) for f in schema]})


@roomy
def stats(session: Session) -> dict[str, Any]:
    """Rows and bytes, per stream and per operator."""
    engine = session._engine
    operators = []
    for key, template in engine.templates.items():
        running = template.plan.operators
        for spec in template.plan.spec.specs:
            operators.append(
                {
                    "template": key,
                    "operator": f"{spec.at:02d}-{spec.name}",
                    "structure": spec.structure(),
                    "rows": running[spec.at].rows() if running else 0,
                    "bytes": running[spec.at].scope.nbytes if running else 0,
                }
            )
    streams = {s.name: _stream_row(s, session) for s in _of(session, StreamDef)}
    for name, row in streams.items():
        row["buffered"] = len(engine.sources[name])
    return {
        "batch": engine.batch,
        "bytes": engine.arena.nbytes,
        "strings": len(engine.strings),
        "queries": len(session._registry),
        "templates": len(engine.templates),
        "hidden": _hidden_rows(session),
        "streams": streams,
        "operators": operators,
        **engine.flows.report(),
    }
