"""SHOW, DESCRIBE and stats(): tables that describe a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.engine.engine import Engine
from penstock.errors import NameError_
from penstock.expressions.hidden import Totals
from penstock.queries.registry import Group
from penstock.roomy import roomy
from penstock.session import history
from penstock.session.books import Books
from penstock.session.progress import WhyPaused
from penstock.session.values import shown_time
from penstock.sql.catalog import StreamDef, TableDef


@roomy
def show(what: str, books: Books, why_paused: WhyPaused) -> pa.Table:
    """The streams, tables, queries or sinks of a session."""
    rows: list[dict[str, Any]]
    if what == "STREAMS":
        rows = [
            _stream_row(s, books, why_paused) | _time_row(s, books) for s in books.catalog.streams()
        ]
        return _table(rows, "name", "time", "watermark", "received", "late", "quarantined",
                      "source")  # fmt: skip
    if what == "TABLES":
        rows = [
            {"name": t.name, "rows": len(books.engine.tables[t.name]),
             "kind": "non-retroactive" if t.nonretroactive else "retroactive"}
            for t in books.catalog.tables()
        ]  # fmt: skip
        return _table(rows, "name", "kind", "rows")
    if what == "SINKS":
        rows = [
            {"name": c.name, "view": c.view, "format": c.format}
            for c in books.delivery.sinks.statements()
        ]
        return _table(rows, "name", "view", "format")
    return _queries(books)


def _queries(books: Books) -> pa.Table:
    schema = pa.schema([("name", pa.string()), ("status", pa.string()), ("template", pa.int64()),
                        ("sql", pa.string()), ("note", pa.string()), ("nulled", pa.int64()),
                        ("skipped", pa.int64()), ("reason", pa.string())])  # fmt: skip
    found = [_group(books, group, schema) for group in books.queries.registry.groups.values()]
    return pa.concat_tables(found) if found else schema.empty_table()


def _group(books: Books, group: Group, schema: pa.Schema) -> pa.Table:
    """The queries of a group that were not dropped."""
    there, n = group.there(), group.left
    status = np.full(len(group), "failed", object)
    notes = np.full(len(group), None, object)
    running = group.running(there)
    if running.shape[0]:
        until = books.queries.filled_at(group, running)
        cold = until > BEGINNING
        status[running] = np.where(cold, "warming", "running")
        unit = books.queries.registry.templates[group.template].unit_time
        notes[running[cold]] = [history.warming_note(int(at), unit) for at in until[cold]]
    columns = [
        group.names.arrow().take(pa.array(there)),
        pa.array(status[there], pa.string()),
        pa.repeat(pa.scalar(group.template), n),
        pa.repeat(pa.scalar(group.text), n),
        pa.array(notes[there], pa.string()),
        *_hidden(books.engine, group.template, n),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _hidden(engine: Engine, key: int, n: int) -> list[pa.Array]:
    """Columns with what ON ERROR hid from a template's queries, repeated `n` times."""
    template = engine.templates.get(key)
    found = Totals() if template is None else template.hidden
    values = (found.nulls, found.rows, found.reason or None)
    types = (pa.int64(), pa.int64(), pa.string())
    return [pa.repeat(pa.scalar(v, t), n) for v, t in zip(values, types, strict=True)]


def _hidden_rows(engine: Engine) -> list[dict[str, Any]]:
    """Counts of the failures that ON ERROR hid, for all templates that have some."""
    return [
        {"template": key, "nulled": t.hidden.nulls, "skipped": t.hidden.rows,
         "reason": t.hidden.reason}
        for key, t in engine.templates.items()
        if t.hidden
    ]  # fmt: skip


def _table(rows: list[dict[str, Any]], *names: str) -> pa.Table:
    return pa.table({n: pa.array([row[n] for row in rows]) for n in names})


def _stream_row(stream: StreamDef, books: Books, why_paused: WhyPaused) -> dict[str, Any]:
    meter = books.catalog.meters[stream.name]
    mark = books.engine.sources[stream.name].watermark
    return {
        "name": stream.name,
        "time": stream.time,
        "watermark": None if mark == BEGINNING else mark,
        "received": meter.received,
        "accepted": meter.accepted,
        "late": meter.late_rows,
        "quarantined": meter.quarantined,
        "source": _status(stream, why_paused),
    }


def _status(stream: StreamDef, why_paused: WhyPaused) -> str | None:
    """The status of a stream's source in SHOW STREAMS; None if rows are pushed."""
    if stream.format is None:
        return None
    reason = why_paused(stream.name)
    return f"paused: {reason}" if reason else "read"


def _time_row(stream: StreamDef, books: Books) -> dict[str, Any]:
    """The watermark, in the units of the stream's times."""
    mark = books.engine.sources[stream.name].watermark
    return {"watermark": None if mark == BEGINNING else shown_time(mark, stream.unit_time)}


@roomy
def describe(name: str, books: Books) -> pa.Table:
    """The columns of a stream, table or query."""
    found = books.catalog.relation(name)
    if isinstance(found, StreamDef | TableDef):
        schema = found.schema
    elif (info := books.queries.registry.find(name)) is not None:
        schema = books.queries.template(info).plan.schema
    else:
        raise NameError_(
            f"there is no stream, table or query {name}",
            remedy="SHOW STREAMS, TABLES or QUERIES lists them",
        )
    return pa.table({"column": list(schema.names), "type": [str(f.type) for f in schema]})


@roomy
def stats(books: Books, why_paused: WhyPaused) -> dict[str, Any]:
    """Rows and bytes, per stream and per operator."""
    engine = books.engine
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
    streams = {s.name: _stream_row(s, books, why_paused) for s in books.catalog.streams()}
    for name, row in streams.items():
        row["buffered"] = len(engine.sources[name])
    return {
        "batch": engine.batch,
        "bytes": engine.arena.nbytes,
        "strings": len(engine.strings),
        "queries": len(books.queries.registry),
        "templates": len(engine.templates),
        "hidden": _hidden_rows(engine),
        "streams": streams,
        "operators": operators,
        **engine.flows.report(),
    }


def with_shards(found: dict[str, Any], shards: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of `stats` with flows, joins and SteMs replaced by those of the shards."""
    shared = {
        what: [
            {"level": shard["level"], "shard": shard["shard"], **one}
            for shard in shards
            for one in shard.pop(what)
        ]
        for what in ("flows", "joins", "pairs", "stems")
    }
    return found | {"shards": shards} | shared
