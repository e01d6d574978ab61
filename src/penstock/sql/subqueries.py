"""EXISTS and IN, as conjuncts of WHERE, become SEMI and ANTI joins.

Correlation is any condition of the subquery's WHERE on columns of the enclosing query. NOT IN
follows SQL (DESIGN §3): a NULL on either side leaves it unknown unless the subquery is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.logical.expr import Call, Column, Expr, Literal, remap, transform
from penstock.logical.nodes import Filter, JoinKind, Node, SetKind, SetOp
from penstock.sql import coercion
from penstock.sql.complain import CORRELATED, mistyped, unsupported
from penstock.sql.dialect import place_of
from penstock.sql.expressions import Binder
from penstock.sql.joins import join
from penstock.sql.scopes import Outer, Scope
from penstock.types import BOOLEAN

if TYPE_CHECKING:
    from penstock.sql.select import QueryBinder


@dataclass(frozen=True, slots=True)
class Inner:
    """A bound subquery: its rows, its output expressions and its correlation."""

    node: Node
    outputs: tuple[Expr, ...]
    correlation: tuple[Expr, ...]


def is_predicate(node: exp.Expr) -> bool:
    """Whether a conjunct of WHERE is a subquery predicate, perhaps negated."""
    inner, _ = _stripped(node)
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and "query" in inner.args)


def _stripped(node: Any) -> tuple[Any, bool]:
    """The predicate below parentheses and NOTs, and whether it is negated."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    return node, negated


class SubqueryBinder:
    """Applies subquery predicates to the rows of the enclosing query."""

    def __init__(self, queries: QueryBinder, scope: Scope) -> None:
        self.queries = queries
        self.scope = scope

    def apply(self, node: Node, predicate: exp.Expr) -> Node:
        """Rows of `node` for which the predicate holds."""
        inner, negated = _stripped(predicate)
        place = place_of(predicate)
        if isinstance(inner, exp.Exists):
            bound = self.queries.correlated(inner.this, self.scope, exists=True)
            kind = JoinKind.ANTI if negated else JoinKind.SEMI
            return join(node, bound.node, kind, _over(bound.correlation, node), place)
        bound = self.queries.correlated(inner.args["query"], self.scope, exists=False)
        values = self._values(inner, bound)
        if not negated:
            equal = self._equal(node, values, bound, inner)
            conditions = [*equal, *_over(bound.correlation, node)]
            return join(node, bound.node, JoinKind.SEMI, conditions, place)
        if len(values) > 1:
            raise unsupported(
                inner, CORRELATED, "NOT IN of several columns is not supported",
                "write NOT EXISTS with an equality for each column",
            )  # fmt: skip
        return self._not_in(node, values[0], bound, inner)

    def _values(self, node: exp.In, bound: Inner) -> list[Expr]:
        """The expressions to the left of IN."""
        items = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        if len(items) != len(bound.outputs):
            raise mistyped(
                node, f"IN compares {len(items)} columns with {len(bound.outputs)} columns",
                "select the same number of columns on both sides", "PS-TYPE-005",
            )  # fmt: skip
        binder = Binder(self.scope, self.queries.context)
        return [binder.partial(item) for item in items]

    def _equal(self, node: Node, values: list[Expr], bound: Inner, ast: exp.Expr) -> list[Expr]:
        width = len(node.schema)
        outputs = [remap(y, lambda i: i + width) for y in bound.outputs]
        pairs = zip(values, outputs, strict=True)
        return [coercion.compare("eq", x, y, ast) for x, y in pairs]

    def _not_in(self, node: Node, x: Expr, bound: Inner, ast: exp.Expr) -> Node:
        """NOT IN rejects a row for a match, a NULL on the right or a NULL on the left."""
        correlation = _over(bound.correlation, node)
        equal = self._equal(node, [x], bound, ast)
        place = place_of(ast)
        if isinstance(x, coercion.FreeParam):
            x = x.owner.reference(x.name)
        known = Filter(node, Call(BOOLEAN, "is_not_null", (x,)))
        unmatched = join(known, bound.node, JoinKind.ANTI, [*equal, *correlation], place)
        holes = Filter(bound.node, Call(BOOLEAN, "is_null", (bound.outputs[0],)))
        certain = join(unmatched, holes, JoinKind.ANTI, correlation, place)
        unknown = Filter(node, Call(BOOLEAN, "is_null", (x,)))
        vacuous = join(unknown, bound.node, JoinKind.ANTI, correlation, place)
        return SetOp(certain, vacuous, SetKind.UNION, all=True)


def _over(correlation: tuple[Expr, ...], outer: Node) -> list[Expr]:
    """Correlation as join conditions: outer columns first, then the subquery's."""
    width = len(outer.schema)

    def move(expr: Expr) -> Expr:
        if isinstance(expr, Outer):
            return Column(expr.type, expr.index, outer.schema[expr.index].name)
        return expr

    shifted = [remap(c, lambda i: i + width) for c in correlation]
    return [transform(c, move) for c in shifted]


def refuse_correlation(node: exp.Expr, correlation: list[Expr]) -> None:
    """Only a plain SELECT can be correlated."""
    if correlation:
        raise unsupported(
            node, CORRELATED,
            "a subquery with GROUP BY or aggregates cannot use outer columns",
            "join with it in FROM: (SELECT key, … GROUP BY key) AS x ON x.key = …",
        )  # fmt: skip


def constant_output() -> tuple[Expr, ...]:
    """The output of an EXISTS subquery, which is never read."""
    return (Literal(BOOLEAN, True),)
