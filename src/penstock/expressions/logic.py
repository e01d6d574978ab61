"""Comparisons, three-valued logic and choices.

NaN equals NaN and is greater than every number. Strings are equal when their codes are, and
ordered by their UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import Bool
from penstock.expressions.arithmetic import coerce
from penstock.expressions.vec import (
    Vec,
    both,
    constant,
    either,
    errors_of,
    fit,
    length_of,
    strict,
)
from penstock.kernels.strings import compare_codes
from penstock.state.convert import F64
from penstock.types import BOOLEAN, DOUBLE, TIMESTAMP, Kind, SqlType, decimal

_OPPOSITE = {"gt": "le", "ge": "lt"}
_NUMPY = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_ARROW = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less,
    "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip


# ---- comparisons ---------------------------------------------------------------------
def compare(op: str, a: Vec, b: Vec) -> Vec:
    """Compare by one of eq, ne, lt, le, gt, ge."""
    if a.type.is_string and b.type.is_string:
        return strict(BOOLEAN, [a, b], _compare_text(op, a, b))
    a, b = common(a, b)
    if a.type.is_float:
        values = _compare_floats(op, a.floats, b.floats)
    else:
        values = _NUMPY[op](a.native, b.native)
    return strict(BOOLEAN, [a, b], values)


def common(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """Two values of comparable types as values of one type."""
    if a.type == b.type or (a.type.is_integer and b.type.is_integer):
        return a, b
    kinds = {a.type.kind, b.type.kind}
    if Kind.NULL in kinds:
        type_ = b.type if a.type.kind is Kind.NULL else a.type
    elif a.type.is_float or b.type.is_float:
        type_ = DOUBLE
    elif Kind.DECIMAL in kinds:
        type_ = decimal(18, max(a.type.scale, b.type.scale))
    elif kinds == {Kind.DATE, Kind.TIMESTAMP}:
        type_ = TIMESTAMP
    else:
        return a, b
    return coerce(a, type_), coerce(b, type_)


def _compare_floats(op: str, a: F64, b: F64) -> Bool:
    if op in _OPPOSITE:
        return ~_compare_floats(_OPPOSITE[op], a, b)
    values: Bool = _NUMPY[op](a, b)
    nan = np.isnan(b)
    if not nan.any():  # a NaN on the left makes <, <= and = false, as it should be
        return values
    if op == "le":
        return values | nan
    if op == "lt":
        return values | (nan & ~np.isnan(a))
    twins = nan & np.isnan(a)
    return values | twins if op == "eq" else values & ~twins


def _compare_text(op: str, a: Vec, b: Vec) -> Bool:
    if op in ("eq", "ne"):
        pair = _codes(a, b)
        if pair is not None:
            return _NUMPY[op](*pair)  # type: ignore[no-any-return]
    elif a.values is not None or b.values is not None:
        x, y = np.ascontiguousarray(a.ints), np.ascontiguousarray(b.ints)
        order = compare_codes(x, y, *a.strings.arrays())
        return _NUMPY[op](order, 0)
    x, y = (v.arrow if v.length > 1 else v.arrow[0] for v in (a, b))
    if a.length == b.length == 1:
        x = a.arrow
    values = _ARROW[op](x, y)
    return pc.fill_null(values, False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _codes(a: Vec, b: Vec) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes to compare for equality, when both sides have them or one is a constant."""
    found = []
    for vec in (a, b):
        if vec.values is not None:
            found.append(vec.values)
        elif vec.length == 1 and vec.null is None:
            # Looked up, not interned: a constant that no row holds equals none.
            found.append(np.array([vec.strings.find(vec.arrow[0].as_py())]))
        else:
            return None
    return None if a.values is None and b.values is None else (found[0], found[1])


def in_(type_: SqlType, args: list[Vec]) -> Vec:
    """Membership: true on a match, else NULL when x or any item is NULL."""
    x, items = args[0], args[1:]
    if any(i.length != 1 or i.error is not None for i in items):
        return or_(type_, [compare("eq", x, i) for i in items])
    known = [i for i in items if i.null is None]
    if x.type.is_string:
        texts = [i.arrow[0].as_py() for i in known]
        values = np.isin(x.ints, np.array([x.strings.find(t) for t in texts], np.int64))
    else:
        values = np.zeros(x.length, np.bool_)
        pairs = [common(x, i) for i in known]
        if pairs and all(p[0] is x for p in pairs):
            values = np.isin(x.native, np.concatenate([p[1].native for p in pairs]))
            if x.type.is_float and any(np.isnan(p[1].floats[0]) for p in pairs):
                values = values | np.isnan(x.floats)
        else:
            for a, b in pairs:
                values = values | compare("eq", a, b).bools
    unknown = ~values if len(known) < len(items) else None
    return strict(BOOLEAN, [x], values, null=unknown)


# ---- three-valued logic --------------------------------------------------------------
def _kleene(decisive: bool) -> Callable[[SqlType, list[Vec]], Vec]:
    """AND (decided by a false) or OR (decided by a true)."""

    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        n = length_of(args)
        decided: Bool = np.zeros(1, np.bool_)
        null: Bool | None = None
        for arg in args:
            decided = decided | both(arg.alive, arg.bools == decisive)
            null = either(null, arg.null)
        error, reason = errors_of(args)
        if error is not None:
            error = error & ~decided
        if null is not None:
            null = null & ~decided
        values = decided if decisive else ~decided
        values = values if values.shape[0] == n else np.broadcast_to(values, n)
        return Vec(BOOLEAN, n, args[0].strings, values, fit(null, n), fit(error, n), reason)

    return apply


and_ = _kleene(False)
or_ = _kleene(True)


def not_(type_: SqlType, args: list[Vec]) -> Vec:
    """NOT x."""
    return strict(BOOLEAN, args, ~args[0].bools)


def is_null(type_: SqlType, args: list[Vec]) -> Vec:
    """Whether x is NULL."""
    (a,) = args
    values = np.zeros(a.length, np.bool_) if a.null is None else a.null
    return Vec(BOOLEAN, a.length, a.strings, values, None, a.error, a.reason)


def is_not_null(type_: SqlType, args: list[Vec]) -> Vec:
    """Whether x is not NULL."""
    (a,) = args
    values = np.ones(a.length, np.bool_) if a.null is None else ~a.null
    return Vec(BOOLEAN, a.length, a.strings, values, None, a.error, a.reason)


# ---- choices -------------------------------------------------------------------------
def choose(where: Bool, a: Vec, b: Vec) -> Vec:
    """`a` in the rows of `where`, else `b`; both of one type. Unchosen errors do not count."""
    n = max(where.shape[0], length_of([a, b])) if where.shape[0] else 0
    values = np.where(where, a.native, b.native)
    null = _pick(where, a.null, b.null)
    error = _pick(where, a.error, b.error)
    values = values if values.shape[0] == n else np.broadcast_to(values, n)
    reason = a.reason or b.reason
    return Vec(a.type, n, a.strings, values, fit(null, n), fit(error, n), reason)


def _pick(where: Bool, a: Bool | None, b: Bool | None) -> Bool | None:
    if a is None and b is None:
        return None
    return np.where(where, False if a is None else a, False if b is None else b)


def case(type_: SqlType, args: list[Vec]) -> Vec:
    """CASE: condition 1, value 1, …, else."""
    result = coerce(args[-1], type_) if len(args) % 2 else constant(type_, None, args[0].strings)
    for k in range(len(args) - len(args) % 2 - 2, -1, -2):
        test = args[k]
        result = choose(both(test.alive, test.bools), coerce(args[k + 1], type_), result)
        if test.error is not None:
            result.error = fit(either(result.error, test.error), result.length)
            result.reason = result.reason or test.reason
    return result


def coalesce(type_: SqlType, args: list[Vec]) -> Vec:
    """The first argument that is not NULL."""
    result = coerce(args[-1], type_)
    for arg in reversed(args[:-1]):
        here = np.ones(1, np.bool_) if arg.null is None else ~arg.null
        if arg.error is not None:
            here = here | arg.error
        result = choose(here, coerce(arg, type_), result)
    return result


def nullif(type_: SqlType, args: list[Vec]) -> Vec:
    """NULL when both arguments are equal, else the first."""
    a = coerce(args[0], type_)
    same = compare("eq", args[0], args[1])
    result = choose(both(same.alive, same.bools), constant(type_, None, a.strings), a)
    result.error, result.reason = fit(same.error, result.length), same.reason
    return result


def _extreme(op: str) -> Callable[[SqlType, list[Vec]], Vec]:
    """Greatest or least argument; NULLs are skipped."""

    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        best = coerce(args[0], type_)
        for arg in args[1:]:
            arg = coerce(arg, type_)
            wins = compare(op, arg, best).bools
            if best.null is not None:
                wins = wins | best.null
            if arg.null is not None:
                wins = wins & ~arg.null
            error, reason = errors_of([best, arg])
            best = choose(wins, arg, best)
            best.error, best.reason = fit(error, best.length), reason
        return best

    return apply


def _comparison(op: str) -> Callable[[SqlType, list[Vec]], Vec]:
    return lambda type_, args: compare(op, args[0], args[1])


LOGIC: dict[str, Callable[[SqlType, list[Vec]], Vec]] = {
    **{op: _comparison(op) for op in _NUMPY},
    "in": in_,
    "and": and_,
    "or": or_,
    "not": not_,
    "is_null": is_null,
    "is_not_null": is_not_null,
    "case": case,
    "coalesce": coalesce,
    "nullif": nullif,
    "greatest": _extreme("gt"),
    "least": _extreme("lt"),
}
