"""Expressions over batches of rows: `compile_expr` once, then call per batch.

Each node is a function of a `Frame` (the rows and, per row, the parameters of its query) to a
`Vec`. Only the columns an expression reads are touched, and strings are decoded only where a
function needs their text. Calls keep no state, in particular no string codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.errors import PlanError
from penstock.expressions.arithmetic import ARITHMETIC
from penstock.expressions.casts import cast, try_cast
from penstock.expressions.context import Context
from penstock.expressions.hidden import Hidden
from penstock.expressions.logic import LOGIC
from penstock.expressions.temporal import TEMPORAL
from penstock.expressions.text import TEXT
from penstock.expressions.udf import call_udf
from penstock.expressions.vec import Vec, both, constant, errors_of, fit, to_native
from penstock.expressions.vec import hidden as hidden_vec
from penstock.logical import expr as logical
from penstock.logical.expr import Expr
from penstock.logical.failing import COMPUTES, HIDING, MAYBE, QUIET
from penstock.logical.udf import Udf
from penstock.state.strings import StringTable
from penstock.types import BOOLEAN, SqlType

Function = Callable[[SqlType, list[Vec]], Vec]
_FUNCTIONS: dict[str, Function] = {
    **ARITHMETIC, **LOGIC, **TEXT, **TEMPORAL, "cast": cast, "try_cast": try_cast,
}  # fmt: skip
FUNCTIONS = frozenset(_FUNCTIONS)
"""Names of all built-in functions that can be evaluated."""


class EvaluationError(Exception):
    """The rows on which an expression has no value; all other rows have one."""

    def __init__(self, bad: Bool, reason: str) -> None:
        super().__init__(reason)
        self.bad = bad
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Column:
    """A result in physical form: `data` is 0 where `null`."""

    data: I64
    null: Bool | None


class Frame:
    """The rows an expression is evaluated over; columns become Vecs once, when first read."""

    def __init__(
        self, rows: I64, params: I64 | None, strings: StringTable, hidden: Hidden | None = None
    ) -> None:
        self.rows, self.params, self.strings, self.hidden = rows, params, strings, hidden
        self.n = rows.shape[1]
        self._made: dict[tuple[bool, int], Vec] = {}

    def column(self, index: int, type_: SqlType) -> Vec:
        """Column `index` of the rows."""
        return self._vec(self.rows, False, index, type_)

    def param(self, index: int, type_: SqlType) -> Vec:
        """Parameter `index` of each row's query, or of one query for all rows."""
        if self.params is None:
            raise PlanError("an expression with parameters needs their values")
        return self._vec(self.params, True, index, type_)

    def hide(self, fn: str, error: Bool | None, reason: str) -> None:
        """Record failures that a hiding function met."""
        if error is not None and self.hidden is not None:
            self.hidden.note(fn, np.broadcast_to(error, self.n), reason)

    def _vec(self, matrix: I64, is_param: bool, index: int, type_: SqlType) -> Vec:
        vec = self._made.get((is_param, index))
        if vec is None:
            bits = matrix[0] & (1 << index)
            null: Bool | None = bits != 0 if bits.any() else None
            values = to_native(matrix[1 + index], type_)
            vec = Vec(type_, matrix.shape[1], self.strings, values, null)
            self._made[(is_param, index)] = vec
        return vec


Node = Callable[[Frame], Vec]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression ready to run."""

    expr: Expr
    node: Node
    strings: StringTable

    def __str__(self) -> str:
        return str(self.expr)

    def __call__(
        self, rows: I64, params: I64 | None = None, hidden: Hidden | None = None
    ) -> Column:
        """Its value for every row; raises EvaluationError when some rows have none."""
        n = rows.shape[1]
        if n == 0:
            return Column(np.empty(0, np.int64), None)
        data, null = self.vec(rows, params, hidden).physical(n)
        return Column(data, null)

    def mask(self, rows: I64, params: I64 | None = None, hidden: Hidden | None = None) -> Bool:
        """The rows for which a condition is TRUE (neither FALSE nor NULL)."""
        n = rows.shape[1]
        if n == 0:
            return np.empty(0, np.bool_)
        vec = self.vec(rows, params, hidden)
        true = both(vec.alive, vec.bools)
        return true if true.shape[0] == n else np.repeat(true, n)

    def vec(self, rows: I64, params: I64 | None = None, hidden: Hidden | None = None) -> Vec:
        """Its value as a Vec, which may be a constant; raises EvaluationError as a call does."""
        vec = self.node(Frame(rows, params, self.strings, hidden))
        bad = fit(vec.error, rows.shape[1])
        if bad is not None and bad.any():
            raise EvaluationError(bad, vec.reason)
        return vec


def evaluate_rows(
    compiled: list[Compiled], rows: I64, params: I64 | None = None, hidden: Hidden | None = None
) -> I64:
    """The matrix of several expressions; raises one EvaluationError for all failing rows."""
    n = rows.shape[1]
    out = np.empty((1 + len(compiled), n), np.int64)
    out[0] = 0
    if not compiled:
        return out
    frame = Frame(rows, params, compiled[0].strings, hidden)
    vecs = [c.node(frame) for c in compiled]
    error, reason = errors_of(vecs)
    bad = fit(error, n)
    if bad is not None and bad.any():
        raise EvaluationError(bad, reason)
    for j, vec in enumerate(vecs):
        out[1 + j], null = vec.physical(n)
        if null is not None:
            out[0] |= null.astype(np.int64) << j
    return out


def compile_expr(expr: Expr, ctx: Context) -> Compiled:
    """Prepare `expr` for evaluation."""
    return Compiled(expr, _compile(expr, ctx), ctx.strings)


def _compile(expr: Expr, ctx: Context) -> Node:
    if isinstance(expr, logical.Column):
        index, type_ = expr.index, expr.type
        return lambda frame: frame.column(index, type_)
    if isinstance(expr, logical.Param):
        index, type_ = expr.index, expr.type
        return lambda frame: frame.param(index, type_)
    if isinstance(expr, logical.Literal):
        type_, value = expr.type, expr.value
        return lambda frame: constant(type_, value, frame.strings)
    if isinstance(expr, logical.Call):
        return _compile_call(expr, ctx)
    raise PlanError(f"cannot evaluate {type(expr).__name__}")


def _compile_call(call: logical.Call, ctx: Context) -> Node:
    args = [_compile(a, ctx) for a in call.args]
    if call.fn.startswith("udf:"):
        return _compile_udf(ctx.udfs.get(call.fn[4:]), call.fn[4:], args)
    if call.fn in HIDING:
        return _compile_hiding(call.fn, args)
    function, type_ = _FUNCTIONS.get(call.fn), call.type
    if function is None:
        raise PlanError(f"there is no function {call.fn}")
    chosen = function
    return lambda frame: chosen(type_, [a(frame) for a in args])


def _compile_hiding(fn: str, args: list[Node]) -> Node:
    """A function that has a value where its arguments fail, and records this."""

    def value(frame: Frame) -> Vec:
        vec = args[0](frame)
        if fn != QUIET:
            frame.hide(fn, vec.error, vec.reason)
        return hidden_vec(vec)

    def computes(frame: Frame) -> Vec:
        error, reason = errors_of([a(frame) for a in args])
        frame.hide(fn, error, reason)
        fine = np.ones(1, np.bool_) if error is None else ~error
        return Vec(BOOLEAN, fine.shape[0], frame.strings, fine)

    def maybe(frame: Frame) -> Vec:
        vec = args[0](frame)
        if vec.error is None:
            return vec
        true = vec.error | both(vec.alive, vec.bools)
        return Vec(BOOLEAN, vec.length, frame.strings, np.broadcast_to(true, vec.length))

    return {COMPUTES: computes, MAYBE: maybe}.get(fn, value)


def _compile_udf(udf: Udf | None, name: str, args: list[Node]) -> Node:
    if udf is None:
        raise PlanError(f"the function {name} is not registered")
    known = udf
    return lambda frame: call_udf(known, [a(frame) for a in args], frame.n, frame.strings)
