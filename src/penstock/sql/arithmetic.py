"""Types of + - * / % and unary minus, and their value when both sides are constants."""

from __future__ import annotations

from decimal import Decimal

from penstock.errors import TypeError_
from penstock.logical.expr import Call, Expr, Literal
from penstock.sql.coercion import (
    FreeMinus,
    FreeParam,
    Where,
    coerce,
    computing_type,
    minus,
    untyped,
)
from penstock.sql.dialect import place_of
from penstock.sql.literals import as_number, from_decimal, negated
from penstock.types import BIGINT, DATE, DOUBLE, INTERVAL, TIMESTAMP, Kind, SqlType, decimal

_INT64 = 1 << 63


def arithmetic(fn: str, left: Expr, right: Expr, node: Where) -> Expr:
    """`left` fn `right`, with operands cast to what the operation computes in."""
    left, right = _typed(fn, left, right, node)
    folded = _fold(fn, left, right)
    if folded is not None:
        return folded
    timed = _temporal(fn, left, right)
    if timed is not None:
        return timed
    a, b = computing_type(left.type), computing_type(right.type)
    nulls = Kind.NULL in (a.kind, b.kind)
    if nulls:
        a, b = (b, b) if a.kind is Kind.NULL else (a, a)
    if not (a.is_numeric and b.is_numeric) and not (nulls and a.kind is Kind.NULL):
        raise TypeError_(
            f"{left.type} and {right.type} cannot be combined by {fn}", place=place_of(node),
            remedy="CAST the operands to numbers, or use INTERVAL with times",
        )  # fmt: skip
    if fn == "div" or a.is_float or b.is_float or not a.is_numeric:
        return Call(DOUBLE, fn, (coerce(left, DOUBLE), coerce(right, DOUBLE)))
    if a == b == BIGINT:
        return Call(BIGINT, fn, (coerce(left, BIGINT), coerce(right, BIGINT)))
    return _decimal(fn, left, right, node)


def _typed(fn: str, left: Expr, right: Expr, node: Where) -> tuple[Expr, Expr]:
    """Parameters take the type their partner computes in."""
    free = [isinstance(e, FreeParam) for e in (left, right)]
    if all(free):
        raise untyped(left, node)
    if free[0]:
        left = coerce(left, computing_type(right.type))
    if free[1]:
        right = coerce(right, computing_type(left.type))
    return left, right


def _decimal(fn: str, left: Expr, right: Expr, node: Where) -> Expr:
    scales = [e.type.scale for e in (left, right)]
    if fn == "mul":
        if sum(scales) > 18:
            raise TypeError_(
                f"a product with {sum(scales)} digits after the point is beyond DECIMAL(18)",
                code="PS-TYPE-003", place=place_of(node), remedy="CAST one side to DOUBLE",
            )  # fmt: skip
        sides = tuple(_as_decimal(e, e.type.scale) for e in (left, right))
        return Call(decimal(18, sum(scales)), fn, sides)
    scale = max(scales)
    return Call(decimal(18, scale), fn, (_as_decimal(left, scale), _as_decimal(right, scale)))


def _as_decimal(expr: Expr, scale: int) -> Expr:
    return coerce(expr, decimal(18, scale))


def _temporal(fn: str, left: Expr, right: Expr) -> Expr | None:
    """Sums and differences of times; None when this is not one."""
    a, b = left.type.kind, right.type.kind
    if fn == "sub" and Kind.TIMESTAMP in (a, b) and {a, b} <= {Kind.TIMESTAMP, Kind.DATE}:
        return Call(BIGINT, "sub", (coerce(left, TIMESTAMP), coerce(right, TIMESTAMP)))
    if fn == "sub" and a is b is Kind.DATE:
        return Call(BIGINT, "sub", (left, right))
    if fn == "add" and a is Kind.INTERVAL:
        left, right, a, b = right, left, b, a
    if b is Kind.INTERVAL and fn in ("add", "sub"):
        if a in (Kind.TIMESTAMP, Kind.DATE):
            return Call(TIMESTAMP, fn, (coerce(left, TIMESTAMP), right))
        if a is Kind.BIGINT:  # a difference of times, in µs
            return Call(BIGINT, fn, (left, coerce(right, BIGINT)))
    if a is Kind.DATE and right.type.is_integer and fn in ("add", "sub"):
        return Call(DATE, fn, (left, coerce(right, BIGINT)))
    return None


def negative(expr: Expr, node: Where) -> Expr:
    """Minus `expr`."""
    if isinstance(expr, Literal) and (literal := negated(expr)) is not None:
        return literal
    if isinstance(expr, FreeParam):
        return FreeMinus(expr.type, expr.index, expr.name, expr.owner, expr, node)
    return minus(expr, node)


def _fold(fn: str, left: Expr, right: Expr) -> Literal | None:
    """The value of an operation on two constants; None if only run time can compute it."""
    if not isinstance(left, Literal) or not isinstance(right, Literal):
        return None
    spans = _fold_spans(fn, left, right)
    if spans is not None:
        return spans
    a, b = as_number(left), as_number(right)
    if a is None or b is None or fn not in ("add", "sub", "mul", "div"):
        return None
    if fn == "div" or left.type.is_float or right.type.is_float:
        return _fold_floats(fn, float(a), float(b))
    value = a + b if fn == "add" else a - b if fn == "sub" else a * b
    if left.type.is_integer and right.type.is_integer:
        whole = int(value)
        return Literal(BIGINT, whole) if -_INT64 <= whole < _INT64 else None
    return from_decimal(value)


def _fold_floats(fn: str, a: float, b: float) -> Literal | None:
    if fn == "div":
        return Literal(DOUBLE, a / b) if b else None
    return Literal(DOUBLE, a + b if fn == "add" else a - b if fn == "sub" else a * b)


def _fold_spans(fn: str, left: Literal, right: Literal) -> Literal | None:
    """Intervals and times among constants."""
    a, b = left.type.kind, right.type.kind
    if fn == "mul" and Kind.INTERVAL in (a, b):
        number = as_number(right if a is Kind.INTERVAL else left)
        span = left.value if a is Kind.INTERVAL else right.value
        return None if number is None else Literal(INTERVAL, int(Decimal(int(span or 0)) * number))
    if b is Kind.INTERVAL and fn in ("add", "sub") and left.value is not None:
        sign = 1 if fn == "add" else -1
        to: SqlType = INTERVAL if a is Kind.INTERVAL else TIMESTAMP
        if a is Kind.DATE or a is Kind.TIMESTAMP or a is Kind.INTERVAL:
            base = coerce(left, to)
            assert isinstance(base, Literal)
            return Literal(to, int(base.value or 0) + sign * int(right.value or 0))
    return None
