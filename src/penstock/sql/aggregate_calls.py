"""Aggregate calls met while binding a select list or HAVING.

Each distinct call is kept once; an `AggregateRef` replaces it in the expression until the
GROUP BY is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.frozen import frozen
from penstock.logical.expr import Agg, Expr
from penstock.sql import coercion
from penstock.sql.complain import OTHER, mistyped, unsupported
from penstock.types import BIGINT, DOUBLE, Kind, SqlType, decimal

if TYPE_CHECKING:
    from penstock.sql.expressions import Binder


@frozen
class AggregateRef(Expr):
    """The value of the `index`-th aggregate of the GROUP BY under construction."""

    index: int
    name: str


def aggregate_name(fn: str, index: int) -> str:
    """The name of an aggregate's column inside the plan."""
    return f"{fn}_{index}"


class AggregateCalls:
    """Collects the aggregates of one SELECT; arguments are over its FROM columns."""

    def __init__(self) -> None:
        self.found: list[Agg] = []

    def add(
        self,
        binder: Binder,
        fn: str,
        arguments: list[exp.Expr],
        node: exp.Expr,
        condition: exp.Expr | None,
    ) -> Expr:
        """Bind a call and return the reference to its value."""
        agg = _bind(binder, fn, arguments, node, condition)
        if agg not in self.found:
            self.found.append(agg)
        index = self.found.index(agg)
        return AggregateRef(agg.type, index, aggregate_name(agg.fn, index))


def _bind(
    binder: Binder, fn: str, arguments: list[exp.Expr], node: exp.Expr, condition: exp.Expr | None
) -> Agg:
    where = binder.condition(condition) if condition is not None else None
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = arguments[0].expressions
    if len(arguments) == 0 or (len(arguments) == 1 and isinstance(arguments[0], exp.Star)):
        if fn == "count" and not distinct:
            return Agg(fn, None, False, where, BIGINT)
    elif len(arguments) == 1:
        arg = binder.bind(arguments[0])
        result = _result(fn, arg.type, node)
        # Duplicates cannot change a minimum or maximum.
        return Agg(fn, arg, distinct and fn not in ("min", "max"), where, result)
    elif distinct:
        raise unsupported(
            node, OTHER, f"{fn}(DISTINCT …) takes one argument",
            "group by the columns in a subquery and count its rows",
        )  # fmt: skip
    raise mistyped(node, f"{fn} takes one argument", f"write {fn}(x)", "PS-TYPE-005")


def _result(fn: str, arg: SqlType, node: exp.Expr) -> SqlType:
    if fn == "count":
        return BIGINT
    if fn in ("min", "max"):
        return arg
    if not arg.is_numeric:
        raise mistyped(node, f"{fn} needs a number, this is {arg}", "CAST it to a number")
    if fn != "sum" or arg.is_float:
        return DOUBLE
    return decimal(18, arg.scale) if arg.kind is Kind.DECIMAL else coercion.computing_type(arg)
