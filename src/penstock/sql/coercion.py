"""Typing of bound expressions: common types, casts, comparisons and arithmetic.

Rules (DESIGN §3): integers compute in BIGINT, `/` is DOUBLE, decimals are exact up to 18 digits,
time differences are BIGINT µs. A constant takes the type of its partner where that is exact, so
that texts which differ in constants only bind to equal plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sqlglot import exp

from penstock.errors import Place, TypeError_
from penstock.frozen import frozen
from penstock.logical.expr import Call, Expr, Literal, Param, walk
from penstock.sql.dialect import place_of
from penstock.sql.literals import cast_literal, convert
from penstock.types import BIGINT, BOOLEAN, DOUBLE, NULL, TIMESTAMP, Kind, SqlType, decimal

Where = exp.Expr | None
"""The syntax tree of an expression; errors look up its place there."""
CommonType = Callable[[SqlType, SqlType], SqlType | None]
FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP)


@dataclass
class Params:
    """The explicit parameters of a query, in the order of the text; types as they get known."""

    names: list[str] = field(default_factory=list)
    types: dict[str, SqlType] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    """The length of one unit, for parameters that are window lengths."""
    values: set[str] = field(default_factory=set)
    """Parameters that are used in expressions."""

    def reference(self, name: str, place: Place | None = None) -> Expr:
        """A use of ``$name``."""
        if self.units.get(name, 1) != 1:
            raise _two_meanings(name, place)
        self.values.add(name)
        index = self.names.index(name)
        if name in self.types:
            return Param(self.types[name], index, name)
        return FreeParam(NULL, index, name, self)

    def length(self, name: str, unit: int, place: Place | None) -> Param:
        """A use of ``$name`` as the length of a window that counts in `unit`."""
        wrong = self.types.setdefault(name, BIGINT) != BIGINT
        scaled = unit != 1 and name in self.values
        if wrong or scaled or self.units.setdefault(name, unit) != unit:
            raise _two_meanings(name, place)
        return Param(BIGINT, self.names.index(name), name)


def _two_meanings(name: str, place: Place | None) -> TypeError_:
    return TypeError_(
        f"parameter ${name} is used as a window length with a unit and for another value",
        code="PS-TYPE-015",
        place=place,
        remedy="use two parameters",
    )


@frozen
class FreeParam(Expr):
    """A parameter of a type that is not known yet; never part of a finished plan."""

    index: int
    name: str
    owner: Params = field(compare=False, repr=False)

    def fixed(self, type_: SqlType) -> Expr:
        """The parameter, with its type known from now on."""
        return Param(self.owner.types.setdefault(self.name, type_), self.index, self.name)


@frozen
class FreeMinus(FreeParam):
    """Minus a parameter of a type that is not known yet."""

    of: FreeParam = field(repr=False)
    node: Where = field(compare=False, repr=False)

    def fixed(self, type_: SqlType) -> Expr:
        """The negated parameter: both are of the type in which values of `type_` are computed."""
        return minus(self.of.fixed(computing_type(type_)), self.node)


def common_type(a: SqlType, b: SqlType) -> SqlType | None:
    """The type in which values of both can be compared; None if there is none."""
    if a == b or b.kind is Kind.NULL:
        return a
    if a.kind is Kind.NULL:
        return b
    if a.is_numeric and b.is_numeric:
        return _common_number(a, b)
    if a.kind in _TEMPORAL and b.kind in _TEMPORAL:
        return TIMESTAMP
    if {a.kind, b.kind} == {Kind.INTERVAL, Kind.BIGINT}:
        return BIGINT
    return None


def _common_number(a: SqlType, b: SqlType) -> SqlType:
    if a.is_float or b.is_float:
        return DOUBLE
    if a.is_integer and b.is_integer:
        return BIGINT
    if Kind.BIGINT in (a.kind, b.kind):
        return DOUBLE  # 19 digits and a fraction fit no DECIMAL(18)
    scale = max(a.scale, b.scale)
    whole = max(10 if t.is_integer else t.precision - t.scale for t in (a, b))
    return decimal(min(18, whole + scale), scale)


def comparing_type(a: SqlType, b: SqlType) -> SqlType | None:
    """The type in which values of both are compared: one that holds all of them."""
    common = common_type(a, b)
    if a == b or common is None or common.kind is not Kind.DECIMAL:
        return common
    whole = max(10 if t.is_integer else t.precision - t.scale for t in (a, b))
    return common if whole + common.scale <= 18 else DOUBLE


def coerce(expr: Expr, to: SqlType) -> Expr:
    """`expr` as a value of type `to`; the caller ensures that this is possible."""
    if isinstance(expr, FreeParam):
        return coerce(expr.fixed(to), to)
    if expr.type == to:
        return expr
    if isinstance(expr, Literal):
        return cast_literal(expr, to, None)
    return Call(to, "cast", (expr,))


def fixed(expr: Expr, type_: SqlType) -> Expr:
    """`expr`; a parameter of unknown type becomes one of type `type_`."""
    return expr.fixed(type_) if isinstance(expr, FreeParam) else expr


def _mismatch(a: SqlType, b: SqlType, node: Where) -> TypeError_:
    if a.is_string or b.is_string:
        other = b if a.is_string else a
        return TypeError_(
            f"STRING cannot be compared with {other}", code="PS-TYPE-002", place=place_of(node),
            remedy=f"CAST one side, for example CAST(x AS {other})",
        )  # fmt: skip
    return TypeError_(
        f"{a} and {b} have no common type",
        place=place_of(node),
        remedy="CAST one side to the other's type",
    )


def _adapted(literal: Literal, to: SqlType) -> bool:
    """Whether the constant means the same in type `to`."""
    if literal.type.is_string and to.kind not in (*_TEMPORAL, Kind.STRING):
        return False
    return convert(literal, to) is not None


def unify(exprs: Sequence[Expr], node: Where, of: CommonType = common_type) -> list[Expr]:
    """All of `exprs` in the type that `of` finds for theirs."""
    exprs = _computed(exprs, node, of)
    constants = [e for e in exprs if isinstance(e, Literal)]
    typed = [e.type for e in exprs if not isinstance(e, Literal | FreeParam)]
    types = typed or [e.type for e in constants]
    if not types:
        raise untyped(exprs[0], node)

    def merge(a: SqlType, b: SqlType) -> SqlType:
        common = of(a, b)
        if common is None:
            raise _mismatch(a, b, node)
        return common

    target = reduce(merge, types)
    free = bool(typed)  # constants do not influence the type
    for constant in constants:
        if not _adapted(constant, target):
            target, free = merge(target, constant.type), False
    return [
        _constant(e, target, free) if isinstance(e, Literal) else coerce(e, target) for e in exprs
    ]


def _computed(exprs: Sequence[Expr], node: Where, of: CommonType) -> Sequence[Expr]:
    """`exprs`; negated parameters get the type that the others have in common."""
    others = [e for e in exprs if not isinstance(e, FreeMinus)]
    if not others or len(others) == len(exprs):
        return exprs
    target = unify(others, node, of)[0].type
    return [e.fixed(target) if isinstance(e, FreeMinus) else e for e in exprs]


def _constant(literal: Literal, to: SqlType, free: bool) -> Literal:
    """`literal` in type `to`; if `free`, only its text decides its value."""
    made = literal if literal.type == to else cast_literal(literal, to, None)
    at = literal.at if free else None
    return made if made.at is at else replace(made, at=at)


def untyped(expr: Expr, node: Where) -> TypeError_:
    """The complaint about a parameter of unknown type."""
    return TypeError_(
        f"the type of ${getattr(expr, 'name', '')} is not known here", code="PS-TYPE-004",
        place=place_of(node), remedy="write CAST($name AS type)",
    )  # fmt: skip


def has_column(expr: Expr) -> bool:
    """Whether any column is read (also one of an outer query)."""
    return any(not isinstance(e, Literal | Param | FreeParam | Call) for e in walk(expr))


def compare(fn: str, left: Expr, right: Expr, node: Where) -> Expr:
    """A comparison in the common type; what varies stands on the left."""
    if not has_column(left) and has_column(right):
        fn, left, right = FLIPPED[fn], right, left
    left, right = unify((left, right), node, comparing_type)
    return Call(BOOLEAN, fn, (left, right))


def boolean(expr: Expr, node: Where) -> Expr:
    """`expr` as a condition."""
    if isinstance(expr, FreeParam) or expr.type.kind is Kind.NULL:
        return coerce(expr, BOOLEAN)
    if expr.type != BOOLEAN:
        raise TypeError_(
            f"expected a condition, found {expr.type}", place=place_of(node),
            remedy="write a condition, such as x > 0",
        )  # fmt: skip
    return expr


def computing_type(type_: SqlType) -> SqlType:
    """The type in which numbers of `type_` are computed."""
    return BIGINT if type_.is_integer else DOUBLE if type_.is_float else type_


def minus(expr: Expr, node: Where) -> Expr:
    """Minus a number."""
    if not expr.type.is_numeric:
        raise TypeError_(
            f"minus needs a number, this is {expr.type}", place=place_of(node),
            remedy="CAST it to a number",
        )  # fmt: skip
    to = computing_type(expr.type)
    return Call(to, "neg", (coerce(expr, to),))


def cast(expr: Expr, to: SqlType, node: Where) -> Expr:
    """CAST(expr AS to)."""
    if isinstance(expr, FreeParam) or expr.type == to:
        return coerce(expr, to)
    if isinstance(expr, Literal):
        return cast_literal(expr, to, place_of(node))
    a, b = expr.type, to
    castable = (
        a.kind is Kind.NULL
        or (a.is_string or b.is_string)
        or (a.is_numeric and b.is_numeric)
        or (a.kind in _TEMPORAL and b.kind in _TEMPORAL)
        or (a.kind is Kind.BOOLEAN and b.is_integer)
        or (b.kind is Kind.BOOLEAN and a.is_integer)
    )
    if not castable:
        raise TypeError_(
            f"a {a} cannot be cast to {b}", place=place_of(node),
            remedy="use epoch(x) for the seconds of a time, or cast through STRING",
        )  # fmt: skip
    return Call(to, "cast", (expr,))


def try_cast(expr: Expr, to: SqlType, node: Where) -> Expr:
    """TRY_CAST(expr AS to): NULL where CAST fails."""
    try:
        made = cast(expr, to, node)
    except TypeError_:
        if isinstance(expr, Literal):
            return Literal(to, None)
        raise
    if isinstance(made, Call) and made.fn == "cast" and made.args[0] is expr:
        return Call(to, "try_cast", (expr,))
    return made
