"""SHOW, DESCRIBE and stats(): what a session holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.delta import BEGINNING
from penstock.errors import NameError_
from penstock.sql.catalog import StreamDef, TableDef

if TYPE_CHECKING:
    from penstock.session.session import Session


def show(what: str, session: Session) -> pa.Table:
    """The streams, tables, queries or sinks of a session."""
    rows: list[dict[str, Any]]
    if what == "STREAMS":
        rows = [_stream_row(s, session) for s in _of(session, StreamDef)]
        return _table(rows, "name", "time", "watermark", "received", "late", "quarantined")
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
    rows = [
        {"name": q.name, "status": session._status(q.name), "template": q.template, "sql": q.text}
        for q in session._registry.queries.values()
    ]
    return _table(rows, "name", "status", "template", "sql")


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
    }


def describe(name: str, session: Session) -> pa.Table:
    """The columns of a stream, table or query."""
    found = session._catalog.relation(name)
    if isinstance(found, StreamDef | TableDef):
        schema = found.schema
    elif name in session._registry.queries:
        info = session._registry.queries[name]
        schema = session._registry.templates[info.template].plan.schema
    else:
        raise NameError_(f"nothing is called {name}", remedy="SHOW STREAMS, TABLES or QUERIES")
    return pa.table({"column": list(schema.names), "type": [str(f.type) for f in schema]})


def stats(session: Session) -> dict[str, Any]:
    """Rows and bytes, per stream and per operator."""
    engine = session._engine
    operators = []
    for key, template in engine.drawn().items():
        for at, operator in enumerate(template.plan.operators):
            operators.append(
                {
                    "template": key,
                    "operator": f"{at:02d}-{operator.name}",
                    "structure": operator.structure(),
                    "rows": operator.rows(),
                    "bytes": operator.scope.nbytes,
                }
            )
    streams = {s.name: _stream_row(s, session) for s in _of(session, StreamDef)}
    for name, row in streams.items():
        row["buffered"] = len(engine.sources[name])
    return {
        "batch": engine.batch,
        "bytes": engine.arena.nbytes,
        "strings": len(engine.strings),
        "queries": len(session._registry.queries),
        "templates": len(engine.templates),
        "streams": streams,
        "operators": operators,
        **engine.flows.report(),
    }
