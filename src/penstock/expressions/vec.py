"""Vec: the value of a subexpression over a batch of rows.

Values are native NumPy (bool, float64 or int64); strings are codes of the string table, an
Arrow array, or both, each made from the other on first use. A constant has length 1 and
broadcasts. Rows in `error` have no value. Only an error that reaches the root of an expression
counts, so a part that AND, OR or CASE does not need cannot fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import I64, Bool
from penstock.state.convert import F64, Native, canonical, column_array, fill_column, native_array
from penstock.state.strings import StringTable
from penstock.types import Kind, SqlType, arrow_type


@dataclass(slots=True)
class Vec:
    """Values of `type` for n rows, or one for all of them."""

    type: SqlType
    length: int
    strings: StringTable
    values: Native | None = None
    null: Bool | None = None
    error: Bool | None = None
    reason: str = ""
    text: pa.Array | None = field(default=None, repr=False)

    @property
    def native(self) -> Native:
        """The values as NumPy; codes for strings. Arbitrary where NULL or in error."""
        if self.values is None:
            self.values = self.strings.intern(self.text)
        return self.values

    @property
    def ints(self) -> I64:
        """The values of an integer-like type."""
        return cast(I64, self.native)

    @property
    def bools(self) -> Bool:
        """The values of a BOOLEAN."""
        return cast(Bool, self.native)

    @property
    def floats(self) -> F64:
        """A numeric value as float64."""
        if self.type.kind is Kind.DECIMAL:
            return self.native / np.float64(10**self.type.scale)
        return self.native.astype(np.float64, copy=False)

    @property
    def arrow(self) -> pa.Array:
        """As an Arrow array of its own length (1 for a constant)."""
        if not self.type.is_string:
            return native_array(self.native, self.null, self.type)
        if self.text is None:
            self.text = column_array(self.ints, self.null, self.type, self.strings)
        return self.text

    @property
    def alive(self) -> Bool | None:
        """Rows with a value; None when all have one."""
        gone = either(self.null, self.error)
        return None if gone is None else ~gone

    def physical(self, n: int) -> tuple[I64, Bool | None]:
        """As int64 words of n rows (0 where NULL) and the NULL mask."""
        null = fit(self.null, n)
        if null is not None and not null.any():
            null = None
        data = np.empty(n, np.int64)
        if self.type.is_float:
            canonical(cast(F64, np.broadcast_to(self.native, n)), data.view(np.float64))
        else:
            data[:] = self.native
        if null is not None:
            data[null] = 0
        return data, null


def fit(mask: Bool | None, n: int) -> Bool | None:
    """A mask of exactly n rows."""
    if mask is None or mask.shape[0] == n:
        return mask
    return np.broadcast_to(mask, n)


def either(a: Bool | None, b: Bool | None) -> Bool | None:
    """The union of two masks that may be absent."""
    if a is None:
        return b
    return a if b is None else a | b


def both(a: Bool | None, b: Bool) -> Bool:
    """`b` where `a` (absent: everywhere)."""
    return b if a is None else a & b


def length_of(args: Sequence[Vec]) -> int:
    """Length of the result of a function of `args`: 1 when all are constants."""
    lengths = [a.length for a in args]
    return next((length for length in lengths if length != 1), 1)


def errors_of(args: Sequence[Vec]) -> tuple[Bool | None, str]:
    """The union of the arguments' errors, with the first reason."""
    error: Bool | None = None
    reason = ""
    for arg in args:
        if arg.error is not None:
            error, reason = either(error, arg.error), reason or arg.reason
    return error, reason


def hidden(vec: Vec, left: Bool | None = None, reason: str = "") -> Vec:
    """`vec` with NULL where it has no value; rows `left` still have none, for `reason`."""
    if vec.error is None:
        return vec
    null = fit(either(vec.null, vec.error), vec.length)
    text = vec.text
    if text is not None:
        text = pc.if_else(pa.array(null), pa.scalar(None, text.type), text)
    error = fit(left, vec.length)
    return Vec(vec.type, vec.length, vec.strings, vec.values, null, error, reason, text)


def strict(
    type_: SqlType,
    args: Sequence[Vec],
    values: Native | pa.Array,
    *,
    null: Bool | None = None,
    bad: Bool | None = None,
    reason: str = "",
) -> Vec:
    """The result of a function that is NULL when any argument is.

    `null` adds NULLs, `bad` marks rows that failed for `reason` (NULL rows cannot fail).
    """
    n = length_of(args)
    for arg in args:
        null = either(null, arg.null)
    error, first = errors_of(args)
    if bad is not None and null is not None:
        bad = bad & ~null
    if bad is not None and bad.any():
        error, first = either(error, bad), first or reason
    vec = Vec(type_, n, args[0].strings, null=fit(null, n), error=fit(error, n), reason=first)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        vec.text = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    else:
        vec.values = values if values.shape[0] == n else np.broadcast_to(values, n)
    return vec


def from_arrow(type_: SqlType, array: pa.Array, strings: StringTable) -> Vec:
    """An Arrow array of the type's Arrow type as a Vec."""
    n = len(array)
    if type_.is_string:
        null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return Vec(type_, n, strings, null=null, text=array)
    data = np.empty(n, np.int64)
    null = fill_column(array, type_, strings, data)
    return Vec(type_, n, strings, values=to_native(data, type_), null=null)


def to_native(data: I64, type_: SqlType) -> Native:
    """Physical words as native values."""
    if type_.is_float:
        return data.view(np.float64)
    return data != 0 if type_.kind is Kind.BOOLEAN else data


def constant(type_: SqlType, value: object, strings: StringTable) -> Vec:
    """A literal (in physical terms)."""
    if value is None:
        return Vec(type_, 1, strings, values=_zero(type_), null=np.ones(1, np.bool_))
    if type_.is_string:
        return Vec(type_, 1, strings, text=pa.array([value], arrow_type(type_)))
    values = np.array([value], np.float32 if type_.kind is Kind.FLOAT else None)
    return Vec(type_, 1, strings, values=values.astype(_zero(type_).dtype))


def _zero(type_: SqlType) -> Native:
    if type_.is_float:
        return np.zeros(1, np.float64)
    return np.zeros(1, np.bool_ if type_.kind is Kind.BOOLEAN else np.int64)
