"""Random predicates over integers, floats, strings and booleans, and rows for them.

NULL, NaN, extremes and texts that begin alike are common. `expected` is the plain evaluation.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError, compile_expr
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.logical.udf import Udf
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.convert import to_rows
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DOUBLE, STRING, SqlType, arrow_type

LEAST, MOST = -(2**63), 2**63 - 1
KINDS = (BIGINT, BIGINT, DOUBLE, STRING, BOOLEAN, STRING)
COLUMNS = [Column(kind, i, f"c{i}") for i, kind in enumerate(KINDS)]
TEXTS = [
    "", "a", "a\0", "ab", "abc", "abcdefg", "abcdefg\0", "abcdefgh", "abcdefghi", "b", "éclair",
    "é", "abcdefgz", "%", "a_c", "\0", "zzzzzzzz", "\U0010ffff",
]  # fmt: skip
PATTERNS = ["a%", "abcdefgh%", "abcdefg%", "%", "", "a_c%", "%c", "abc", "é%", "ab%%", "abcdefghi"]


def even_sum(a: pa.Array, b: pa.Array) -> pa.Array:
    """A UDF of a column and a parameter; it does not like 3."""
    x, y = (v.fill_null(0).to_numpy() for v in (a, b))
    if ((x == 3) & (y == 3)).any():
        raise ValueError("three")
    return pa.array((x + y) % 2 == 0)


def new_context() -> Context:
    udfs = {"even": Udf("even", even_sum, (BIGINT, BIGINT), BOOLEAN)}
    return Context(StringTable(Arena().scope("strings")), udfs, Failures())


class Predicates:
    """Random conjuncts of a template with one parameter per type and some more."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.params = [rng.choice(KINDS) for _ in range(6)] + [BIGINT, DOUBLE, STRING, BOOLEAN]

    def value(self, kind: SqlType) -> object:
        """A value of a type, often an awkward one."""
        rng = self.rng
        if kind == STRING:
            return rng.choice(TEXTS + PATTERNS)
        if kind == BOOLEAN:
            return rng.random() < 0.5
        if kind == DOUBLE:
            return rng.choice(
                [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -2.5, 3.0]
            )
        return rng.choice([LEAST, MOST, LEAST + 1, *range(-3, 5)])

    def constant(self, kind: SqlType) -> Expr:
        """A literal or a parameter."""
        rng = self.rng
        if rng.random() < 0.3:
            return Literal(kind, None if rng.random() < 0.1 else self.value(kind))  # type: ignore[arg-type]
        index = rng.choice([i for i, k in enumerate(self.params) if k == kind])
        param: Expr = Param(kind, index)
        if kind == BIGINT and rng.random() < 0.1:
            return Call(BIGINT, "add", (param, Literal(BIGINT, 1)))  # overflows
        if kind == STRING and rng.random() < 0.1:
            return Call(STRING, "concat", (param, Literal(STRING, "%")))
        return param

    def leaf(self, column: Column) -> Expr:
        """A condition on a column."""
        rng, kind = self.rng, column.type
        choice = rng.random()
        if choice < 0.1:
            return Call(BOOLEAN, rng.choice(["is_null", "is_not_null"]), (column,))
        if choice < 0.2:
            known = [i for i, k in enumerate(self.params) if k == kind]
            items = [
                Literal(kind, self.value(kind)) if rng.random() < 0.5  # type: ignore[arg-type]
                else Param(kind, rng.choice(known))
                for _ in range(rng.randint(1, 4))
            ]  # fmt: skip
            return Call(BOOLEAN, "in", (column, *items))
        if kind == STRING and choice < 0.6:
            return Call(BOOLEAN, rng.choice(["like", "starts_with"]), (column, self.constant(kind)))
        if kind == BOOLEAN and choice < 0.6:
            return column
        fn = rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])
        if kind == BOOLEAN:
            fn = rng.choice(["eq", "ne"])
        return Call(BOOLEAN, fn, (column, self.constant(kind)))

    def other(self) -> Expr:
        """A condition that is no term of one column, or one on parameters alone."""
        rng = self.rng
        a, b = COLUMNS[:2]
        index = rng.choice([i for i, k in enumerate(self.params) if k == BIGINT])
        param = Param(BIGINT, index)
        return rng.choice([
            Call(BOOLEAN, "is_null", (param,)),
            Call(BOOLEAN, "lt", (a, b)),
            Call(BOOLEAN, "udf:even", (a, param)),
            Call(BOOLEAN, "eq", (Call(BIGINT, "mod", (b, Literal(BIGINT, 3))), param)),
            Call(BOOLEAN, "gt", (Call(BIGINT, "greatest", (a, param)), b)),
            Param(BOOLEAN, len(self.params) - 1),
        ])  # fmt: skip

    def condition(self, depth: int, columns: list[Column]) -> Expr:
        """A boolean combination."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self.other() if rng.random() < 0.12 else self.leaf(rng.choice(columns))
        choice = rng.random()
        if choice < 0.15:
            return Call(BOOLEAN, "not", (self.condition(depth - 1, columns),))
        if choice < 0.2:
            inner = self.condition(depth - 1, columns)
            return Call(BOOLEAN, "coalesce", (inner, Literal(BOOLEAN, False)))
        fn = "or" if choice < 0.65 else "and"
        return Call(BOOLEAN, fn, tuple(self.condition(depth - 1, columns) for _ in range(2)))

    def predicate(self) -> Expr:
        """What one template asks."""
        columns = self.rng.sample(COLUMNS, self.rng.randint(1, 3))
        return self.condition(self.rng.randint(0, 3), columns)

    def rows(self, kinds: list[SqlType], n: int, ctx: Context) -> I64:
        """Rows of these types, column-major, some values NULL."""
        rng = self.rng
        fields = Schema(tuple(Field(f"f{i}", k) for i, k in enumerate(kinds)))
        arrays = [
            pa.array(
                [None if rng.random() < 0.1 else self.value(k) for _ in range(n)], arrow_type(k)
            )
            for k in kinds
        ]
        return to_rows(pa.table(arrays, names=[f.name for f in fields]), fields, ctx.strings)


def expected(predicate: Expr, columns: I64, params: I64, ctx: Context) -> tuple[Bool, Bool]:
    """By row: whether a query takes it, and whether that can be told."""
    compiled = compile_expr(predicate, ctx)
    taken, known = np.zeros(columns.shape[1], np.bool_), np.ones(columns.shape[1], np.bool_)
    every = np.repeat(params[:, None], columns.shape[1], axis=1)
    while known.any():
        try:
            taken[known] = compiled.mask(columns[:, known], every[:, known])
            break
        except EvaluationError as error:
            known[np.flatnonzero(known)[error.bad]] = False
    return taken, known
