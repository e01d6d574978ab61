"""When a condition holds: a row is accepted if it is TRUE; FALSE and NULL are equivalent.

A failure below AND and OR counts only if it can change the result. So the form in which a condition
is evaluated (whole, as clauses, as alternatives) does not decide whether it fails.
"""

from __future__ import annotations

from penstock.logical.expr import Call, Expr, Literal
from penstock.logical.failing import can_fail
from penstock.types import BOOLEAN

_LOGIC = ("and", "or")
_FALSE = Literal(BOOLEAN, False)


def push_down_not(expr: Expr, negate: bool = False) -> Expr:
    """The condition, or its negation, with every NOT moved below AND and OR."""
    if isinstance(expr, Call) and expr.fn == "not":
        return push_down_not(expr.args[0], not negate)
    if isinstance(expr, Call) and expr.fn in ("and", "or"):
        fn = {"and": "or", "or": "and"}[expr.fn] if negate else expr.fn
        return Call(BOOLEAN, fn, tuple(push_down_not(a, negate) for a in expr.args))
    return Call(BOOLEAN, "not", (expr,)) if negate else expr


def held(condition: Expr) -> Expr:
    """A condition with the same verdict on every row; below AND and OR, NULL is FALSE.

    ``(a > 0 AND ln(b) > 1) OR c`` with NULL for `a` does not hold if `c` does not, although
    ``ln(b)`` fails. Evaluated as it is written, it would fail.
    """
    form = push_down_not(condition) if can_fail(condition) else condition
    return _held(form) if isinstance(form, Call) and form.fn in _LOGIC else condition


def _held(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.fn in _LOGIC:
        return Call(BOOLEAN, expr.fn, tuple(map(_held, expr.args)))
    return Call(BOOLEAN, "coalesce", (expr, _FALSE))
