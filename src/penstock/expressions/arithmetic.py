"""Arithmetic on integers (in BIGINT), floats, decimals and times.

Overflow of integers and decimals is an error of the row; x/0 and x % 0 are NULL; a remainder
has the sign of the dividend; rounding is half away from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions import numbers as exact
from penstock.expressions.numbers import Checked
from penstock.expressions.vec import Vec, either, strict
from penstock.kernels.aggregates_parts import MAGNITUDE_BITS
from penstock.state.convert import F64, Native
from penstock.types import Kind, SqlType

DAY_US = 86_400_000_000
_OVERFLOW = "overflow"
_INT32 = np.iinfo(np.int32)


def coerce(vec: Vec, type_: SqlType) -> Vec:
    """A value of a narrower type as one of `type_` (numbers, DATE to TIMESTAMP, bare NULL)."""
    if vec.type == type_ or type_.kind is vec.type.kind is not Kind.DECIMAL:
        return vec
    if vec.type.kind is Kind.NULL:
        kind = np.float64 if type_.is_float else np.int64
        dtype = np.bool_ if type_.kind is Kind.BOOLEAN else kind
        return strict(type_, [vec], np.zeros(vec.length, dtype))
    if type_.is_float:
        return _floats(type_, [vec], vec.floats)
    if type_.kind is Kind.DECIMAL and not vec.type.is_float:
        values, bad = exact.rescale(vec.ints, vec.type.scale, type_.scale)
        return bounded(type_, [vec], values, bad)
    if type_.kind is Kind.TIMESTAMP and vec.type.kind is Kind.DATE:
        values, bad = exact.mul_checked(vec.ints, np.array([DAY_US]))
        return strict(type_, [vec], values, bad=bad, reason=_OVERFLOW)
    return Vec(
        type_, vec.length, vec.strings, vec.values, vec.null, vec.error, vec.reason, vec.text
    )


def bounded(
    type_: SqlType, args: Sequence[Vec], values: I64, bad: Bool | None, null: Bool | None = None
) -> Vec:
    """An integer-like result, bad also where it exceeds INT or the digits of a DECIMAL."""
    if type_.kind is Kind.INT:
        bad = either(bad, (values < _INT32.min) | (values > _INT32.max))
    elif type_.kind is Kind.DECIMAL:
        limit = 10**type_.precision
        bad = either(bad, (values <= -limit) | (values >= limit))
    return strict(
        type_, args, values, null=null, bad=bad, reason=f"{_OVERFLOW}: a value exceeds {type_}"
    )


def _floats(type_: SqlType, args: Sequence[Vec], values: F64, null: Bool | None = None) -> Vec:
    if type_.kind is Kind.FLOAT:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32).astype(np.float64)
    return strict(type_, args, values, null=null)


def _times(type_: SqlType, args: Sequence[Vec]) -> list[Vec]:
    """Arguments of date and time arithmetic in one unit: days, or µs when any is finer."""
    fine = type_.kind is Kind.TIMESTAMP or any(a.type.kind is Kind.TIMESTAMP for a in args)
    out = []
    for arg in args:
        if fine and arg.type.kind is Kind.DATE:
            arg = coerce(arg, SqlType(Kind.TIMESTAMP))
        elif not fine and arg.type.kind is Kind.INTERVAL and type_.kind is Kind.DATE:
            arg = strict(type_, [arg], arg.ints // DAY_US)
        out.append(arg)
    return out


def _binary(
    on_floats: Callable[[F64, F64], F64], on_ints: Callable[[I64, I64], Checked]
) -> Callable[[SqlType, list[Vec]], Vec]:
    """Addition and subtraction: decimals meet at the scale of the result."""

    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        if type_.is_float:
            a, b = args
            with np.errstate(all="ignore"):
                return _floats(type_, args, on_floats(a.floats, b.floats))
        if type_.kind is Kind.DECIMAL:
            x, bad_x = exact.rescale(args[0].ints, args[0].type.scale, type_.scale)
            y, bad_y = exact.rescale(args[1].ints, args[1].type.scale, type_.scale)
            values, bad = on_ints(x, y)
            return bounded(type_, args, values, either(either(bad_x, bad_y), bad))
        args = _times(type_, args)
        values, bad = on_ints(args[0].ints, args[1].ints)
        return bounded(type_, args, values, bad)

    return apply


def mul(type_: SqlType, args: list[Vec]) -> Vec:
    """Product; the scales of decimals add up."""
    a, b = args
    if type_.is_float:
        with np.errstate(all="ignore"):
            return _floats(type_, args, a.floats * b.floats)
    values, bad = exact.mul_checked(a.ints, b.ints)
    if type_.kind is Kind.DECIMAL:
        values, worse = exact.rescale(values, a.type.scale + b.type.scale, type_.scale)
        bad = either(bad, worse)
    return bounded(type_, args, values, bad)


def div(type_: SqlType, args: list[Vec]) -> Vec:
    """Quotient: real for float results, truncated for integer ones."""
    a, b = args
    zero = b.native == 0
    if type_.is_integer:
        x, y = a.ints, np.where(zero, 1, b.ints)
        with np.errstate(all="ignore"):
            quotient = x // y
        quotient = quotient + ((quotient < 0) & (quotient * y != x))
        return bounded(type_, args, quotient, (x == exact.MIN) & (y == -1), zero)
    with np.errstate(all="ignore"):
        ratio = a.floats / np.where(zero, 1.0, b.floats)
    if type_.kind is Kind.DECIMAL:
        values, bad = exact.to_integer(exact.round_away(ratio * 10.0**type_.scale))
        return bounded(type_, args, values, bad, zero)
    return _floats(type_, args, ratio, zero)


def mod(type_: SqlType, args: list[Vec]) -> Vec:
    """Remainder of truncated division."""
    a, b = args
    zero = b.native == 0
    if type_.is_float:
        with np.errstate(all="ignore"):
            return _floats(type_, args, np.fmod(a.floats, np.where(zero, 1.0, b.floats)), zero)
    x, bad_x = exact.rescale(a.ints, a.type.scale, type_.scale)
    y, bad_y = exact.rescale(b.ints, b.type.scale, type_.scale)
    # Dividing by −1 leaves nothing, and would trap for the least integer.
    rest = np.fmod(x, np.where(zero | (y == -1), 1, y))
    return bounded(type_, args, rest, either(bad_x, bad_y), zero)


def neg(type_: SqlType, args: list[Vec]) -> Vec:
    """−x."""
    (a,) = args
    if type_.is_float:
        return _floats(type_, args, -a.floats)
    return bounded(type_, args, -a.ints, a.ints == exact.MIN)


def abs_(type_: SqlType, args: list[Vec]) -> Vec:
    """|x|."""
    (a,) = args
    if type_.is_float:
        return _floats(type_, args, np.abs(a.floats))
    return bounded(type_, args, np.abs(a.ints), a.ints == exact.MIN)


def sign(type_: SqlType, args: list[Vec]) -> Vec:
    """−1, 0 or 1; 0 for NaN."""
    (a,) = args
    values = (a.native > 0).astype(np.int64) - (a.native < 0)
    if type_.is_float:
        return _floats(type_, args, values.astype(np.float64))
    return strict(type_, args, values * 10**type_.scale)


def round_(type_: SqlType, args: list[Vec]) -> Vec:
    """Round to a number of digits (0 when not given; negative: left of the point)."""
    a = args[0]
    if a.type.is_float:
        digits = args[1].ints if len(args) > 1 else np.zeros(1, np.int64)
        return _whole(type_, args, _round_float(a.floats, digits))
    digits_given = int(args[1].ints[0]) if len(args) > 1 else 0
    return _shift(type_, args, a, digits_given, exact.divide_away)


def _round_float(x: F64, digits: I64) -> F64:
    with np.errstate(all="ignore"):
        factor = np.power(10.0, np.abs(digits))
        fine = exact.round_away(x * factor) / factor
        coarse = exact.round_away(x / factor) * factor
    fine = np.where(np.isfinite(fine), fine, x)
    coarse = np.where(np.isfinite(coarse) | ~np.isfinite(x), coarse, 0.0)
    return np.where(digits >= 0, fine, coarse)


def _shift(
    type_: SqlType, args: list[Vec], a: Vec, digits: int, divide: Callable[[I64, int], I64]
) -> Vec:
    """An integer or decimal cut to `digits` with `divide`, as a value of `type_`."""
    values, scale = a.ints, a.type.scale
    if digits < scale:
        values, scale = divide(values, 10 ** (scale - digits)), digits
    if type_.is_float:
        return _floats(type_, args, values * np.float64(10.0) ** -scale)
    values, bad = exact.rescale(values, scale, type_.scale)
    return bounded(type_, args, values, bad)


def _whole(type_: SqlType, args: list[Vec], values: F64) -> Vec:
    """A whole float as a value of `type_`."""
    if type_.is_float:
        return _floats(type_, args, values)
    ints, bad = exact.to_integer(values)
    return bounded(type_, args, ints, bad)


def _toward(
    on_floats: Callable[[F64], F64], divide: Callable[[I64, int], I64]
) -> Callable[[SqlType, list[Vec]], Vec]:
    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        (a,) = args
        if a.type.is_float:
            return _whole(type_, args, on_floats(a.floats))
        return _shift(type_, args, a, 0, divide)

    return apply


def _real(
    function: Callable[[F64], Native], fails: Callable[[F64], Bool] | None, reason: str = ""
) -> Callable[[SqlType, list[Vec]], Vec]:
    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        x = args[0].floats
        with np.errstate(all="ignore"):
            bad = fails(x) if fails else None
            return strict(type_, args, function(x), bad=bad, reason=reason)

    return apply


def power(type_: SqlType, args: list[Vec]) -> Vec:
    """Power, in DOUBLE."""
    with np.errstate(all="ignore"):
        return _floats(type_, args, np.power(args[0].floats, args[1].floats))


def is_nan(type_: SqlType, args: list[Vec]) -> Vec:
    """Whether a float is NaN."""
    return strict(type_, args, np.isnan(args[0].floats))


def magnitude(type_: SqlType, args: list[Vec]) -> Vec:
    """A number for 64 binary orders of magnitude: 16 for 2⁻³¹ to 2³³, where 0 is too."""
    bits = args[0].floats.view(np.int64)
    orders = (((bits >> 52) & 0x7FF) + 32) // MAGNITUDE_BITS
    return strict(type_, args, np.where(args[0].floats == 0.0, 16, orders))


ARITHMETIC: dict[str, Callable[[SqlType, list[Vec]], Vec]] = {
    "add": _binary(lambda a, b: a + b, exact.add_checked),
    "sub": _binary(lambda a, b: a - b, exact.sub_checked),
    "mul": mul,
    "div": div,
    "mod": mod,
    "neg": neg,
    "abs": abs_,
    "sign": sign,
    "round": round_,
    "floor": _toward(np.floor, lambda a, d: a // d),
    "ceil": _toward(np.ceil, lambda a, d: -(-a // d)),
    "sqrt": _real(np.sqrt, lambda x: x < 0, "square root of a negative number"),
    "ln": _real(np.log, lambda x: x <= 0, "logarithm of a number that is not positive"),
    "exp": _real(np.exp, None),
    "power": power,
    "is_nan": is_nan,
    "magnitude": magnitude,
}
