"""The leaves of a condition on one value: the values that a comparison accepts, per query."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError, Frame, compile_expr
from penstock.expressions.vec import Vec, constant
from penstock.kernels.text_keys import (
    KEY_BYTES,
    PATTERN,
    PREFIX,
    WHOLE,
    keys_of_texts,
    read_patterns,
)
from penstock.logical.expr import Call, Expr, Literal, Param
from penstock.predicates.terms import LEAST, MOST, ordered
from penstock.state.strings import utf8_buffers
from penstock.types import BOOLEAN

_NO: Bool = np.zeros((1, 1), np.bool_)
_NOTHING = np.array([[MOST]]), np.array([[LEAST]])


class Leaf(NamedTuple):
    """A leaf is true for the values in ``[lows[i, j], highs[i, j]]``, any j, of query i.

    Arrays with a single row apply to all queries. `unknown` marks queries that compare with NULL,
    `never_false` those that compare with NULL among other values. `vague` queries may be false
    inside the intervals too; for `bad` queries nothing is known. `of_null` is the truth for NULL
    (None: unknown). If `negated`, true and false are exchanged.
    """

    lows: I64
    highs: I64
    unknown: Bool = _NO
    vague: Bool = _NO
    bad: Bool = _NO
    never_false: Bool = _NO
    of_null: bool | Bool | None = None
    negated: bool = False

    @property
    def is_interval(self) -> bool:
        """Whether the leaf is true in one interval of each query and false elsewhere."""
        plain = self.of_null is None and not self.negated and self.bad is _NO
        return plain and self.lows.shape[1] == 1


def is_logic(expr: Call) -> bool:
    """AND, OR, NOT and ``x IS TRUE``, which is bound as coalesce(x, FALSE)."""
    is_true = expr.fn == "coalesce" and expr.args[1:] == (Literal(BOOLEAN, False),)
    return is_true or expr.fn in ("and", "or", "not")


def fixed_leaf(expr: Expr, params: I64, ctx: Context) -> Leaf:
    """A leaf for a condition on parameters only (one column each, NULL word first)."""
    vec, bad = _constant(expr, params, ctx)
    true = _column(vec.bools)
    lows, highs = np.where(true, LEAST, MOST), np.where(true, MOST, LEAST)
    unknown = _NO if vec.null is None else _column(vec.null)
    return Leaf(lows, highs, unknown, _NO, bad, of_null=true[:, 0])


def value_leaf(expr: Expr, value: Expr, by_text: bool, params: I64, ctx: Context) -> Leaf:
    """A leaf for a condition on the value and on constants."""
    if expr == value:
        one = np.ones((1, 1), np.int64)
        return Leaf(one, one)
    assert isinstance(expr, Call)
    if expr.fn in ("is_null", "is_not_null"):
        return Leaf(*_NOTHING, of_null=True, negated=expr.fn == "is_not_null")
    if expr.fn == "in":
        return _member(expr, by_text, params, ctx)
    return _compared(expr.fn, expr.args[1], by_text, params, ctx)


def _compared(fn: str, constant: Expr, by_text: bool, params: I64, ctx: Context) -> Leaf:
    vec, bad = _constant(constant, params, ctx)
    plain = "eq" if fn == "ne" else fn
    if by_text:
        lows, highs, vague = _key_bounds(plain, vec)
    else:
        words = vec.physical(vec.length)[0]
        lows, highs = _bounds(plain, ordered(words) if constant.type.is_float else words)
        vague = _NO
    unknown = _NO if vec.null is None else _column(vec.null)
    return Leaf(_column(lows), _column(highs), unknown, vague, bad, negated=fn == "ne")


def _member(expr: Call, by_text: bool, params: I64, ctx: Context) -> Leaf:
    parts = [_compared("eq", item, by_text, params, ctx) for item in expr.args[1:]]
    lows = [np.where(p.unknown, MOST, p.lows) for p in parts]
    highs = [np.where(p.unknown, LEAST, p.highs) for p in parts]
    return Leaf(
        np.concatenate(np.broadcast_arrays(*lows), axis=1),
        np.concatenate(np.broadcast_arrays(*highs), axis=1),
        vague=reduce(np.logical_or, [p.vague for p in parts]),
        bad=reduce(np.logical_or, [p.bad for p in parts]),
        never_false=reduce(np.logical_or, [p.unknown for p in parts]),
    )


def _bounds(fn: str, words: I64) -> tuple[I64, I64]:
    """The interval of the values for which the comparison with each constant is true."""
    least, most = np.full_like(words, LEAST), np.full_like(words, MOST)
    if fn == "eq":
        return words, words
    if fn == "le":
        return least, words
    if fn == "ge":
        return words, most
    if fn == "lt":
        some = words > LEAST
        return np.where(some, least, MOST), np.where(some, words - some, LEAST)
    some = words < MOST
    return np.where(some, words + some, MOST), np.where(some, most, LEAST)


def _key_bounds(fn: str, vec: Vec) -> tuple[I64, I64, Bool]:
    """The same for keys of texts, and a mark where the interval is too large."""
    offsets, data, _ = utf8_buffers(vec.arrow)
    sizes = np.diff(offsets)
    kinds = np.full(sizes.shape, PREFIX if fn == "starts_with" else WHOLE)
    if fn == "like":
        sizes, kinds = read_patterns(offsets, data)
    keys, last = keys_of_texts(offsets, data, sizes)
    long = sizes > KEY_BYTES  # other texts have the same key, so no bound may be strict
    if fn in ("like", "starts_with"):
        return keys, np.where(kinds == WHOLE, keys, last), _column(long | (kinds == PATTERN))
    strict, loose = _bounds(fn, keys), _bounds({"lt": "le", "gt": "ge"}.get(fn, fn), keys)
    lows, highs = (np.where(long, a, b) for a, b in zip(loose, strict, strict=True))
    return lows, highs, _column(long)


# ---- constants -----------------------------------------------------------------------
def _constant(expr: Expr, params: I64, ctx: Context) -> tuple[Vec, Bool]:
    """Evaluate an expression of parameters per query; also return the queries where it fails.

    The result has one value if it is the same for all queries.
    """
    rows = np.zeros((1, params.shape[1]), np.int64)
    if isinstance(expr, Param):
        return Frame(rows, params, ctx.strings).param(expr.index, expr.type), _NO
    compiled = compile_expr(expr, ctx)
    try:
        return compiled.vec(rows, params), _NO
    except EvaluationError as error:
        bad = error.bad
    if bad.all():
        return constant(expr.type, None, ctx.strings), _column(bad)
    instead = np.where(bad, np.flatnonzero(~bad)[0], np.arange(bad.shape[0]))
    return compiled.vec(rows, params[:, instead]), _column(bad)


def _column(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(-1, 1)
