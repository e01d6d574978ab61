"""CAST between numbers, times and text. A value that does not fit is an error of its row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Bool
from penstock.expressions import numbers as exact
from penstock.expressions.arithmetic import DAY_US, bounded, coerce
from penstock.expressions.guard import attempt
from penstock.expressions.vec import Vec, from_arrow, hidden, strict
from penstock.types import DOUBLE, STRING, TIMESTAMP, Kind, SqlType, arrow_type

_TRUE = pa.array(["true", "t", "yes", "y", "1"])
_FALSE = pa.array(["false", "f", "no", "n", "0"])
_WIDE = pa.decimal128(38, 19)


def cast(type_: SqlType, args: list[Vec]) -> Vec:
    """CAST(x AS type_)."""
    (a,) = args
    if a.type == type_ or a.type.kind is Kind.NULL:
        return coerce(a, type_)
    if type_.is_string:
        return strict(STRING, args, _write(a))
    if a.type.is_string:
        return _read(a, type_)
    if type_.kind is Kind.BOOLEAN:
        return strict(type_, args, a.native != 0)
    if a.type.kind is Kind.BOOLEAN:
        a = strict(SqlType(Kind.BIGINT), args, a.native.astype(np.int64))
    if type_.is_float:
        return _to_float(a, type_)
    if a.type.is_float:
        return _from_float(a, type_)
    return _whole(a, type_)


def try_cast(type_: SqlType, args: list[Vec]) -> Vec:
    """TRY_CAST(x AS type_): NULL if the cast fails; still an error where x itself fails."""
    return hidden(cast(type_, args), args[0].error, args[0].reason)


def _whole(a: Vec, type_: SqlType) -> Vec:
    """Between integers, decimals and times."""
    if type_.kind is Kind.DATE and a.type.kind is Kind.TIMESTAMP:
        return strict(type_, [a], a.ints // DAY_US)
    if type_.kind is Kind.TIMESTAMP and a.type.kind is Kind.DATE:
        return coerce(a, type_)
    values, bad = exact.rescale(a.ints, a.type.scale, type_.scale)
    return bounded(type_, [a], values, bad)


def _to_float(a: Vec, type_: SqlType) -> Vec:
    wide = a.floats
    if type_.kind is not Kind.FLOAT:
        return strict(type_, [a], wide)
    with np.errstate(over="ignore"):
        values = wide.astype(np.float32).astype(np.float64)
    bad = np.isinf(values) & ~np.isinf(wide)
    return strict(type_, [a], values, bad=bad, reason="a value exceeds FLOAT")


def _from_float(a: Vec, type_: SqlType) -> Vec:
    with np.errstate(all="ignore"):
        if type_.kind is Kind.DECIMAL:
            whole = exact.round_away(a.floats * 10.0**type_.scale)
        else:
            whole = np.rint(a.floats)  # to integers half goes to even, as in DuckDB
    values, bad = exact.to_integer(whole)
    return bounded(type_, [a], values, bad)


# ---- text ----------------------------------------------------------------------------
def _write(a: Vec) -> pa.Array:
    if a.type.is_float:
        dtype = np.float32 if a.type.kind is Kind.FLOAT else np.float64
        values = (a.floats + 0.0).astype(dtype)  # no −0.0, as in stored rows
        texts = pa.array(values.astype("U32").astype(object), pa.string())
        return _masked(texts, a.null)
    if a.type.kind is Kind.DECIMAL:
        return _masked(_write_decimal(a), a.null)
    texts = a.arrow.cast(pa.string())
    if a.type.kind is Kind.TIMESTAMP:
        return pc.replace_substring_regex(texts, pattern=r"\.?0*$", replacement="")
    return texts


def _masked(texts: pa.Array, null: Bool | None) -> pa.Array:
    if null is None:
        return texts
    return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), texts)


def _write_decimal(a: Vec) -> pa.Array:
    scale = a.type.scale
    size = np.abs(a.ints)
    whole = pa.array(size // 10**scale).cast(pa.string())
    minus = pc.if_else(pa.array(a.ints < 0), "-", "")
    if scale == 0:
        return pc.binary_join_element_wise(minus, whole, "")
    digits = pa.array(size % 10**scale).cast(pa.string())
    digits = pc.utf8_lpad(digits, scale, "0")
    return pc.binary_join_element_wise(minus, whole, pa.scalar("."), digits, "")


def _read(a: Vec, type_: SqlType) -> Vec:
    texts = pc.utf8_trim_whitespace(a.arrow)
    array, bad = attempt(_READERS.get(type_.kind, _plain), texts, type_)
    result = from_arrow(type_, array, a.strings)
    result.null = None  # rows that could not be read are errors, not NULLs
    return strict(
        type_,
        [a, result],
        result.native,
        bad=bad,
        reason=f"CAST of a text that is not a valid {type_}",
    )


def _plain(texts: pa.Array, type_: SqlType) -> pa.Array:
    return texts.cast(arrow_type(type_))


def _read_integer(texts: pa.Array, type_: SqlType) -> pa.Array:
    try:
        return texts.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        pass
    # '+5', '3.7' and '1e3' are numbers too; decimals keep all digits of a BIGINT.
    wide = _decimals(texts)
    return pc.round(wide, 0, "half_towards_infinity").cast(pa.int64()).cast(arrow_type(type_))


def _decimals(texts: pa.Array) -> pa.Array:
    return texts.cast(_WIDE)


def _read_decimal(texts: pa.Array, type_: SqlType) -> pa.Array:
    rounded = pc.round(_decimals(texts), type_.scale, "half_towards_infinity")
    return rounded.cast(arrow_type(type_))


def _read_boolean(texts: pa.Array, type_: SqlType) -> pa.Array:
    lower = pc.utf8_lower(texts)
    true = pc.is_in(lower, _TRUE)
    if not pc.all(pc.or_(pc.or_(true, pc.is_in(lower, _FALSE)), pc.is_null(texts))).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return true


def _read_timestamp(texts: pa.Array, type_: SqlType) -> pa.Array:
    try:
        return texts.cast(arrow_type(TIMESTAMP))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us", "UTC")).cast(arrow_type(TIMESTAMP))


def _read_date(texts: pa.Array, type_: SqlType) -> pa.Array:
    try:
        return texts.cast(pa.date32())
    except pa.ArrowInvalid:
        return _read_timestamp(texts, type_).cast(pa.date32(), safe=False)


_READERS: dict[Kind, Callable[[pa.Array, SqlType], pa.Array]] = {
    Kind.INT: _read_integer,
    Kind.BIGINT: _read_integer,
    Kind.DECIMAL: _read_decimal,
    Kind.BOOLEAN: _read_boolean,
    Kind.TIMESTAMP: _read_timestamp,
    Kind.DATE: _read_date,
    DOUBLE.kind: _plain,
}
