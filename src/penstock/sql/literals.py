"""Constants: from text to physical values, and from one type to another without loss.

`convert` returns None instead of changing a value: a constant takes the type of its partner in
a comparison only if its value stays the same.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from penstock.errors import Place, TypeError_, UnsupportedError
from penstock.logical.expr import Literal, Value, Written
from penstock.sql.dialect import place_of
from penstock.sql.units import UNITS, whole
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    SqlType,
    decimal,
)  # fmt: skip

DAY = UNITS["DAY"]
_EPOCH = dt.datetime(1970, 1, 1)
_INT32 = 1 << 31
_INT64 = 1 << 63

_NAMES = {
    "BOOLEAN": BOOLEAN, "BOOL": BOOLEAN, "INT": INT, "INTEGER": INT, "BIGINT": BIGINT,
    "LONG": BIGINT, "FLOAT": FLOAT, "REAL": FLOAT, "DOUBLE": DOUBLE, "STRING": STRING,
    "VARCHAR": STRING, "TEXT": STRING, "DATE": DATE, "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
}  # fmt: skip
TYPES_HELP = "use BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, DATE or TIMESTAMP"


def type_named(name: str, numbers: tuple[int, ...], place: Place | None) -> SqlType:
    """The type called `name`, with the numbers in its parentheses."""
    upper = name.upper()
    if upper in ("DECIMAL", "NUMERIC"):
        if not numbers:
            raise TypeError_(
                f"{upper} does not give its number of digits", code="PS-TYPE-013", place=place,
                remedy=f"write {upper}(18, 2) for two digits after the point, or DOUBLE",
            )  # fmt: skip
        precision, scale = (*numbers, 0)[:2]
        try:
            return decimal(precision, scale)
        except TypeError_ as error:
            raise TypeError_(
                error.message, code=error.code, place=place, remedy=error.remedy
            ) from error
    if upper not in _NAMES:
        raise TypeError_(
            f"there is no type {name}", code="PS-TYPE-008", place=place, remedy=TYPES_HELP
        )
    return _NAMES[upper]


def type_of(cast: exp.Cast) -> SqlType:
    """The type a CAST names."""
    node = cast.to
    name = node.this.value if isinstance(node.this, exp.DType) else str(node.this)
    numbers = tuple(int(p.name) for p in node.expressions if p.name.isdigit())
    return type_named(name, numbers, place_of(cast))


def number(text: str, place: Place | None) -> Literal:
    """A number as written: integers, decimals, and floats with an exponent."""
    text = text.replace("_", "")
    if text.isdigit():
        value = whole(text)
        if value is not None and value < _INT64:
            return Literal(INT if value < _INT32 else BIGINT, value)
        raise TypeError_(
            f"{text} does not fit a BIGINT", code="PS-TYPE-006", place=place,
            remedy="write it with an exponent to make it a DOUBLE",
        )  # fmt: skip
    if "e" in text.lower():
        return Literal(DOUBLE, float(text))
    try:
        return from_decimal(Decimal(text)) or Literal(DOUBLE, float(text))
    except InvalidOperation as error:
        raise TypeError_(
            f"{text} is not a number", code="PS-TYPE-006", place=place, remedy="check its digits"
        ) from error


def from_decimal(value: Decimal) -> Literal | None:
    """The narrowest DECIMAL literal, None beyond 18 digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale))
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return Literal(decimal(precision, scale), unscaled) if precision <= 18 else None


def interval(node: exp.Interval) -> Literal:
    """INTERVAL '5' SECOND as µs."""
    unit = str(node.args["unit"].name).upper() if node.args.get("unit") else ""
    if unit not in UNITS or not isinstance(node.this, exp.Literal):
        raise UnsupportedError(
            "an INTERVAL needs a constant and one of the units WEEK … MICROSECOND",
            code="PS-SQL-024", place=place_of(node), remedy="write INTERVAL 5 MINUTES",
        )  # fmt: skip
    try:
        micros = int(Decimal(node.this.name) * UNITS[unit])
    except (InvalidOperation, OverflowError):
        micros = _INT64
    if abs(micros) >= _INT64:
        raise TypeError_(
            f"{node.this.name!r} {unit} is not a length of time", code="PS-TYPE-006",
            place=place_of(node), remedy="write INTERVAL 5 MINUTES",
        )  # fmt: skip
    return Literal(INTERVAL, micros)


def literal_of(node: exp.Expr) -> Literal | None:
    """The constant that an AST spells out; None if it is not a constant."""
    if isinstance(node, exp.Literal):
        place = node.meta.get("at")
        at = None if place is None else Written(place)
        if node.is_string:
            return Literal(STRING, node.name, at)
        return replace(number(node.name, place), at=at)
    if isinstance(node, exp.Null):
        return Literal(NULL, None)
    if isinstance(node, exp.Boolean):
        return Literal(BOOLEAN, bool(node.this))
    if isinstance(node, exp.Interval):
        return interval(node)
    if isinstance(node, exp.Paren):
        return literal_of(node.this)
    if isinstance(node, exp.Neg):
        if isinstance(node.this, exp.Literal) and node.this.name == str(_INT64):
            return Literal(BIGINT, -_INT64)  # the positive number does not fit a BIGINT
        inner = literal_of(node.this)
        return negated(inner) if inner is not None else None
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        inner = literal_of(node.this)
        return cast_literal(inner, type_of(node), place_of(node)) if inner else None
    return None


def negated(literal: Literal) -> Literal | None:
    """Minus a numeric or interval constant."""
    if isinstance(literal.value, bool | str) or literal.value is None:
        return literal if literal.value is None else None
    if literal.type.kind in (Kind.TIMESTAMP, Kind.DATE) or literal.value == -_INT64:
        return None
    at = literal.at
    return Literal(literal.type, -literal.value, at and replace(at, negated=not at.negated))


def cast_literal(literal: Literal, to: SqlType, place: Place | None) -> Literal:
    """CAST of a constant; loses digits as CAST may, but never fails silently."""
    exact = convert(literal, to)
    if exact is not None:
        return exact
    value = as_number(literal)
    if value is not None and to.is_integer:
        rounding = "ROUND_HALF_EVEN" if literal.type.is_float else "ROUND_HALF_UP"
        exact = _fitting(int(value.to_integral_value(rounding=rounding)), to)
    elif value is not None and to.kind is Kind.DECIMAL:
        unscaled = int(value.scaleb(to.scale).to_integral_value(rounding="ROUND_HALF_UP"))
        exact = _fitting(unscaled, to)
    elif value is not None and to.kind is Kind.FLOAT:
        nearest: float = struct.unpack("f", struct.pack("f", float(value)))[0]
        exact = Literal(to, nearest) if math.isfinite(nearest) else None
    elif literal.type.kind is Kind.TIMESTAMP and to.kind is Kind.DATE:
        exact = Literal(DATE, int(literal.value or 0) // DAY)
    elif to.is_string and isinstance(literal.value, bool | int) and literal.type.is_integer:
        exact = Literal(STRING, str(literal.value))
    if exact is None:
        raise TypeError_(
            f"{literal} is not a {to}", code="PS-TYPE-006", place=place,
            remedy=f"write a constant that is a {to}",
        )  # fmt: skip
    return exact


def as_number(literal: Literal) -> Decimal | None:
    """The exact value of a finite numeric constant."""
    value = literal.value
    if value is None or isinstance(value, str | bool) or not literal.type.is_numeric:
        return None
    if isinstance(value, float):
        return Decimal(value) if math.isfinite(value) else None
    return Decimal(value).scaleb(-literal.type.scale)


def convert(literal: Literal, to: SqlType) -> Literal | None:
    """The same constant in type `to`, None when it is not exactly representable there.

    Floats take the nearest double. A string becomes a date, time or number only when `to`
    says so: the caller decides whether that is wanted.
    """
    if literal.type == to or literal.value is None:
        return Literal(to, literal.value)
    if literal.type.is_string:
        return _parsed(str(literal.value), to)
    kind = literal.type.kind
    if kind is Kind.DATE and to.kind is Kind.TIMESTAMP:
        return Literal(to, int(literal.value) * DAY)
    if kind is Kind.TIMESTAMP and to.kind is Kind.DATE and int(literal.value) % DAY == 0:
        return Literal(to, int(literal.value) // DAY)
    if kind is Kind.INTERVAL and to.kind is Kind.BIGINT:
        return Literal(to, literal.value)
    if literal.type.is_numeric and to.is_numeric:
        return _numeric(literal, to)
    return None


def _numeric(literal: Literal, to: SqlType) -> Literal | None:
    if literal.type.is_integer and to.is_integer:
        assert isinstance(literal.value, int)
        return _fitting(literal.value, to)
    if to.kind is Kind.DOUBLE:
        value = as_number(literal)
        return Literal(to, float(literal.value or 0) if value is None else float(value))
    exact = as_number(literal)
    if exact is None or to.kind is Kind.FLOAT:
        return None
    scaled = exact.scaleb(to.scale)
    if scaled != scaled.to_integral_value():
        return None
    return _fitting(int(scaled), to)


def _fitting(value: int, to: SqlType) -> Literal | None:
    """An integer, already scaled, if it is within the range of `to`."""
    if to.kind is Kind.DECIMAL:
        return Literal(to, value) if abs(value) < 10**to.precision else None
    limit = _INT32 if to.kind is Kind.INT else _INT64
    return Literal(to, value) if -limit <= value < limit else None


def _parsed(text: str, to: SqlType) -> Literal | None:
    value: Value = None
    try:
        if to.kind is Kind.TIMESTAMP:
            value = _micros(dt.datetime.fromisoformat(text.strip()))
        elif to.kind is Kind.DATE:
            value = (dt.date.fromisoformat(text.strip()) - _EPOCH.date()).days
        elif to.kind is Kind.BOOLEAN:
            value = {"true": True, "false": False}.get(text.strip().lower())
        elif to.is_float:
            value = float(text)
        elif to.is_numeric:
            scaled = Decimal(text.strip()).scaleb(to.scale)
            return _fitting(int(scaled), to) if scaled == scaled.to_integral_value() else None
    except (ValueError, InvalidOperation, OverflowError):
        return None
    return Literal(to, value) if value is not None else None


def _micros(moment: dt.datetime) -> int:
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
