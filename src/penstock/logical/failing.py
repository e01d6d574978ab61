"""Which expressions can fail on a row: overflow, a text that is no number, ln(0), a UDF.

Decided from names and types alone, so it errs on the side of "can". The argument of a hiding
function does not count: the function has a value where its argument fails
(`logical/on_error.py`).
"""

from __future__ import annotations

from penstock.logical.expr import COMPARISONS, Call, Expr, Literal
from penstock.types import BOOLEAN, Kind, SqlType

OR_NULL, OR_SKIP, QUIET = "or_null", "or_skip", "quiet"
"""The argument, NULL where it has no value; counted as a value, as a row, or not at all."""
COMPUTES = "computes"
"""Whether all arguments have a value (NULL is one); if not, counted as a row."""
MAYBE = "maybe"
"""A condition, TRUE where it fails; the rows it rejects may be dropped early."""
HIDING = frozenset({OR_NULL, OR_SKIP, QUIET, COMPUTES, MAYBE})
COUNTED = frozenset({OR_NULL, OR_SKIP, COMPUTES})
_WHOLE = frozenset({"add", "sub", "mul", "neg", "abs", "div", "round"})
_OF_DECIMALS = frozenset({"mod", "floor", "ceil"})
_ALWAYS = frozenset({"sqrt", "ln", "lpad", "rpad"})
_CHOICES = frozenset({*COMPARISONS, "in", "nullif", "case", "coalesce", "greatest", "least"})
_OF_DATES = frozenset({"epoch", "date_trunc"})
_COUNTS = frozenset({"length", "strpos", "year", "month", "day", "hour", "minute", "second"})
_SMALL, _BEYOND = 1 << 31, 1 << 63
_INT_DIGITS, _BIGINT_DIGITS = 10, 19


def can_fail(expr: Expr | None) -> bool:
    """Whether `expr` may have no value on some row."""
    todo = [] if expr is None else [expr]
    while todo:
        top = todo.pop()
        if isinstance(top, Call) and top.fn not in HIDING:
            if _fails(top):
                return True
            todo += top.args
    return False


def hides(expr: Expr) -> bool:
    """Whether a failure below is hidden and counted."""
    todo = [expr]
    while todo:
        top = todo.pop()
        if isinstance(top, Call):
            if top.fn in COUNTED:
                return True
            todo += top.args
    return False


def guesses(parts: list[Expr]) -> list[Expr]:
    """For the conditions that can fail, their `maybe(…)`: TRUE where they fail."""
    return [Call(BOOLEAN, MAYBE, (p,)) for p in parts if can_fail(p)]


def is_risky(expr: Expr) -> bool:
    """Whether it matters on which rows `expr` is evaluated: failures are raised or counted."""
    return can_fail(expr) or hides(expr)


def fails_itself(call: Call) -> bool:
    """Whether the function may fail although its arguments do not."""
    return call.fn not in HIDING and _fails(call)


def _fails(call: Call) -> bool:
    fn = call.fn
    if fn in _WHOLE:
        return not (call.type.is_float or most(call) < _BEYOND)
    if fn in _OF_DECIMALS:
        return call.type.kind is Kind.DECIMAL
    if fn == "cast":
        return cast_fails(call.args[0].type, call.type)
    if fn in _CHOICES:
        return _mixed([a.type for a in call.args], call)
    if fn in _OF_DATES:
        return any(a.type.kind is Kind.DATE for a in call.args)
    return fn in _ALWAYS or fn.startswith("udf:")


def most(expr: Expr) -> int:
    """An upper bound of the absolute value of an integer expression, if known."""
    if not expr.type.is_integer:
        return _BEYOND
    if isinstance(expr, Literal):
        return abs(int(expr.value or 0))
    if isinstance(expr, Call):
        sizes = [most(a) for a in expr.args]
        if expr.fn in ("add", "sub"):
            return min(sum(sizes), _BEYOND)
        if expr.fn == "mul":
            return min(sizes[0] * sizes[1], _BEYOND)
        if expr.fn in ("neg", "abs") or (expr.fn == "cast" and sizes[0] < _BEYOND):
            return sizes[0]
        if expr.fn in _COUNTS:
            return _SMALL
    return _SMALL if expr.type.kind is Kind.INT else _BEYOND


def _mixed(types: list[SqlType], call: Call) -> bool:
    """Whether values of several types meet, so that one must be converted."""
    if call.fn == "case":
        types = [*types[1:-1:2], types[-1]]
    if call.fn not in COMPARISONS and call.fn != "in":
        types = [*types, call.type]
    known = {t for t in types if t.kind is not Kind.NULL}
    exact = {t for t in known if t.kind in (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)}
    return len(known) > 1 and bool(exact)


def cast_fails(a: SqlType, b: SqlType) -> bool:
    """Whether some value of type `a` does not fit type `b`."""
    if a == b or a.kind is Kind.NULL or b.is_string:
        return False
    if a.is_string:
        return True
    if Kind.BOOLEAN in (a.kind, b.kind):
        return False
    if b.is_float:
        return b.kind is Kind.FLOAT and a.kind is Kind.DOUBLE
    if a.is_float:
        return True
    if a.kind is Kind.TIMESTAMP or b.kind is Kind.TIMESTAMP:
        return b.kind is Kind.TIMESTAMP
    return _digits(a) + (a.scale > b.scale) > _digits(b)


def _digits(type_: SqlType) -> int:
    """Digits before the point that a value of the type may have."""
    if type_.kind is Kind.DECIMAL:
        return type_.precision - type_.scale
    return _INT_DIGITS if type_.kind is Kind.INT else _BIGINT_DIGITS
