"""Pre-filter: do not ship rows of an external stream that no query can match (DESIGN §5.6).

If every scan of a route has a filter right above it, and few queries use it, `pack` evaluates
the filters with the queries' constants and drops the other rows. It may keep too many rows (a
predicate that fails keeps its row, so that the shard sees the failure) but never too few.
Watermarks and counts are taken before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.arrays import I64, Bool
from penstock.engine import blocks as b
from penstock.expressions.condition import Condition
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hidden
from penstock.logical.expr import Call, Expr, Literal, Param, walk
from penstock.logical.nodes import Filter, Node, Rows, Scan
from penstock.queries.query_table import QueryTable
from penstock.schema import Schema
from penstock.state.arena import Arena
from penstock.state.convert import to_rows
from penstock.state.strings import StringTable
from penstock.types import SqlType

MOST_QUERIES = 16
"""With more queries behind a filter, only the shards match."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate over some columns of the stream."""

    columns: tuple[int, ...]
    predicate: Expr


Prefilter = tuple[Clause, ...]
"""A row is kept if any clause holds."""


def readers(template: b.AddTemplate, route: str) -> Iterator[Clause | None]:
    """The rows that each scan of a route accepts; None means all."""
    view = template.plan.view_at(1)
    roots = [] if view is None else [view]
    for root in [*roots, *(send.node for send in template.plan.sends)]:
        yield from _readers(root, None, route)


def _readers(node: Node, predicate: Expr | None, route: str) -> Iterator[Clause | None]:
    if isinstance(node, Scan):
        if node.stream == route:  # a row counts in a ROWS window whether or not a filter keeps it
            if predicate is None or isinstance(node.window, Rows):
                yield None
            else:
                yield Clause(node.columns, predicate)
        return
    for child in node.inputs:
        yield from _readers(child, node.predicate if isinstance(node, Filter) else None, route)


def with_constants(clause: Clause, params: Schema, queries: QueryTable, qids: I64,
                   strings: StringTable) -> Iterator[Clause] | None:  # fmt: skip
    """The clause for every query behind it; None if it cannot be evaluated here."""
    if any(
        isinstance(part, Call) and part.fn.startswith("udf:") for part in walk(clause.predicate)
    ):
        return None
    if not any(isinstance(part, Param) for part in walk(clause.predicate)):
        return iter([clause])
    if qids.shape[0] > MOST_QUERIES:
        return None
    rows = queries.params_of(qids)
    return (
        replace(clause, predicate=_bind(clause.predicate, rows[:, i], params, strings))
        for i in range(qids.shape[0])
    )


def _bind(expr: Expr, row: I64, params: Schema, strings: StringTable) -> Expr:
    if isinstance(expr, Param):
        return _literal(params[expr.index].type, expr.index, row, strings)
    if isinstance(expr, Call):
        return Call(expr.type, expr.fn, tuple(_bind(a, row, params, strings) for a in expr.args))
    return expr


def _literal(type_: SqlType, index: int, row: I64, strings: StringTable) -> Literal:
    if (int(row[0]) >> index) & 1:
        return Literal(type_, None)
    word = row[1 + index : 2 + index]
    if type_.is_string:
        return Literal(type_, strings.text(int(word[0])))
    if type_.is_float:
        return Literal(type_, float(word.view(np.float64)[0]))
    return Literal(type_, int(word[0]))


def wanted(batch: pa.RecordBatch, schema: Schema, clauses: Prefilter) -> Bool:
    """The rows of a batch that some query may match."""
    strings = StringTable(Arena().scope("strings"))
    ctx = Context(strings, {}, Failures())
    keep = np.zeros(batch.num_rows, np.bool_)
    made: dict[tuple[int, ...], I64] = {}
    for clause in clauses:
        if clause.columns not in made:
            chosen = batch.select([schema[c].name for c in clause.columns])
            made[clause.columns] = to_rows(chosen, schema.select(clause.columns), strings)
        hidden = Hidden()
        try:
            keep |= Condition.of(clause.predicate, ctx).mask(made[clause.columns], None, hidden)
            keep |= hidden.rows(keep.shape[0])  # the shard counts them
        except EvaluationError as error:
            keep |= error.bad  # the shard reports the failure; evaluate the other rows again
            rest = np.flatnonzero(~error.bad)
            keep[rest] |= _sure(clause, made[clause.columns][:, rest], ctx)
    return keep


def _sure(clause: Clause, rows: I64, ctx: Context) -> Bool:
    """A clause on the rows that do not fail; if more fail, all are kept."""
    hidden = Hidden()
    try:
        taken = Condition.of(clause.predicate, ctx).mask(np.ascontiguousarray(rows), None, hidden)
        return taken | hidden.rows(rows.shape[1])
    except EvaluationError:
        return np.ones(rows.shape[1], np.bool_)
