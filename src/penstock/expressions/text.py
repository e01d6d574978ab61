"""String functions. Positions and lengths count characters (code points), from 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import I64, Bool
from penstock.expressions.vec import Vec, either, fit, length_of, strict
from penstock.kernels.text import copy_ranges, count_chars, cut_chars, find_text
from penstock.state.strings import utf8_array, utf8_buffers
from penstock.types import STRING, SqlType

Function = Callable[[SqlType, list[Vec]], Vec]
_LONGEST_PAD = 1 << 24


def _unary(function: Callable[[pa.Array], pa.Array]) -> Function:
    return lambda type_, args: strict(type_, args, function(args[0].arrow))


def _trim(function: Callable[..., pa.Array]) -> Function:
    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        if len(args) == 1:
            return strict(type_, args, function(args[0].arrow, " "))
        return _per_pattern(args, lambda text, chars: function(text, chars))

    return apply


def length(type_: SqlType, args: list[Vec]) -> Vec:
    """Number of characters."""
    return strict(type_, args, _lengths(args[0]))


def _lengths(vec: Vec) -> I64:
    counts = pc.utf8_length(vec.arrow)
    return pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


# ---- cutting -------------------------------------------------------------------------
def _cut(args: list[Vec], begin: I64, end: I64) -> Vec:
    """Characters [begin, end) of args[0], clipped."""
    begin = np.maximum(begin, 0)
    begin, end = np.broadcast_arrays(begin, np.maximum(end, begin))
    return strict(STRING, args, _slices(args[0], begin, end, _nulls(args)))


def _slices(vec: Vec, begin: I64, end: I64, null: Bool | None) -> pa.Array:
    offsets, data, _ = utf8_buffers(vec.arrow)
    begin, end = np.ascontiguousarray(begin), np.ascontiguousarray(end)
    ranges = cut_chars(offsets, data, begin, end)
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(ranges[1] - ranges[0])])
    return utf8_array(places, copy_ranges(data, ranges, places), fit(null, begin.shape[0]))


def _nulls(args: list[Vec]) -> Bool | None:
    null: Bool | None = None
    for arg in args:
        null = either(null, arg.null)
    return null


def _bounded(counts: I64) -> I64:
    """Counts within ±2⁶¹, so that sums of two do not overflow."""
    return np.clip(counts, -(1 << 61), 1 << 61)


def substr(type_: SqlType, args: list[Vec]) -> Vec:
    """Part of a string: a negative start counts from the end, a negative count backwards."""
    size = _lengths(args[0])
    start = _bounded(args[1].ints)
    first = np.where(start < 0, size + start, start - 1)
    if len(args) == 2:
        return _cut(args, first, np.broadcast_to(size, first.shape))
    other = first + _bounded(args[2].ints)
    return _cut(args, np.minimum(first, other), np.maximum(first, other))


def left(type_: SqlType, args: list[Vec]) -> Vec:
    """The first n characters; all but the last −n when n is negative."""
    count = _bounded(args[1].ints)
    end = np.where(count < 0, _lengths(args[0]) + count, count)
    return _cut(args, np.zeros(1, np.int64), end)


def right(type_: SqlType, args: list[Vec]) -> Vec:
    """The last n characters; all but the first −n when n is negative."""
    count, size = _bounded(args[1].ints), _lengths(args[0])
    return _cut(args, np.where(count < 0, -count, size - count), size)


def _pad(at_left: bool) -> Function:
    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        fill = args[2] if len(args) > 2 else Vec(STRING, 1, args[0].strings, text=pa.array([" "]))
        args = [args[0], args[1], fill]
        n = length_of(args)
        want = np.broadcast_to(np.maximum(args[1].ints, 0), n)
        need = np.maximum(want - _lengths(args[0]), 0)
        unit = np.broadcast_to(_lengths(fill), n)
        bad = (need > 0) & ((unit == 0) | (need > _LONGEST_PAD))
        need = np.where(bad, 0, need)
        repeats = -(-need // np.maximum(unit, 1))
        null = fit(_nulls(args), n)
        zeros = np.zeros(n, np.int64)
        kept = _slices(args[0], zeros, want, null)
        source = fill.arrow if fill.length == n else pa.repeat(fill.arrow[0], n)
        long = Vec(STRING, n, fill.strings, text=pc.binary_repeat(source, pa.array(repeats)))
        padding = _slices(long, zeros, need, null)
        parts = [padding, kept] if at_left else [kept, padding]
        values = pc.binary_join_element_wise(*parts, "")
        return strict(STRING, args, values, bad=bad, reason="cannot pad to that length")

    return apply


# ---- searching -----------------------------------------------------------------------
def _positions(args: list[Vec], where: int) -> I64:
    offsets, data, _ = utf8_buffers(args[0].arrow)
    part_offsets, part, _ = utf8_buffers(args[1].arrow)
    return find_text(offsets, data, part_offsets, part, where)


def _search(where: int) -> Function:
    return lambda type_, args: strict(type_, args, _positions(args, where) >= 0)


def strpos(type_: SqlType, args: list[Vec]) -> Vec:
    """Where a part begins, 0 when absent."""
    offsets, data, _ = utf8_buffers(args[0].arrow)
    return strict(type_, args, count_chars(offsets, data, _positions(args, 0)) + 1)


def _like(ignore_case: bool) -> Function:
    def match(text: pa.Array, pattern: str) -> pa.Array:
        # A backslash is an ordinary character in SQL patterns, an escape in Arrow's.
        return pc.match_like(text, pattern.replace("\\", "\\\\"), ignore_case=ignore_case)

    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        found = _per_pattern(args, match)
        return strict(type_, args, _truth(found.arrow))

    return apply


def _truth(array: pa.Array) -> Bool:
    truth = pc.fill_null(array.cast(pa.bool_()), False)  # of a NULL pattern: NULL strings
    return truth.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def replace(type_: SqlType, args: list[Vec]) -> Vec:
    """Every occurrence of a part by another text; an empty part changes nothing."""

    def change(text: pa.Array, old: str, new: str) -> pa.Array:
        return pc.replace_substring(text, pattern=old, replacement=new) if old else text

    return _per_pattern(args, change)


def _per_pattern(args: list[Vec], function: Callable[..., pa.Array]) -> Vec:
    """function(text, *patterns) once per distinct combination of patterns."""
    text, patterns = args[0], args[1:]
    null = _nulls(patterns)
    if all(p.length == 1 for p in patterns):
        if null is not None:
            return strict(STRING, args, pa.nulls(length_of(args), pa.string()))
        return strict(STRING, args, function(text.arrow, *(p.arrow[0].as_py() for p in patterns)))
    n = length_of(args)
    codes = np.stack([np.broadcast_to(p.ints, n) for p in patterns])
    distinct, group = np.unique(codes, axis=1, return_inverse=True)
    source = text.arrow if text.length == n else pa.repeat(text.arrow[0], n)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group.reshape(-1), minlength=distinct.shape[1]))
    parts, begin = [], 0
    for g, end in enumerate(ends):
        chosen = source.take(pa.array(order[begin:end]))
        parts.append(function(chosen, *(text.strings.text(int(c)) for c in distinct[:, g])))
        begin = int(end)
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    return strict(STRING, args, pa.chunked_array(parts).combine_chunks().take(pa.array(back)))


def concat(type_: SqlType, args: list[Vec]) -> Vec:
    """All arguments one after another."""
    n = length_of(args)
    parts = [a.arrow if a.length == n else a.arrow[0] for a in args]
    return strict(type_, args, pc.binary_join_element_wise(*parts, ""))


TEXT: dict[str, Function] = {
    "lower": _unary(pc.utf8_lower),
    "upper": _unary(pc.utf8_upper),
    "reverse": _unary(pc.utf8_reverse),
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "length": length,
    "substr": substr,
    "left": left,
    "right": right,
    "lpad": _pad(True),
    "rpad": _pad(False),
    "starts_with": _search(-1),
    "ends_with": _search(1),
    "contains": _search(0),
    "strpos": strpos,
    "like": _like(False),
    "ilike": _like(True),
    "replace": replace,
    "concat": concat,
}
