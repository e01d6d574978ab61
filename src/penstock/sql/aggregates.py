"""GROUP BY and HAVING: keys, aggregate arguments and filters become columns below the node."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.logical.expr import Agg, Call, Column, Expr, Literal, walk
from penstock.logical.failing import can_fail
from penstock.logical.functions import AGGREGATE_ALIASES, AGGREGATES
from penstock.logical.nodes import Distinct, Filter, GroupBy, Node, Project
from penstock.sql.aggregate_calls import AggregateCalls, AggregateRef, aggregate_name
from penstock.sql.complain import misnamed, only, unsupported
from penstock.sql.expressions import Binder
from penstock.sql.projections import project
from penstock.sql.scopes import Context, Scope

_AGGREGATES = {*AGGREGATES, *AGGREGATE_ALIASES}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the select list."""

    ast: exp.Expr
    name: str


def is_aggregated(select: exp.Select, items: list[Item]) -> bool:
    """Whether a SELECT groups its rows."""
    if select.args.get("group") or select.args.get("having"):
        return True
    computed = [item.ast for item in items if not isinstance(item.ast, exp.Column | exp.Literal)]
    nodes = (n for ast in computed for n in ast.walk(prune=lambda n: isinstance(n, exp.Query)))
    return any(isinstance(n, exp.Anonymous) and n.name.lower() in _AGGREGATES for n in nodes)


class Grouping:
    """Builds the GROUP BY of one SELECT over the plan of its FROM and WHERE."""

    def __init__(self, node: Node, scope: Scope, context: Context, items: list[Item]) -> None:
        self.node = node
        self.scope = scope
        self.context = context
        self.items = items
        self.calls = AggregateCalls()
        self.aliases = {i.name.lower(): i.ast for i in items}

    def bind(self, select: exp.Select) -> Node:
        """GROUP BY, then HAVING, then the select list."""
        keys = self._keys(select.args.get("group"))
        binder = Binder(self.scope, self.context, aggregates=self.calls)
        chosen = [(binder.bind(item.ast), item) for item in self.items]
        having: exp.Having | None = select.args.get("having")
        condition = None
        if having is not None:
            aliased = Binder(self.scope, self.context, aggregates=self.calls, aliases=self.aliases)
            condition = aliased.condition(having.this)
        grouped = self._group(keys)
        above = _Above(keys)
        node: Node = grouped
        if condition is not None and having is not None:
            node = Filter(node, above.rewrite(condition, having))
        exprs = tuple(above.rewrite(expr, item.ast) for expr, item in chosen)
        return project(node, exprs, tuple(item.name for item in self.items))

    def _keys(self, group: exp.Group | None) -> list[Expr]:
        if group is None:
            return []
        for extra in ("grouping_sets", "cube", "rollup", "totals", "all"):
            if group.args.get(extra):
                raise _grouping_sets(group)
        only(group, "expressions")
        keys: list[Expr] = []
        for node in group.expressions:
            key = self._key(node)
            if key not in keys:
                keys.append(key)
        return keys

    def _key(self, node: exp.Expr) -> Expr:
        """A key: an expression, the position of a select item, or its alias."""
        if isinstance(node, exp.GroupingSets | exp.Cube | exp.Rollup | exp.Tuple):
            raise _grouping_sets(node)
        binder = Binder(self.scope, self.context)
        if isinstance(node, exp.Literal) and not node.is_string:
            position = int(node.name) if node.name.isdigit() else 0
            if not 1 <= position <= len(self.items):
                raise misnamed(
                    node, "PS-NAME-002", f"the select list has no item {node.name}",
                    f"use a position from 1 to {len(self.items)}",
                )  # fmt: skip
            return binder.bind(self.items[position - 1].ast)
        return Binder(self.scope, self.context, aliases=self.aliases).bind(node)

    def _group(self, keys: list[Expr]) -> Node:
        aggs = [_guarded(agg) for agg in self.calls.found]
        computed: list[Expr] = [*keys]
        for agg in aggs:
            computed += [e for e in (agg.arg, agg.filter) if e is not None]
        if all(isinstance(e, Column) for e in computed) and aggs:
            indices = tuple(k.index for k in keys if isinstance(k, Column))
            return GroupBy(self.node, indices, tuple(aggs), _names(aggs))
        computed = list(dict.fromkeys(computed))
        names = tuple(_name(e, i) for i, e in enumerate(computed))
        below = Project(self.node, tuple(computed), names)
        if not aggs:  # grouping without aggregates keeps one row per key
            return Distinct(below)

        def moved(expr: Expr | None) -> Expr | None:
            if expr is None:
                return None
            at = computed.index(expr)
            return Column(expr.type, at, names[at])

        over = tuple(replace(a, arg=moved(a.arg), filter=moved(a.filter)) for a in aggs)
        return GroupBy(below, tuple(computed.index(k) for k in keys), over, _names(aggs))


def _guarded(agg: Agg) -> Agg:
    """Rows that FILTER excludes cannot fail."""
    if agg.arg is None or agg.filter is None or not can_fail(agg.arg):
        return agg
    choice = (agg.filter, agg.arg, Literal(agg.arg.type, None))
    return replace(agg, arg=Call(agg.arg.type, "case", choice))


def _name(expr: Expr, position: int) -> str:
    return expr.name if isinstance(expr, Column) else f"_expr{position}"


def _names(aggs: list[Agg]) -> tuple[str, ...]:
    return tuple(aggregate_name(a.fn, i) for i, a in enumerate(aggs))


def _grouping_sets(node: exp.Expr) -> Exception:
    return unsupported(
        node, "PS-SQL-015", "GROUPING SETS, ROLLUP, CUBE and GROUP BY ALL are not supported",
        "write one query per grouping and combine them with UNION ALL",
    )  # fmt: skip


class _Above:
    """Rewrites expressions over FROM columns to ones over the GROUP BY's output."""

    def __init__(self, keys: list[Expr]) -> None:
        self.keys = keys
        self._literal = any(isinstance(e, Literal) for key in keys for e in walk(key))

    def rewrite(self, expr: Expr, ast: exp.Expr) -> Expr:
        if expr in self.keys:
            at = self.keys.index(expr)
            return Column(expr.type, at, _name(expr, at))
        if isinstance(expr, AggregateRef):
            return Column(expr.type, len(self.keys) + expr.index, expr.name)
        if isinstance(expr, Call):
            return replace(expr, args=tuple(self.rewrite(a, ast) for a in expr.args))
        if isinstance(expr, Column):
            raise misnamed(
                ast, "PS-NAME-006", f"column {expr.name} is neither grouped nor aggregated",
                f"add {expr.name} to GROUP BY, or put it into an aggregate such as max()",
            )  # fmt: skip
        if isinstance(expr, Literal) and self._literal:
            return replace(expr, at=None)  # another value might have made it part of a key
        return expr
