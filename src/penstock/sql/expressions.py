"""Binding of scalar expressions: names to columns, operators to typed calls.

This is an allow-list: every supported kind of node has a handler here or in `calls`; all others
are refused. Subqueries are bound one level up, as conjuncts of WHERE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.logical.expr import Call, Expr, Literal, chained, walk
from penstock.sql import coercion
from penstock.sql.aggregate_calls import AggregateCalls
from penstock.sql.arithmetic import arithmetic, negative
from penstock.sql.calls import bind_call, bind_extract
from penstock.sql.complain import (
    OTHER,
    SUBQUERY,
    misnamed,
    mistyped,
    only,
    unsupported,
    words,
)
from penstock.sql.dialect import place_of
from penstock.sql.literals import literal_of, type_of
from penstock.sql.scopes import Context, Outer, Scope
from penstock.types import BOOLEAN, STRING

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
}
_CONSTANTS = (exp.Literal, exp.Null, exp.Boolean, exp.Interval)
_VOLATILE = (
    exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime,
    exp.Localtime, exp.Localtimestamp,
)  # fmt: skip


class Binder:
    """Binds expressions over one scope.

    `outer` is the enclosing query's scope in a correlated subquery, `aggregates` collects
    aggregate calls where they are allowed, `aliases` are select items that GROUP BY and
    HAVING may name.
    """

    def __init__(
        self,
        scope: Scope,
        context: Context,
        outer: Scope | None = None,
        aggregates: AggregateCalls | None = None,
        aliases: dict[str, exp.Expr] | None = None,
    ) -> None:
        self.scope = scope
        self.context = context
        self.outer = outer
        self.aggregates = aggregates
        self.aliases = aliases or {}

    def bind(self, node: exp.Expr) -> Expr:
        """A finished expression: every parameter in it has a type."""
        expr = self.partial(node)
        if any(isinstance(e, coercion.FreeParam) for e in walk(expr)):
            raise coercion.untyped(expr, node)
        return expr

    def condition(self, node: exp.Expr) -> Expr:
        """A finished expression of type BOOLEAN."""
        return coercion.boolean(self.partial(node), node)

    def partial(self, node: exp.Expr) -> Expr:
        """An expression that may be a bare parameter without a type yet."""
        if isinstance(node, _CONSTANTS):
            literal = literal_of(node)
            assert literal is not None
            return literal
        if type(node) in _COMPARISONS:
            _refuse_null(node, node.this, node.expression)
            left, right = self.partial(node.this), self.partial(node.expression)
            return coercion.compare(_COMPARISONS[type(node)], left, right, node)
        if type(node) in _ARITHMETIC:
            left, right = self.partial(node.this), self.partial(node.expression)
            return arithmetic(_ARITHMETIC[type(node)], left, right, node)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise _refusal(node)
        return handler(self, node)

    def column(self, node: exp.Column) -> Expr:
        """A column, an alias of the select list, or a column of the enclosing query."""
        only(node, "this", "table")
        if isinstance(node.this, exp.Star):
            raise unsupported(
                node, OTHER, "* can only be an item of the select list", "name the columns"
            )
        if not isinstance(node.this, exp.Identifier):
            raise unsupported(
                node, OTHER, "no column name follows the dot", "write the column's name"
            )
        expr = self.scope.find(node)
        if expr is not None:
            return expr
        if not node.table and node.name.lower() in self.aliases:
            return self.without_aliases().partial(self.aliases[node.name.lower()])
        if self.outer is not None:
            expr = self.outer.find(node)
            if expr is not None:
                return _outer(expr, node)
        raise self.scope.unknown(node)

    def without_aliases(self) -> Binder:
        """The same binder without access to select items."""
        return Binder(self.scope, self.context, self.outer, self.aggregates)

    def inner(self) -> Binder:
        """The binder of an aggregate's argument: no aggregates in it."""
        return Binder(self.scope, self.context)


def _refuse_null(node: exp.Expr, *sides: exp.Expr) -> None:
    """Refuse to compare with a NULL that is written out: the answer is never true."""
    for side in sides:
        while isinstance(side, exp.Paren):
            side = side.this
        if isinstance(side, exp.Null):
            raise mistyped(
                node, "a comparison with NULL is never true",
                "write IS NULL or IS NOT NULL; to compare values that may be NULL, write "
                "IS [NOT] DISTINCT FROM", "PS-TYPE-012",
            )  # fmt: skip


def _outer(expr: Expr, node: exp.Column) -> Expr:
    index = getattr(expr, "index", None)
    if index is None:
        raise misnamed(
            node, "PS-NAME-003", f"column {node.name} is merged by USING in the outer query",
            "write the relation before it: relation.column",
        )  # fmt: skip
    return Outer(expr.type, index, node.name)


def _paren(binder: Binder, node: Any) -> Expr:
    return binder.partial(node.this)


def _parameter(binder: Binder, node: Any) -> Expr:
    return binder.context.params.reference(node.name, place_of(node))


def _logic(fn: str) -> Callable[[Binder, Any], Expr]:
    def bind(binder: Binder, node: Any) -> Expr:
        # A long chain leans to the left: walk it in a loop, not by recursion.
        parts: list[exp.Expr] = []
        kind, top = type(node), node
        while type(top) is kind:
            parts.append(top.expression)
            top = top.this
        return chained(fn, [binder.condition(part) for part in (top, *reversed(parts))])

    return bind


def _not(binder: Binder, node: Any) -> Expr:
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return Call(BOOLEAN, "is_not_null", (binder.bind(inner.this),))
    return Call(BOOLEAN, "not", (binder.condition(node.this),))


def _is(binder: Binder, node: Any) -> Expr:
    only(node, "this", "expression")
    if isinstance(node.expression, exp.Null):
        return Call(BOOLEAN, "is_null", (binder.bind(node.this),))
    if isinstance(node.expression, exp.Boolean):
        truth = binder.condition(node.this)
        if not node.expression.this:
            truth = Call(BOOLEAN, "not", (truth,))
        return Call(BOOLEAN, "coalesce", (truth, Literal(BOOLEAN, False)))
    raise unsupported(node, OTHER, "IS takes NULL, TRUE or FALSE", "use = or IS NULL")


def _not_distinct(binder: Binder, node: Any) -> Expr:
    left, right = binder.partial(node.this), binder.partial(node.expression)
    equal = coercion.compare("eq", left, right, node)
    assert isinstance(equal, Call)
    empty = [Call(BOOLEAN, "is_null", (side,)) for side in equal.args]
    both = Call(BOOLEAN, "and", (empty[0], empty[1]))
    same = Call(BOOLEAN, "coalesce", (equal, Literal(BOOLEAN, False)))
    return Call(BOOLEAN, "or", (both, same))


def _distinct_from(binder: Binder, node: Any) -> Expr:
    return Call(BOOLEAN, "not", (_not_distinct(binder, node),))


def _between(binder: Binder, node: Any) -> Expr:
    only(node, "this", "low", "high")
    value = binder.partial(node.this)
    low = coercion.compare("ge", value, binder.partial(node.args["low"]), node)
    high = coercion.compare("le", value, binder.partial(node.args["high"]), node)
    return Call(BOOLEAN, "and", (low, high))


def _in(binder: Binder, node: Any) -> Expr:
    if node.args.get("query"):
        raise _refusal(node)
    only(node, "this", "expressions")
    if not node.expressions:
        binder.bind(node.this)  # its names and types must still be valid
        return Literal(BOOLEAN, False)
    value = binder.partial(node.this)
    items = [binder.partial(item) for item in node.expressions]
    if not all(isinstance(i, Literal) for i in items) or not coercion.has_column(value):
        return _any_equal(value, items, node)
    value, *unified = coercion.unify((value, *items), node, coercion.comparing_type)
    present = [i for i in unified if isinstance(i, Literal) and i.value is not None]
    result: Expr = Call(BOOLEAN, "in", (value, *present)) if present else Literal(BOOLEAN, False)
    if len(present) < len(unified):  # x IN (…, NULL) is true or unknown
        result = Call(BOOLEAN, "or", (result, Literal(BOOLEAN, None)))
    return result


def _any_equal(value: Expr, items: list[Expr], node: exp.Expr) -> Expr:
    return chained("or", [coercion.compare("eq", value, item, node) for item in items])


def _like(fn: str) -> Callable[[Binder, Any], Expr]:
    def bind(binder: Binder, node: Any) -> Expr:
        only(node, "this", "expression", "negate")
        value = binder.partial(node.this)
        pattern = coercion.fixed(binder.partial(node.expression), STRING)
        if coercion.has_column(pattern) or pattern.type != STRING:
            raise mistyped(
                node, f"the pattern of {fn.upper()} must be a string without columns",
                "write the pattern in quotes, or as a parameter", "PS-TYPE-010",
            )  # fmt: skip
        value = coercion.fixed(value, STRING)
        if value.type != STRING:
            raise mistyped(
                node, f"{fn.upper()} needs a STRING, this is {value.type}", "CAST it to STRING"
            )
        result = Call(BOOLEAN, fn, (value, pattern))
        return Call(BOOLEAN, "not", (result,)) if node.args.get("negate") else result

    return bind


def _neg(binder: Binder, node: Any) -> Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        literal = literal_of(node)
        assert literal is not None
        return literal
    return negative(binder.partial(node.this), node)


def _concat(binder: Binder, node: Any) -> Expr:
    parts: list[exp.Expr] = []
    top = node
    while isinstance(top, exp.DPipe):
        parts.append(top.expression)
        top = top.this
    return bind_call(binder, "concat", [top, *reversed(parts)], node)


def _case(binder: Binder, node: Any) -> Expr:
    only(node, "this", "ifs", "default")
    subject = binder.partial(node.this) if node.this else None
    conditions: list[Expr] = []
    values: list[Expr] = []
    for branch in node.args["ifs"]:
        if subject is None:
            conditions.append(binder.condition(branch.this))
        else:
            _refuse_null(branch.this, branch.this)
            test = binder.partial(branch.this)
            conditions.append(coercion.compare("eq", subject, test, branch))
        values.append(binder.partial(branch.args["true"]))
    return _choice(binder, node, conditions, values, node.args.get("default"))


def _if(binder: Binder, node: Any) -> Expr:
    condition = binder.condition(node.this)
    value = binder.partial(node.args["true"])
    return _choice(binder, node, [condition], [value], node.args.get("false"))


def _choice(
    binder: Binder, node: Any, conditions: list[Expr], values: list[Expr], default: Any
) -> Expr:
    otherwise = binder.partial(default if default is not None else exp.Null())
    *values, otherwise = coercion.unify((*values, otherwise), node)
    args = [a for pair in zip(conditions, values, strict=True) for a in pair]
    return Call(otherwise.type, "case", (*args, otherwise))


def _cast(binder: Binder, node: Any) -> Expr:
    only(node, "this", "to", "_type")
    return coercion.cast(binder.partial(node.this), type_of(node), node)


def _try_cast(binder: Binder, node: Any) -> Expr:
    only(node, "this", "to", "_type", "safe", "requires_string")
    return coercion.try_cast(binder.partial(node.this), type_of(node), node)


def _function(binder: Binder, node: Any) -> Expr:
    name = node.this if isinstance(node.this, str) else node.this.name
    return bind_call(binder, name, node.expressions, node)


def _filtered(binder: Binder, node: Any) -> Expr:
    inner = node.this
    if not isinstance(inner, exp.Anonymous):
        raise _refusal(inner)
    return bind_call(binder, inner.name, inner.expressions, node, node.expression.this)


def _extract(binder: Binder, node: Any) -> Expr:
    return bind_extract(binder, node)


def _refusal(node: exp.Expr) -> Exception:
    if isinstance(node, exp.Window | exp.WithinGroup | exp.IgnoreNulls):
        return unsupported(
            node, "PS-SQL-012", "window functions (OVER) are not supported",
            "use GROUP BY over a window of the stream",
        )  # fmt: skip
    if isinstance(node, _VOLATILE):
        return unsupported(
            node, "PS-SQL-019", f"{node.sql().lower()} is not deterministic",
            "use the stream's time column: a replay must give the same answer",
        )  # fmt: skip
    if isinstance(node, exp.Subquery | exp.Query | exp.Exists | exp.In | exp.Any | exp.All):
        return unsupported(
            node, SUBQUERY, "a subquery can only be EXISTS or IN, as a conjunct of WHERE",
            "join with the subquery in FROM, or move the condition to the top of WHERE",
        )  # fmt: skip
    if isinstance(node, exp.Placeholder):
        return unsupported(node, OTHER, "? is not a parameter", "write $1 or $name")
    return unsupported(
        node, OTHER, f"{words(node)} is not supported",
        "docs/sql.md lists the supported expressions",
    )  # fmt: skip


_HANDLERS: dict[type[exp.Expr], Callable[[Binder, Any], Expr]] = {
    exp.Column: Binder.column,
    exp.Paren: _paren,
    exp.Parameter: _parameter,
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeEQ: _not_distinct,
    exp.NullSafeNEQ: _distinct_from,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.Neg: _neg,
    exp.DPipe: _concat,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Extract: _extract,
    exp.Anonymous: _function,
    exp.Filter: _filtered,
}
