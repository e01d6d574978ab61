"""The relations of FROM: streams and tables by name, views and CTEs inlined, windows applied."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from penstock.errors import NameError_, PlanError, UnsupportedError
from penstock.logical.expr import Written
from penstock.logical.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Now,
    Project,
    Range,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Window,
    Windowed,
    walk,
)
from penstock.schema import Schema
from penstock.sql.catalog import Catalog, StreamDef, TableDef, ViewDef
from penstock.sql.coercion import Params
from penstock.sql.complain import (
    OTHER,
    WINDOW,
    misnamed,
    only,
    unsupported,
    words,
)
from penstock.sql.joins import is_nrr
from penstock.sql.scopes import Context
from penstock.sql.windows import WINDOW_CALLS, WINDOW_REMEDY, WindowSpec


def window_of(node: exp.Expr) -> WindowSpec | None:
    """The window written after a relation or after its alias."""
    alias = node.args.get("alias")
    specs = [n.meta["window"] for n in (node, alias) if n is not None and "window" in n.meta]
    if len(specs) > 1:
        raise unsupported(node, WINDOW, "one relation has two windows", "keep one of them")
    return specs[0] if specs else None


def named_relation(node: exp.Table, context: Context, ctes: dict[str, Node]) -> Node:
    """The plan of a relation that is named in FROM, with its window."""
    catalog = context.catalog
    only(node, "this", "alias", "joins")
    if not isinstance(node.this, exp.Identifier):
        windowing = node.this.name.lower() in WINDOW_CALLS
        remedy = WINDOW_REMEDY if windowing else "name a stream, table or view"
        raise unsupported(node, OTHER, "table functions are not supported", remedy)
    name, spec = node.name, window_of(node)
    if name.lower() in ctes:
        return windowed(ctes[name.lower()], spec, context)
    relation = catalog.relation(name)
    if isinstance(relation, StreamDef):
        window = resolve(spec, relation.schema, relation.unit_time, context.params)
        everything = tuple(range(len(relation.schema)))
        return Scan(relation.name, relation.schema, window, everything)
    if isinstance(relation, TableDef):
        if spec is not None:
            raise unsupported(
                node, WINDOW, f"{name} is a table: it has no windows", "leave the window out"
            )
        everything = tuple(range(len(relation.schema)))
        return TableScan(relation.name, relation.schema, relation.nonretroactive, everything)
    if isinstance(relation, ViewDef):
        view = _view(relation, node)
        context.views.append(view)
        return windowed(view, spec, context)
    raise _unknown(node, catalog, ctes)


def _view(view: ViewDef, node: exp.Table) -> Node:
    if view.params:
        raise unsupported(
            node, OTHER, f"{view.name} has parameters and cannot be read by another query",
            "write its constants out, or repeat its definition",
        )  # fmt: skip
    return view.node


def _unknown(node: exp.Table, catalog: Catalog, ctes: dict[str, Node]) -> Exception:
    close = get_close_matches(node.name.lower(), [*ctes, *catalog.names], n=1)
    remedy = (
        f"did you mean {close[0]}?" if close else "CREATE it first; SHOW STREAMS lists the streams"
    )
    return misnamed(node, "PS-NAME-001", f"there is no stream, table or view {node.name}", remedy)


def resolve(spec: WindowSpec | None, schema: Schema, unit_time: bool, params: Params) -> Window:
    """A parsed window bound to a relation."""
    if spec is None:
        return Unbounded(explicit=False)
    if spec.kind == "unbounded":
        return Unbounded(explicit=True)
    if spec.kind == "now":
        return Now()
    if spec.kind == "rows":
        return Rows(spec.count, _partition(spec, schema))
    assert spec.length is not None
    span, length = spec.length, spec.length.resolve(unit_time, "RANGE")
    if span.name is not None:
        return Range(params.length(span.name, span.one, span.place), micros=not unit_time)
    assert span.place is not None
    slide = spec.slide.resolve(unit_time, "SLIDE") if spec.slide else 0
    try:
        return Range(length, slide, not unit_time, Written(span.place, unit=span.one))
    except PlanError as error:
        raise PlanError(
            error.message, code=error.code, place=spec.place,
            remedy="make SLIDE at most as long as RANGE",
        ) from error  # fmt: skip


def _partition(spec: WindowSpec, schema: Schema) -> tuple[int, ...]:
    lower = [n.lower() for n in schema.names]
    for name in spec.partition:
        if lower.count(name.lower()) != 1:
            raise NameError_(
                f"there is no column {name} to partition by", code="PS-NAME-002",
                place=spec.place, remedy=f"the columns are {', '.join(schema.names)}",
            )  # fmt: skip
    return tuple(lower.index(name.lower()) for name in spec.partition)


def windowed(node: Node, spec: WindowSpec | None, context: Context) -> Node:
    """A window over a view, CTE or subquery, which must be stateless."""
    if spec is None:
        return node
    if not is_monotonic(node):
        raise UnsupportedError(
            "a window can only be put on a stream or on a stateless query over one",
            code=WINDOW, place=spec.place,
            remedy="put the window on the stream inside: only filters, projections and UNION ALL "
            "of unwindowed streams can get one from outside",
        )  # fmt: skip
    unit_time = _unit_time(node, context.catalog)
    return Windowed(node, resolve(spec, node.schema, unit_time, context.params))


def is_monotonic(node: Node) -> bool:
    """Whether rows only ever arrive: MON by rule 1 of Golab & Özsu §5.2."""
    if isinstance(node, Scan):
        return isinstance(node.window, Unbounded)
    if isinstance(node, Filter | Project):
        return is_monotonic(node.input)
    if isinstance(node, SetOp):
        union = node.kind is SetKind.UNION and node.all
        return union and is_monotonic(node.left) and is_monotonic(node.right)
    if isinstance(node, Join):  # an NRR join keeps the pattern of its stream
        return node.kind is JoinKind.INNER and is_nrr(node.right) and is_monotonic(node.left)
    return False


def _unit_time(node: Node, catalog: Catalog) -> bool:
    streams = [catalog.relation(n.stream) for n in walk(node) if isinstance(n, Scan)]
    return all(isinstance(s, StreamDef) and s.unit_time for s in streams)


def refuse_relation(node: Any) -> Exception:
    """The error for something in FROM that is not a supported relation."""
    if isinstance(node, exp.Lateral):
        return unsupported(
            node, "PS-SQL-014", "LATERAL is not supported", "join with a subquery in FROM"
        )
    return unsupported(
        node, OTHER, f"{words(node)} in FROM is not supported",
        "name a stream, table or view, or write a subquery",
    )  # fmt: skip
