"""A SELECT over views and tables alone: evaluated once, at the clock (docs/sql.md).

Its views are read in one step. Their rows and those of the tables become the tables of an engine
of its own, which answers as it does for a standing query.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sqlglot import exp

from penstock.delta import EVERY_CHANGE
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.errors import NameError_, QueryFailed, SqlSyntaxError
from penstock.optimizer.distribution import undivided
from penstock.optimizer.emit import choose_emits
from penstock.optimizer.stats import Stats, TableStats
from penstock.session import explain, history
from penstock.session.books import Books
from penstock.session.compile import Compiled, compile_query, optimise
from penstock.session.ordering import take_off
from penstock.session.plans import Plans
from penstock.session.runner import Runner
from penstock.session.values import literal_rows
from penstock.sql import statements as st
from penstock.sql.body import relations
from penstock.sql.catalog import MemoryCatalog, StreamDef, TableDef, ViewDef
from penstock.state.convert import to_arrow, to_rows

_KEY, _QIDS = 1, np.zeros(1, np.int64)
Contents = dict[str, pa.Table]
"""Tables and views by name, with their rows."""


def is_once(catalog: MemoryCatalog, statement: st.Statement) -> bool:
    """Whether a statement is a SELECT that reads views and tables, and no stream or window."""
    if not isinstance(statement, st.Select) or statement.history:
        return False
    if statement.emission != EVERY_CHANGE:
        return False  # it has changes to emit
    reads = statement.body.reads
    found = [catalog.relation(name) for name in reads.names]
    named = all(isinstance(relation, TableDef | ViewDef) for relation in found)
    return bool(found) and named and not reads.windowed


def answer(books: Books, runner: Runner, select: st.Statement) -> pa.Table:
    """The answer of such a SELECT now."""
    assert isinstance(select, st.Select)
    query, ordering = take_off(select.body.query)
    with runner.gate.open(), runner.gate.look():
        if not is_once(books.catalog, select):  # another thread has been here since
            raise NameError_(
                "a view or table of this SELECT was dropped while it ran",
                remedy="SHOW QUERIES and SHOW TABLES list the names",
            )
        names = _names(books, query)
        catalog, tables = _as_tables(books, names)
        _, compiled = compile_query(query, catalog, select.on_error)
        _check_parameters(compiled)
        views = [name for name in sorted(names) if name not in tables]
        notes = (history.note(books.queries, books.queries.info(name)) for name in views)
        said = next(filter(None, notes), None)
        read = runner.answers.at_once([books.queries.readable(name) for name in views])
    rows = tables | dict(zip(views, read(), strict=True))
    return history.labelled(ordering.apply(_evaluate(compiled, catalog, rows)), said)


def plan(books: Books, plans: Plans, select: st.Select) -> str:
    """The text of EXPLAIN for such a SELECT with ORDER BY, LIMIT or OFFSET."""
    query, ordering = take_off(select.body.query)
    names = _names(books, query)
    catalog, tables = _as_tables(books, names)
    for view in names - tables.keys():
        books.queries.readable(view)
    _, compiled = compile_query(query, catalog, select.on_error)
    _check_parameters(compiled)
    ordering.check(compiled.template.schema.names)
    head = f"evaluated once, over the rows that are there; then {ordering}"
    return explain.explain_once(plans, compiled, head)


def _names(books: Books, query: exp.Query) -> set[str]:
    return {books.catalog.relations[name.lower()].name for name in relations(query.walk())}


def _as_tables(books: Books, names: set[str]) -> tuple[MemoryCatalog, Contents]:
    """The relations as tables, in a catalog of their own; and what the tables among them hold."""
    catalog, contents = MemoryCatalog(udfs=books.catalog.udfs), Contents()
    for name in names:
        found = books.catalog.relation(name)
        assert not isinstance(found, StreamDef)
        if isinstance(found, TableDef):
            store = books.engine.tables[name]
            columns = to_arrow(store.contents(), store.schema, books.engine.strings)
            contents[name] = pa.Table.from_arrays(columns, schema=store.schema.arrow())
            catalog.add(TableDef(name, store.schema))
        else:
            template = books.queries.template(books.queries.info(name))
            catalog.add(TableDef(name, template.plan.schema))
    return catalog, contents


def _check_parameters(compiled: Compiled) -> None:
    if compiled.explicit:
        raise SqlSyntaxError(
            f"parameter ${compiled.params[0].name} has no value",
            code="PS-SQL-025",
            remedy="write the value, or register standing queries with query_many(text, params)",
        )


def _evaluate(compiled: Compiled, catalog: MemoryCatalog, contents: Contents) -> pa.Table:
    """Run a plan over tables once."""
    engine = Engine()
    engine.apply([b.AddUdf(udf) for udf in catalog.udfs.values()])
    for name, rows in contents.items():
        relation = catalog.relation(name)
        assert isinstance(relation, TableDef)
        words = to_rows(rows, relation.schema, engine.strings)
        none = np.empty(0, np.int64)
        engine.apply([b.AddTable(name, relation.schema), b.TableChange(name, none, words)])
    stats = Stats(tables={name: TableStats(max(1.0, t.num_rows)) for name, t in contents.items()})
    plan = optimise(compiled.template, stats, frozenset())
    emits = tuple(choose_emits(plan, stats).items())
    params = literal_rows(compiled.literals, engine.strings)
    output = engine.apply(
        [
            b.AddTemplate(_KEY, undivided(plan), compiled.params, EVERY_CHANGE, emits),
            b.AddQueries(_KEY, params, False, _QIDS, engine.epoch + 1),
        ]
    )
    for failure in output.failures:
        raise QueryFailed(
            f"the query failed: {failure.reason}",
            remedy="correct the expression, or add ON ERROR NULL or SKIP ROW",
        )
    held = engine.answers(_KEY, _QIDS)
    schema = plan.schema
    return pa.Table.from_arrays(to_arrow(held.rows, schema, engine.strings), schema=schema.arrow())
