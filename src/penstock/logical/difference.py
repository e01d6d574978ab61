"""Differences: comparisons of two columns, read as bounds of one column minus the other.

``s.b >= r.b + 5 AND s.b < r.b + $d`` bounds ``s.b - r.b``. Integers, decimals and times may be
moved across the comparison. Floats round, so for them only a difference that the text itself
contains counts.
"""

from __future__ import annotations

from penstock.frozen import record
from penstock.logical.expr import Call, Column, Expr, Literal, columns_of, params_of
from penstock.types import BIGINT, BOOLEAN, Kind, SqlType

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
"""Comparisons after both sides are negated or exchanged."""


@record
class Difference:
    """Column `minuend` − column `subtrahend` ⟨fn⟩ `bound`; the bound reads no columns."""

    minuend: Column
    subtrahend: Column
    fn: str
    bound: Expr

    def condition(self, type_: SqlType) -> Expr:
        """The comparison, with the difference written out."""
        value = Call(type_, "sub", (self.minuend, self.subtrahend))
        return Call(BOOLEAN, self.fn, (value, self.bound))


def same_bits(a: SqlType, b: SqlType) -> bool:
    """Whether values of both types have one physical form, so that a cast changes nothing."""
    if a.kind is Kind.DECIMAL or b.kind is Kind.DECIMAL:
        return a.kind is b.kind and a.scale == b.scale
    return a == b or (a.is_integer and b.is_integer) or (a.is_float and b.is_float)


def plain(expr: Expr) -> Expr:
    """`expr` without casts that do not change bits."""
    while isinstance(expr, Call) and expr.fn == "cast" and same_bits(expr.args[0].type, expr.type):
        expr = expr.args[0]
    return expr


def measurable(type_: SqlType) -> bool:
    """Whether differences of values of the type are numbers."""
    return type_.is_numeric or type_.kind in (Kind.TIMESTAMP, Kind.DATE)


def differences_of(condition: Expr) -> list[Difference] | None:
    """Bounds that together are equivalent to `condition`; None if it bounds no difference."""
    if not isinstance(condition, Call) or condition.fn not in MIRRORED:
        return None
    fn, (left, right) = condition.fn, condition.args
    if not columns_of(left):
        fn, left, right = MIRRORED[fn], right, left
    inner = plain(left)
    if isinstance(inner, Call) and inner.fn == "abs" and fn in ("le", "lt"):
        return _within(inner.args[0], fn, right)
    found = _difference(fn, left, right)
    return None if found is None else [found]


def _within(value: Expr, fn: str, bound: Expr) -> list[Difference] | None:
    """Rewrite ``abs(value) <= bound`` as two bounds."""
    both = [_difference(fn, value, bound), _difference(MIRRORED[fn], value, _negative(bound))]
    return [found for found in both if found is not None] if None not in both else None


def _difference(fn: str, left: Expr, right: Expr) -> Difference | None:
    if left.type.is_float or right.type.is_float:
        return _written(fn, left, right)
    sides = _linear(left), _linear(right)
    if sides[0] is None or sides[1] is None:
        return None
    terms, constants = _sum(sides[0], sides[1], -1)
    if sorted(terms.values()) != [-1, 1]:
        return None
    plus, minus = (next(c for c, k in terms.items() if k == sign) for sign in (1, -1))
    if not same_bits(plus.type, minus.type):
        return None
    # plus − minus + constants ⟨fn⟩ 0
    bound = _total([(-sign, expr) for sign, expr in constants])
    return None if bound is None else Difference(plus, minus, fn, bound)


def _written(fn: str, left: Expr, right: Expr) -> Difference | None:
    """A difference of doubles in the text, compared with a constant."""
    value = plain(left)
    if columns_of(right) or not isinstance(value, Call) or value.fn != "sub":
        return None
    minuend, subtrahend = map(plain, value.args)
    if value.type.kind is not Kind.DOUBLE or not right.type.is_float:
        return None
    if not isinstance(minuend, Column) or not isinstance(subtrahend, Column):
        return None
    return Difference(minuend, subtrahend, fn, right)


Linear = tuple[dict[Column, int], list[tuple[int, Expr]]]
"""Coefficients of columns, and signed terms without columns."""


def _linear(expr: Expr) -> Linear | None:
    expr = plain(expr)
    if not columns_of(expr):
        return {}, [(1, expr)]
    if isinstance(expr, Column) and measurable(expr.type) and not expr.type.is_float:
        return {expr: 1}, []
    if isinstance(expr, Call) and expr.fn in ("add", "sub"):
        left, right = map(_linear, expr.args)
        if left is not None and right is not None:
            return _sum(left, right, 1 if expr.fn == "add" else -1)
    if isinstance(expr, Call) and expr.fn == "neg" and (inner := _linear(expr.args[0])):
        return _sum(({}, []), inner, -1)
    return None


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a[0])
    for column, coefficient in b[0].items():
        terms[column] = terms.get(column, 0) + sign * coefficient
    constants = a[1] + [(sign * s, expr) for s, expr in b[1]]
    return {c: k for c, k in terms.items() if k}, constants


def _total(terms: list[tuple[int, Expr]]) -> Expr | None:
    """The sum of signed terms as one expression; None if it cannot be written without rounding."""
    number, rest = 0, list[tuple[int, Expr]]()
    for sign, expr in terms:
        if isinstance(expr, Literal) and isinstance(expr.value, int):
            number += sign * expr.value
        else:
            rest.append((sign, expr))
    if not -(1 << 63) <= number < 1 << 63 or any(_is_vague(expr) for _, expr in rest):
        return None
    if not rest:
        return Literal(BIGINT, number)
    if len(rest) > 1 or number:
        if not all(expr.type.is_integer for _, expr in rest):
            return None
        rest.append((1, Literal(BIGINT, number)))
    total: Expr | None = None
    for sign, expr in rest:
        if total is None:
            total = expr if sign > 0 else _negative(expr)
        else:
            total = Call(BIGINT, "add" if sign > 0 else "sub", (total, expr))
    return total


def _is_vague(expr: Expr) -> bool:
    return isinstance(expr, Literal) or not params_of(expr)


def _negative(expr: Expr) -> Expr:
    if isinstance(expr, Literal) and isinstance(expr.value, int | float):
        return Literal(expr.type, -expr.value)
    return Call(expr.type, "neg", (expr,))
