"""Split a join condition into column equalities, one band, and the rest.

Equality keys become columns (a projection adds computed ones, and another removes them above
the join). A band is ``low ≤ right − left ≤ high`` with constant bounds; each comparison is read
as a linear form in one column of either side. Floating-point numbers round and have NaN, so for
them only the difference itself, with an upper bound, makes a band.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.logical.difference import measurable, plain, same_bits
from penstock.logical.expr import (
    Call,
    Column,
    Expr,
    Literal,
    columns_of,
    params_of,
    remap,
)
from penstock.logical.failing import can_fail
from penstock.logical.nodes import Band
from penstock.sql.literals import negated


@dataclass
class Conditions:
    """A split condition; key expressions are over their own side's columns."""

    equi: list[tuple[Expr, Expr]] = field(default_factory=list)
    band: Band | None = None
    residual: list[Expr] = field(default_factory=list)

    def narrow(self, condition: Expr, band: Band | None) -> None:
        """Add a condition: to the band if it bounds the same columns, else to the rest."""
        merged = None if band is None else _merge(self.band, band)
        if merged is None:
            self.residual.append(condition)
        else:
            self.band = merged


def split(conditions: list[Expr], width: int, fixed_right: bool) -> Conditions:
    """Sort conjuncts over left (`width` columns) + right.

    With `fixed_right` (an NRR) the right side gets no computed columns and there is no band.
    """
    result, lows = Conditions(), list[tuple[Expr, Band]]()
    for condition in conditions:
        if isinstance(condition, Literal) and condition.value is True:
            continue
        if params_of(condition):
            result.residual.append(condition)
            continue
        pair = _equality(condition, width)
        if pair is not None and not (fixed_right and not isinstance(pair[1], Column)):
            if pair not in result.equi:
                result.equi.append(pair)
            continue
        band = None if fixed_right else _band(condition, width)
        if band is not None and _takes_nan(condition):
            lows.append((condition, band))
        else:
            result.narrow(condition, band)
    for condition, band in lows:  # an existing band excludes NaN
        result.narrow(condition, band if result.band else None)
    return result


def is_for_pairs(condition: Expr, others: list[Expr], width: int) -> bool:
    """Whether a condition can fail, so that it is tested on pairs of rows, guarded by the others.

    A band cannot fail. An equality that can fail is a key only if the join has no other key.
    """
    if not can_fail(condition) or _band(condition, width) is not None:
        return False
    keys = [c for c in others if not can_fail(c) and _equality(c, width) is not None]
    return bool(keys) or _equality(condition, width) is None


def _equality(condition: Expr, width: int) -> tuple[Expr, Expr] | None:
    """Key expressions of an equality between the two sides."""
    if not isinstance(condition, Call) or condition.fn != "eq":
        return None
    a, b = condition.args
    sides = [_side(a, width), _side(b, width)]
    if sides == ["right", "left"]:
        a, b = b, a
    elif sides != ["left", "right"]:
        return None
    stripped = plain(a), plain(b)
    if same_bits(stripped[0].type, stripped[1].type):
        a, b = stripped
    return a, remap(b, lambda i: i - width)


def _side(expr: Expr, width: int) -> str:
    columns = columns_of(expr)
    if columns and max(columns) < width:
        return "left"
    return "right" if columns and min(columns) >= width else ""


Linear = tuple[dict[int, int], tuple[Literal, ...]]
"""Coefficients of columns, and constants."""


def _linear(expr: Expr) -> Linear | None:
    expr = plain(expr)
    if isinstance(expr, Column) and measurable(expr.type):
        return {expr.index: 1}, ()
    if isinstance(expr, Literal) and isinstance(expr.value, int | float):
        return ({}, (expr,)) if not isinstance(expr.value, bool) else None
    if isinstance(expr, Call) and expr.fn in ("add", "sub"):
        left, right = _linear(expr.args[0]), _linear(expr.args[1])
        if left is not None and right is not None:
            return _combined(left, right, 1 if expr.fn == "add" else -1)
    if isinstance(expr, Call) and expr.fn == "neg" and (inner := _linear(expr.args[0])):
        return _combined(({}, ()), inner, -1)
    return None


def _combined(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a[0])
    for column, coefficient in b[0].items():
        terms[column] = terms.get(column, 0) + sign * coefficient
    constants = b[1] if sign > 0 else tuple(map(_negative, b[1]))
    return {c: k for c, k in terms.items() if k}, a[1] + constants


def _negative(literal: Literal) -> Literal:
    assert isinstance(literal.value, int | float)
    return negated(literal) or Literal(literal.type, -literal.value)


def _band(condition: Expr, width: int) -> Band | None:
    """The band of one comparison."""
    if not isinstance(condition, Call) or condition.fn not in ("eq", "lt", "le", "gt", "ge"):
        return None
    if condition.args[0].type.is_float and not _is_bounded_difference(condition):
        return None
    sides = _linear(condition.args[0]), _linear(condition.args[1])
    if sides[0] is None or sides[1] is None:
        return None
    terms, constants = _combined(sides[0], sides[1], -1)
    if sorted(terms.values()) != [-1, 1]:
        return None
    (left, left_sign), (right, _) = sorted(terms.items())
    if not left < width <= right:
        return None
    # left_sign·(left − right) + constant ⟨fn⟩ 0, as a bound on right − left
    fn = condition.fn
    if left_sign < 0:
        constants = tuple(map(_negative, constants))
    else:
        fn = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}[fn]
    bound: int | float = sum(literal.value for literal in constants)  # type: ignore[misc]
    floating = isinstance(bound, float) or condition.args[0].type.is_float
    written = constants[0] if len(constants) == 1 else None
    bound = float(bound) if floating else bound
    return _bounded(left, right - width, fn, bound, floating, written)


def _is_bounded_difference(comparison: Call) -> bool:
    """Whether the condition compares the difference of two columns with a constant."""
    sides = [plain(arg) for arg in comparison.args]
    for difference, bound in (sides, sides[::-1]):
        if isinstance(bound, Literal) and isinstance(difference, Call) and difference.fn == "sub":
            return all(isinstance(plain(arg), Column) for arg in difference.args)
    return False


def _takes_nan(comparison: Expr) -> bool:
    """Whether a NaN difference may satisfy the comparison (NaN is above all numbers)."""
    assert isinstance(comparison, Call)
    if not comparison.args[0].type.is_float:
        return False
    difference_first = not isinstance(plain(comparison.args[0]), Literal)
    return comparison.fn in (("gt", "ge") if difference_first else ("lt", "le"))


def _bounded(
    left: int, right: int, fn: str, bound: int | float, floating: bool, written: Literal | None
) -> Band | None:
    """Right − left ⟨fn⟩ bound; strict bounds of floats have no closed form."""
    if fn in ("lt", "gt"):
        if floating:
            return None
        bound, written = bound - 1 if fn == "lt" else bound + 1, None
    low = bound if fn in ("gt", "ge", "eq") else None
    high = bound if fn in ("lt", "le", "eq") else None
    at = None if written is None else written.at
    places = (None if low is None else at, None if high is None else at)
    return Band(left, right, low, high, places)


def _merge(a: Band | None, b: Band) -> Band | None:
    """The intersection of two bands; None if they bound different columns."""
    if a is None:
        return b
    if (a.left_column, a.right_column) != (b.left_column, b.right_column):
        return None
    low, high = a, a
    if b.low is not None and (a.low is None or b.low > a.low):
        low = b
    if b.high is not None and (a.high is None or b.high < a.high):
        high = b
    written = (low.written[0], high.written[1])
    return Band(a.left_column, a.right_column, low.low, high.high, written)
