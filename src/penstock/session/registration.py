"""Registering queries: template and parameter rows, sharing, history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock.arrays import BEGINNING, I64
from penstock.delta import Emission
from penstock.engine import blocks as b
from penstock.engine.admission import convert, read_stream
from penstock.errors import DataError, NameError_, SqlSyntaxError
from penstock.kernels.changes import INSERT
from penstock.logical.reads import views_of
from penstock.optimizer.emit import choose_emits
from penstock.queries.names import Names
from penstock.queries.registry import Chosen, Group, TemplateInfo
from penstock.roomy import roomy
from penstock.schema import Schema
from penstock.session import compile as compiling
from penstock.session import delivery
from penstock.session import names as lookup
from penstock.session.changelog import ChangeBatch, Changelog
from penstock.session.compile import Compiled
from penstock.session.history import check_history
from penstock.session.known_texts import Prepared
from penstock.session.query import Queries, Query
from penstock.session.readers import Readers
from penstock.session.values import literal_rows
from penstock.session.windows import lengths_of
from penstock.sql.units import LONGEST
from penstock.state.convert import to_rows

if TYPE_CHECKING:
    from penstock.session.session import Session


_APART = 1 << 32  # where `_seq` begins of rows that are not in the changelog


def params_table(params: Any) -> pa.Table:
    """Parameters given as a pyarrow table or batch, a pandas frame or a list of dicts."""
    if isinstance(params, pa.RecordBatch):
        params = pa.Table.from_batches([params])
    elif isinstance(params, pd.DataFrame):
        columns = [(str(name), params.iloc[:, i]) for i, name in enumerate(params.columns)]
        params = _table_of(columns)
    elif isinstance(params, list) and all(isinstance(row, dict) for row in params):
        names = dict.fromkeys(name for row in params for name in row)
        params = _table_of([(str(name), [row.get(name) for row in params]) for name in names])
    elif not isinstance(params, pa.Table) and hasattr(params, "__arrow_c_stream__"):
        params = read_stream(params)
    if isinstance(params, pa.Table):
        _check_once(params.column_names)
        return params
    raise DataError(
        f"cannot read parameters from a {type(params).__name__}",
        remedy="pass a pyarrow Table, a pandas or Polars DataFrame or a list of dicts",
    )


def _table_of(columns: list[tuple[str, Any]]) -> pa.Table:
    """Columns of Python values or of a frame as a table."""
    arrays = []
    for name, values in columns:
        try:
            arrays.append(pa.array(values, from_pandas=isinstance(values, pd.Series)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"column {name} of params cannot be read: {error}",
                remedy="give all its values one type",
            ) from error
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _check_once(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(
                f"column {name} of params is given twice", code="PS-DATA-002", remedy="remove one"
            )


def param_rows(session: Session, compiled: Compiled, table: pa.Table) -> tuple[I64, Names]:
    """Parameter rows and query names of a table of parameters."""
    if "qid" in table.column_names:
        names = Names(_given_names(table.column("qid")))
    else:
        names = _fresh_names(session, table.num_rows)
    explicit = Schema(compiled.params.fields[: compiled.explicit])
    n = table.num_rows
    rows = np.zeros((1 + len(compiled.params), n), np.int64)
    if len(explicit) and n:
        part = _typed(table, explicit)
        rows[: 1 + len(explicit)] = to_rows(part, explicit, session._engine.strings)
        _measure(rows, compiled)
    fixed = literal_rows(compiled.literals, session._engine.strings)
    rows[1 + len(explicit) :] = fixed[1:]
    rows[0] |= fixed[0] << len(explicit)
    return rows, names


def _measure(rows: I64, compiled: Compiled) -> None:
    """Turn lengths of windows, given in their units, into those of event time."""
    for at, unit in enumerate(compiled.units):
        if not unit:
            continue
        null = (rows[0] >> at) & 1 != 0
        bad = np.flatnonzero(null | (rows[1 + at] < 1) | (rows[1 + at] > LONGEST // unit))
        if bad.shape[0]:
            value = "NULL" if null[bad[0]] else rows[1 + at, bad[0]]
            raise DataError(
                f"parameter ${compiled.params[at].name} is {value}: not a valid window length",
                code="PS-DATA-011",
                remedy=f"give a number from 1 to {LONGEST // unit}",
            )
        rows[1 + at] *= unit


def _typed(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """The columns of parameters in their types; a value that would change there is refused."""
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            raise DataError(
                f"params has no column for parameter ${field.name}",
                code="PS-DATA-012",
                remedy=f"params needs the columns {', '.join(schema.names)}",
            )
        given = table.column(field.name)
        array, bad = convert(given, field, table.num_rows)
        if bad is not None and bad.any():
            value = given[int(np.flatnonzero(bad)[0])].as_py()
            raise DataError(
                f"parameter ${field.name} has the wrong type: {value!r} is not a {field.type}",
                code="PS-DATA-013",
                remedy=f"give a {field.type}, or write CAST(${field.name} AS type) in the query",
            )
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _given_names(column: pa.ChunkedArray) -> list[str]:
    """The names in column `qid`: none is missing."""
    if column.null_count:
        raise DataError(
            "a row of params has NULL as its qid",
            code="PS-DATA-007",
            remedy="give every row a qid, or leave the column out",
        )
    return [str(v) for v in column.to_pylist()]


def _fresh_names(session: Session, count: int) -> Names:
    return session._registry.fresh_names(count, session._catalog.relations)


def register(
    session: Session, prepared: Prepared, name: str | None, text: str, history: bool = False
) -> Query:
    """Register one SELECT."""
    compiled = prepared.compiled
    if compiled.explicit:
        raise SqlSyntaxError(
            f"parameter ${compiled.params[0].name} has no value",
            code="PS-SQL-025",
            remedy="write the value, or register the query with query_many(text, params)",
        )
    rows = literal_rows(compiled.literals, session._engine.strings)
    names = _fresh_names(session, 1) if name is None else Names([name])
    history = history or prepared.history
    return add_queries(session, compiled, prepared.emission, history, rows, names, text)[0]


def add_queries(
    session: Session, compiled: Compiled, emission: Emission, history: bool, rows: I64,
    names: Names, text: str,
) -> Queries:  # fmt: skip
    """Register parameter rows of a compiled query, sharing rows that exist."""
    _check_names(session, names)
    if history and not session._is_repeating:
        check_history(session, compiled, rows)
    info, blocks = template_for(session, compiled, emission)
    qids, first = session._enter(info, rows, history)
    try:
        output = _add_rows(session, info, blocks, rows[:, first], history, qids[first])
    except BaseException:
        session._leave(info, qids)
        raise
    group = Group(info.key, text, names, qids, _clock(session, info), history)
    readers = _read(session, info, group)
    try:
        if output is not None:
            session._publish(output)
    finally:  # whatever a subscriber raised
        joining = np.flatnonzero(~np.isin(qids, qids[first]))  # rows of Q that stand
        if joining.shape[0]:
            tell_held(session, [(group, joining)], INSERT)
    return Queries(session, readers)


def _check_names(session: Session, names: Names) -> None:
    """Refuse names that somebody has; those that count on are fresh."""
    for name in names.given or ():
        lookup.is_taken(session, name, False)
    if len(set(names.given or ())) < len(names.given or ()):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise NameError_(
            f"params has the qid {twice} twice",
            code="PS-NAME-005",
            remedy="give every row its own qid",
        )


def _add_rows(
    session: Session, info: TemplateInfo, blocks: list[b.Block], rows: I64, history: bool, qids: I64
) -> b.Output | None:
    """New rows of Q, and their template if it is new; None when there are none."""
    if not rows.shape[1]:
        return None
    since, params = session._engine.epoch + 1, np.ascontiguousarray(rows)
    queries = b.AddQueries(info.key, params, history, qids, since, is_unshared(info, history))
    output = session._apply([*blocks, queries], defer=True)
    enter_template(session, info)
    return output


def is_unshared(info: TemplateInfo, history: bool) -> bool:
    """Whether no later query shares their rows of Q: they keep no answer that it could be told."""
    return history and info.monotonic


def _clock(session: Session, info: TemplateInfo) -> int:
    template = session._engine.templates.get(info.key)  # gone when its first step failed
    return BEGINNING if template is None else template.clock


def _read(session: Session, info: TemplateInfo, group: Group) -> Readers:
    """Enter new queries, if there are any, in the registry; who reads their changes."""
    if not len(group):
        return Readers.of(group, new_log(session, info))
    session._registry.add(group)
    session._readers[group.number] = readers = Readers.of(group, session._changelogs[info.key])
    return readers


def tell_held(session: Session, chosen: Chosen, kind: int) -> None:
    """What queries of one template hold, as changes of one kind: for those who share rows of Q.

    It is a batch of its own, so that (_batch, _seq) stays unique.
    """
    session._apply([])
    parts = [(session._readers[group.number], places) for group, places in chosen]
    delivery.deliver_apart(session, [(r, _held(session, r, at, kind)) for r, at in parts])


def _held(session: Session, readers: Readers, members: I64, kind: int) -> ChangeBatch:
    engine = session._engine
    changes = engine.answers(readers.template, np.unique(readers.qids[members]), kind)
    batch = readers.log.batch(engine.batch, changes, engine.strings, _APART)
    return batch.of_all(readers.owners(members))


@roomy
def template_for(
    session: Session, compiled: Compiled, emission: Emission
) -> tuple[TemplateInfo, list[b.Block]]:
    """The template of a query, and the block that makes it when it does not run."""
    found = session._registry.find_template
    info = found(compiled.template, emission)
    if info is not None and info.key in session._engine.templates:
        return info, []
    info = session._new_template(info, compiled, emission)
    return info, [template_block(info)]


def template_block(info: TemplateInfo) -> b.AddTemplate:
    """What makes a template in an engine."""
    return b.AddTemplate(info.key, info.plan, info.params, info.emission, info.emits)


@roomy
def enter_template(session: Session, info: TemplateInfo) -> None:
    """Put a template that the engine has taken into the registry."""
    session._registry.add_template(info)
    session._changelogs.setdefault(info.key, new_log(session, info))


def new_log(session: Session, info: TemplateInfo) -> Changelog:
    """An empty changelog for the queries of a template."""
    return Changelog(info.plan.schema, info.unit_time, session._keep, info.emission.per_row)


def new_template(session: Session, compiled: Compiled, emission: Emission) -> TemplateInfo:
    """Optimise a template and gather what the session needs to know of it."""
    template, stats = compiled.template, session._stats()
    plan = compiling.optimise(template, stats, session._off)
    return TemplateInfo(
        session._registry.next_template,
        template,
        plan,
        tuple(choose_emits(plan, stats).items()),
        compiled.params,
        emission,
        compiling.time_unit(template, session._catalog),
        compiling.is_monotonic(template),
        lengths_of(template),
        tuple(sorted({view.view for view in views_of(template)})),
    )
