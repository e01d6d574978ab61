"""From a bound SELECT to a template: lift, lower, check, optimise."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.delta import EVERY_CHANGE, Emission
from penstock.errors import PlanError, SqlSyntaxError
from penstock.logical.expr import Expr, Literal, children
from penstock.logical.nodes import Node, exprs_of
from penstock.logical.on_error import OnError
from penstock.logical.reads import streams_of
from penstock.optimizer.lower_windows import lower_windows
from penstock.optimizer.optimizer import optimize
from penstock.optimizer.stats import Stats
from penstock.patterns.check import check_bounded
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import pattern_of
from penstock.roomy import roomy
from penstock.schema import Schema
from penstock.session.values import params_schema
from penstock.session.windows import Lengths, lift_windows
from penstock.sql.binder import Bound, bind
from penstock.sql.catalog import Catalog, MemoryCatalog, StreamDef
from penstock.sql.lift import lift
from penstock.sql.statements import Select

_DEEPEST = 150  # levels of a plan: what walks it by recursion has room for more


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query taken apart: its template, the constants it had, and facts about it."""

    template: Node
    literals: tuple[Literal, ...]
    params: Schema
    units: tuple[int, ...] = ()
    """Of the parameters written as $name, how long one is if it is a window's length, else 0."""

    @property
    def explicit(self) -> int:
        """How many of the parameters were written as $name."""
        return len(self.units)


def compile_select(select: Select, catalog: Catalog, lengths: Lengths | None = None) -> Compiled:
    """A SELECT as a template and its constants."""
    return compile_query(select.body.query, catalog, select.on_error, select.emission, lengths)[1]


@roomy
def compile_query(
    query: exp.Query,
    catalog: Catalog,
    on_error: OnError | None,
    emission: Emission = EVERY_CHANGE,
    lengths: Lengths | None = None,
) -> tuple[Node, Compiled]:
    """Bind a query and lift its constants; refuse one that nests deeper than all may walk.

    The first result is what stands for the query where its name is used.
    """
    try:
        bound = bind(query, catalog, on_error or "fail")
        compiled = compile_bound(bound, emission, lengths)
    except RecursionError as error:
        raise _too_deep() from error
    if _depth(compiled.template) > _DEEPEST:
        raise _too_deep()
    return bound.node, compiled


def _too_deep() -> SqlSyntaxError:
    return SqlSyntaxError(
        "the statement is nested too deeply",
        code="PS-SQL-028",
        remedy="write lists with IN, or split it into several queries",
    )


def _depth(template: Node) -> int:
    """The levels of a plan and of the expressions in it, without recursion."""
    deepest = 0
    todo: list[tuple[Node | Expr, int]] = [(template, 1)]
    while todo:
        top, level = todo.pop()
        deepest = max(deepest, level)
        if isinstance(top, Node):
            todo += [(node, level + 1) for node in top.inputs]
            todo += [(expr, level + 1) for expr in exprs_of(top)]
        else:
            todo += [(part, level + 1) for part in children(top)]
    return deepest


def compile_bound(bound: Bound, emission: Emission, lengths: Lengths | None = None) -> Compiled:
    """Lift the constants of a bound query; `lengths` are those that were asked for before.

    Counting at commit and sets of queries have ways of their own for very many queries, which
    want one length.
    """
    lifted, literals = lift(bound.node, bound.params)
    check_bounded(lifted)
    template, first = lower_windows(lifted), len(bound.params) + len(literals)
    template, more = lift_windows(template, first)
    if not more and lengths is not None and emission == EVERY_CHANGE:
        template, more = lengths.lift(template, first)
    literals += more
    named = [(p.name, p.type) for p in bound.params]
    units = tuple(p.unit for p in bound.params)
    constants = [(f"p{len(named) + i + 1}", lit.type) for i, lit in enumerate(literals)]
    return Compiled(template, literals, params_schema(named + constants), units)


def optimise(template: Node, stats: Stats, off: frozenset[str]) -> Node:
    """The plan that runs."""
    return optimize(template, stats, off)


def time_unit(template: Node, catalog: MemoryCatalog) -> bool:
    """Whether event time counts plain units; all streams of a plan must agree."""
    units = set()
    for name in streams_of(template):
        stream = catalog.relation(name)
        assert isinstance(stream, StreamDef)
        units.add(stream.unit_time)
    if len(units) > 1:
        raise PlanError(
            "one query cannot read streams with TIMESTAMP time and streams with BIGINT time",
            code="PS-PLAN-006",
            remedy="declare all time columns with the same type",
        )
    if not units:  # tables alone: the time of the session's streams
        streams = [r for r in catalog.relations.values() if isinstance(r, StreamDef)]
        return bool(streams) and all(s.unit_time for s in streams)
    return units.pop()


def is_monotonic(template: Node) -> bool:
    """Whether the query has changes but no view."""
    return pattern_of(template) is Pattern.MON
