"""IF NOT EXISTS: if the name exists, its definition must equal the one in the statement.

A different definition is an error, because continuing with it would be silently wrong. Case, white
space and the order of clauses and options do not matter. Secrets in options are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.errors import NameError_
from penstock.logical.strategy import Strategy
from penstock.schema import Schema
from penstock.secret import MASK, is_secret
from penstock.session.catalog import SessionCatalog
from penstock.session.sinks import SinkBook
from penstock.session.standing import Standing
from penstock.sql import statements as st
from penstock.sql.binder import bind
from penstock.sql.catalog import StreamDef, TableDef, ViewDef, stream_def, table_def
from penstock.sql.cursor import Text
from penstock.sql.dialect import tokenize
from penstock.sql.units import written

_Named = st.CreateStream | st.CreateTable | st.CreateView | st.CreateSink
Parts = Mapping[str, str]
"""A definition: text by clause."""


def check_stream(catalog: SessionCatalog, statement: st.CreateStream) -> None:
    """Raise an error if the existing stream has another definition."""
    found = catalog.relation(statement.name)
    if isinstance(found, StreamDef) and catalog.meters[found.name].altered:
        found = replace(found, retain=statement.retain)  # ALTER STREAM may have changed it
    there = _stream(found) if isinstance(found, StreamDef) else {}
    _compare("stream", statement, there, _stream(stream_def(statement)))


def check_table(catalog: SessionCatalog, statement: st.CreateTable) -> None:
    """Raise an error if the existing table has another definition."""
    found = catalog.relation(statement.name)
    there = _table(found) if isinstance(found, TableDef) else {}
    _compare("table", statement, there, _table(table_def(statement)))


def check_sink(sinks: SinkBook, statement: st.CreateSink) -> None:
    """Raise an error if the existing sink has another definition."""
    _compare("sink", statement, _sink(sinks.statement(statement.name)), _sink(statement))


def check_view(standing: Standing, statement: st.CreateView) -> str:
    """Return the view's name as declared; raise an error if its definition is another one."""
    queries = standing.queries
    known = standing.catalog.relation(statement.name)
    info = queries.registry.find(known.name) if isinstance(known, ViewDef) else None
    if info is None or not isinstance(known, ViewDef):
        raise _differs("view", statement, f"{statement.name} is not a view")
    text, select = info.group.text, statement.select
    _check_strategy(statement, queries.template(info).strategy)
    if _body(text) == _body(statement.source):
        return known.name  # valid even if a relation it reads has been dropped since
    template = queries.template(info)
    there = (known.node, template.emission, info.group.history)
    bound = bind(select.body.query, standing.as_for(known.node), select.on_error or "fail")
    if there != (bound.node, select.emission, select.history):
        raise _differs(
            "view", statement, f"it is defined as {text}, the statement as {statement.source}"
        )
    return known.name


def _check_strategy(statement: st.CreateView, there: Strategy) -> None:
    """Raise an error if the statement names a strategy that is not the existing view's."""
    named = statement.select.strategy
    if named not in (None, there):
        how = f"its strategy is {there}, the statement's {named}"
        raise _differs("view", statement, how)


def _body(text: str) -> list[str]:
    """The tokens of a view's definition after AS; case matters inside quotes only."""
    tokens = [(t.text, text[t.start]) for t in tokenize(Text(text))]
    words = [first + word if first in "'\"" else word.upper() for word, first in tokens]
    return words[words.index("AS") :]


def _compare(kind: str, statement: _Named, there: Parts, here: Parts) -> None:
    if not there:
        raise _differs(kind, statement, f"{statement.name} is not a {kind}")
    wrong = [
        f"it has {_shown(clause, there)}, the statement has {_shown(clause, here)}"
        for clause in {**there, **here}
        if _folded(clause, there) != _folded(clause, here)
    ]
    if wrong:
        raise _differs(kind, statement, "; ".join(wrong))


def _differs(kind: str, statement: _Named, how: str) -> NameError_:
    return NameError_(
        f"{kind} {statement.name} exists with another definition: {how}",
        code="PS-NAME-012",
        place=statement.place,
        remedy="repeat the existing definition, DROP it first, or choose another name",
    )


def _folded(clause: str, parts: Parts) -> str | None:
    text = parts.get(clause)
    return text if text is None or clause.startswith("OPTIONS") else text.lower()


def _shown(clause: str, parts: Parts) -> str:
    if clause not in parts:
        return f"no {clause}"
    return f"{clause} {MASK if is_secret(clause, parts[clause]) else parts[clause]}"


def _stream(stream: StreamDef) -> Parts:
    length: Callable[[int], str] = str if stream.unit_time else written
    found = {"columns": _columns(stream.schema), "TIMESTAMP BY": stream.time}
    if stream.format is not None:
        found["FROM"] = stream.format
    for clause, value, text in (
        ("DELAY", stream.delay or None, length), ("MAX AHEAD", stream.max_ahead, length),
        ("RETAIN", stream.retain, length), ("IDLE AFTER", stream.idle_after, written),
        ("TICK", stream.tick, written),
    ):  # fmt: skip
        if value is not None:
            found[clause] = text(value)
    return {**found, **_options(stream.options)}


def _table(table: TableDef) -> Parts:
    found = {"columns": _columns(table.schema)}
    return {**found, "NONRETROACTIVE": "table"} if table.nonretroactive else found


def _sink(sink: st.CreateSink) -> Parts:
    return {"FROM": sink.view, "INTO": sink.format, **_options(sink.options)}


def _columns(schema: Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"


def _options(options: st.Options) -> Parts:
    return {f"OPTIONS {key.lower()}": f"'{value}'" for key, value in options}
