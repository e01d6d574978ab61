"""Binding of queries: SELECT, set operations and WITH, to logical nodes."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.errors import SqlSyntaxError
from penstock.logical.expr import Column, Expr, conjunction, conjuncts, walk
from penstock.logical.failing import can_fail
from penstock.logical.nodes import Distinct, Filter, Node, SetKind, SetOp
from penstock.sql import coercion
from penstock.sql.aggregates import Grouping, Item, is_aggregated
from penstock.sql.complain import OTHER, misnamed, mistyped, only, unsupported, words
from penstock.sql.dialect import place_of
from penstock.sql.expressions import Binder
from penstock.sql.from_clause import Ctes, FromBinder, renamed
from penstock.sql.joins import absorb, build, is_nrr, nrr_refusal
from penstock.sql.projections import outputs, project, typed
from penstock.sql.scopes import Context, Outer, Scope
from penstock.sql.subqueries import (
    Inner,
    SubqueryBinder,
    constant_output,
    is_predicate,
    refuse_correlation,
)

_READ = "make a view of the query without it, then SELECT … FROM view ORDER BY … LIMIT …"
_REFUSED = {
    "order": ("PS-SQL-010", "ORDER BY in a standing query or subquery is not supported", _READ),
    "limit": ("PS-SQL-011", "LIMIT in a standing query or subquery is not supported", _READ),
    "offset": ("PS-SQL-011", "OFFSET in a standing query or subquery is not supported", _READ),
    "qualify": ("PS-SQL-012", "QUALIFY is not supported", "use GROUP BY and HAVING"),
    "windows": ("PS-SQL-012", "the WINDOW clause is not supported", "put [RANGE …] on the stream"),
    "laterals": ("PS-SQL-014", "LATERAL is not supported", "join with a subquery in FROM"),
}
_CLAUSES = (
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "kind",
)  # fmt: skip
_SET_KINDS: dict[type[exp.Expr], SetKind] = {
    exp.Union: SetKind.UNION, exp.Intersect: SetKind.INTERSECT, exp.Except: SetKind.EXCEPT,
}  # fmt: skip


class QueryBinder:
    """Binds queries over one catalog and one set of parameters; `ctes` are visible."""

    def __init__(self, context: Context, ctes: Ctes) -> None:
        self.context = context
        self.ctes = ctes

    def query(self, node: Any) -> Node:
        """A query of any form."""
        while isinstance(node, exp.Subquery | exp.Paren):
            only(node, "this", "with_")
            node = node.this
        within = self._with(node)
        if isinstance(node, exp.Select):
            return within._select(node, None, exists=False).node
        if isinstance(node, exp.SetOperation):
            return within._set_operation(node)
        raise unsupported(node, OTHER, f"{words(node)} is not a query", "write a SELECT")

    def relation(self, node: exp.Expr) -> Node:
        """A query in FROM or WITH: every column has a type."""
        return typed(self.query(node))

    def correlated(self, node: Any, outer: Scope, exists: bool) -> Inner:
        """A subquery of WHERE, which may use columns of `outer`."""
        while isinstance(node, exp.Subquery | exp.Paren):
            node = node.this
        if not isinstance(node, exp.Select):
            plan = self.query(node)
            return Inner(plan, outputs(plan), ())
        return self._with(node)._select(node, outer, exists)

    def _with(self, node: exp.Expr) -> QueryBinder:
        """The binder inside `node`: with its common table expressions."""
        _refuse_modifiers(node)
        clause = node.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            raise unsupported(
                clause, "PS-SQL-013", "WITH RECURSIVE is not supported",
                "leave RECURSIVE out if the query is not recursive",
            )  # fmt: skip
        within = QueryBinder(self.context, dict(self.ctes))
        for cte in clause.expressions:
            only(cte, "this", "alias")
            plan = within.relation(cte.this)
            within.ctes[cte.alias.lower()] = renamed(plan, cte.args["alias"], cte)
        return within

    # ---- set operations --------------------------------------------------------------
    def _set_operation(self, node: exp.SetOperation) -> Node:
        only(node, "this", "expression", "distinct", "with_")
        left, right = self.query(node.this), self.query(node.expression)
        if len(left.schema) != len(right.schema):
            raise mistyped(
                node, f"{node.key.upper()} of {len(left.schema)} and {len(right.schema)} columns",
                "select the same number of columns on both sides", "PS-TYPE-005",
            )  # fmt: skip
        columns = [
            coercion.unify((a, b), node) for a, b in zip(outputs(left), outputs(right), strict=True)
        ]
        sides = (
            project(left, tuple(a for a, _ in columns), left.schema.names),
            project(right, tuple(b for _, b in columns), right.schema.names),
        )
        return SetOp(*sides, _SET_KINDS[type(node)], all=node.args.get("distinct") is False)

    # ---- SELECT ----------------------------------------------------------------------
    def _select(self, node: exp.Select, outer: Scope | None, exists: bool) -> Inner:
        only(node, *_CLAUSES)
        if not node.expressions:
            raise SqlSyntaxError(
                "this SELECT has no select list",
                place=place_of(node),
                remedy="name columns, or write *",
            )
        if node.args.get("from_") is None:
            raise unsupported(
                node, "PS-SQL-023", "a SELECT without FROM is not a standing query",
                "select from a stream or table",
            )  # fmt: skip
        source = FromBinder(self.context, self.ctes, self.relation).bind(node)
        plan, correlation = self._where(node, source, outer)
        items = _items(node, source.scope)
        distinct = node.args.get("distinct")
        if distinct is not None:
            only(distinct, "expressions")
        if is_aggregated(node, items):
            refuse_correlation(node, correlation)
            plan = Grouping(plan, source.scope, self.context, items).bind(node)
        elif outer is not None and exists:
            return Inner(plan, constant_output(), tuple(correlation))
        else:
            binder = Binder(source.scope, self.context)
            exprs = tuple(binder.bind(item.ast) for item in items)
            if outer is not None and correlation:
                return Inner(plan, exprs, tuple(correlation))
            plan = project(plan, exprs, tuple(item.name for item in items))
        if distinct is not None:
            plan = Distinct(plan)
        return Inner(plan, outputs(plan), ())

    def _where(self, node: exp.Select, source: Any, outer: Scope | None) -> tuple[Node, list[Expr]]:
        """FROM and WHERE: join conditions, a filter, subqueries, and the correlated conditions."""
        where = node.args.get("where")
        parts = _and_parts(where.this) if where is not None else []
        predicates = [p for p in parts if is_predicate(p)]
        binder = Binder(source.scope, self.context, outer)
        bound: list[Expr] = []
        for part in parts:
            if not is_predicate(part):
                bound += conjuncts(binder.condition(part))
        correlation = [c for c in bound if any(isinstance(e, Outer) for e in walk(c))]
        local = [c for c in bound if c not in correlation]
        kept = [c for c in sorted(local, key=can_fail) if not absorb(source.tree, c)]
        plan = build(source.tree)
        if is_nrr(plan):
            raise nrr_refusal(plan, place_of(node.args["from_"]))
        late = [c for c in kept if can_fail(c)] if predicates else []  # the subqueries guard them
        plan = _filtered(plan, [c for c in kept if c not in late])
        subqueries = SubqueryBinder(self, source.scope)
        for predicate in predicates:
            plan = subqueries.apply(plan, predicate)
        return _filtered(plan, late), correlation


def _filtered(plan: Node, parts: list[Expr]) -> Node:
    condition = conjunction(parts)
    return plan if condition is None else Filter(plan, condition)


def _and_parts(node: exp.Expr) -> list[exp.Expr]:
    """Conjuncts of a condition as written, in order."""
    parts: list[exp.Expr] = []
    todo = [node]
    while todo:
        top = todo.pop()
        while isinstance(top, exp.Paren):
            top = top.this
        if isinstance(top, exp.And):
            todo += [top.expression, top.this]
        else:
            parts.append(top)
    return parts


def _refuse_modifiers(node: exp.Expr) -> None:
    for name, (code, message, remedy) in _REFUSED.items():
        clause = node.args.get(name)
        if clause:
            what = clause[0] if isinstance(clause, list) else clause
            raise unsupported(what if place_of(what) else node, code, message, remedy)


def _items(node: exp.Select, scope: Scope) -> list[Item]:
    """The select list with stars spelled out."""
    items: list[Item] = []
    for position, item in enumerate(node.expressions, 1):
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            items += _star(item, scope)
        elif isinstance(item, exp.Alias):
            items.append(Item(item.this, item.alias))
        else:
            items.append(Item(item, _default_name(item, position, scope)))
    return items


def _star(item: Any, scope: Scope) -> list[Item]:
    star = item if isinstance(item, exp.Star) else item.this
    only(star)
    table = "" if isinstance(item, exp.Star) else item.table
    names = scope.star(table)
    if not names:
        raise misnamed(
            item, "PS-NAME-001", f"there is no relation {table} here",
            f"the relations here are {', '.join(sorted(scope.relations))}",
        )  # fmt: skip
    items = []
    for name in names:
        column = exp.column(name.column, table=name.relation or None)
        column.meta["at"] = place_of(item)
        items.append(Item(column, name.column))
    return items


def _default_name(item: Any, position: int, scope: Scope) -> str:
    """The name of an item without alias: never one that depends on a constant."""
    while isinstance(item, exp.Paren | exp.Cast | exp.Filter):
        item = item.this
    if isinstance(item, exp.Column):
        found = scope.find(item)
        return found.name if isinstance(found, Column) and found.name else item.name
    return item.name.lower() if isinstance(item, exp.Anonymous) else f"col{position}"
