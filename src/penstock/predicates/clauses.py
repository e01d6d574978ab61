"""Predicates of queries in normal form: clauses, each an OR of terms on one value (CACQ §3.2.7).

A term is any boolean combination of comparisons, BETWEEN, IN, LIKE and IS NULL of one value with
constants and parameters. For each query, a term accepts a set of intervals of that value
(`interval_sets`). Any other conjunct, for instance one that calls a function of parameters and
columns, is a *call*: it is evaluated on rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.expressions.evaluate import Compiled, compile_expr
from penstock.expressions.hidden import Hidden
from penstock.kernels.text_keys import keys_of_codes, keys_of_texts
from penstock.logical.expr import (
    COMPARISONS,
    Call,
    Column,
    Expr,
    Param,
    chained,
    columns_of,
    conjuncts,
    params_of,
    walk,
)
from penstock.logical.truth import push_down_not
from penstock.predicates.interval_sets import IntervalSets, interval_sets_of
from penstock.predicates.leaves import is_logic
from penstock.predicates.terms import ordered
from penstock.state.strings import utf8_buffers
from penstock.types import Kind, SqlType


class Values(Protocol):
    """Computes one value of each row (NULL word first), and which of the values are NULL."""

    def __call__(self, columns: I64, hidden: Hidden | None = None, /) -> tuple[I64, Bool | None]:
        """The values of rows; failures that ON ERROR hides go to `hidden`."""


_MOST_CLAUSES = 8  # most conjuncts of one predicate when ORs of ANDs are multiplied out


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value of a row as an ordered integer; terms with equal attributes share an index.

    For a string it is the code, which decides equality only; if `by_text`, it is the key of the
    first bytes, which also decides order and prefixes.
    """

    value: Expr
    by_text: bool = False

    def compiled(self, ctx: Context) -> Values:
        """Compile the function that `values` calls."""
        words = self.words(ctx)
        return partial(_ordered, words) if self.value.type.is_float else words

    def values(self, columns: I64, ctx: Context) -> tuple[I64, Bool | None]:
        """The ordered integers of rows (NULL word first), arbitrary where NULL, and the NULLs.

        Raises EvaluationError for rows that have no value.
        """
        return self.compiled(ctx)(columns)

    def words(self, ctx: Context) -> Values:
        """The same function, but with floats as their bits."""
        if isinstance(self.value, Column) and not self.by_text:
            return partial(_stored, self.value.index)
        return partial(self._words, compile_expr(self.value, ctx), ctx)

    def _words(
        self, compiled: Compiled, ctx: Context, columns: I64, hidden: Hidden | None = None
    ) -> tuple[I64, Bool | None]:
        if not self.by_text or columns.shape[1] == 0:
            column = compiled(columns, None, hidden)
            return column.data, column.null
        vec = compiled.vec(columns, None, hidden)
        if vec.values is not None:
            return keys_of_codes(vec.physical(vec.length)[0], *ctx.strings.arrays()), vec.null
        offsets, data, _ = utf8_buffers(vec.arrow)
        return keys_of_texts(offsets, data, np.diff(offsets))[0], vec.null


def _stored(column: int, columns: I64, hidden: Hidden | None = None) -> tuple[I64, Bool | None]:
    """Read a stored value, which equals the evaluated one."""
    nulls = columns[0] & (1 << column)
    null: Bool | None = nulls != 0 if np.count_nonzero(nulls) else None
    return np.ascontiguousarray(columns[1 + column]), null


def _ordered(words: Values, columns: I64, hidden: Hidden | None = None) -> tuple[I64, Bool | None]:
    bits, null = words(columns, hidden)
    return ordered(bits), null


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on one value of the row and on parameters."""

    attribute: Attribute
    condition: Expr

    @property
    def value(self) -> Expr:
        """The value of the row that the condition reads."""
        return self.attribute.value

    def values(self, columns: I64, ctx: Context) -> tuple[I64, Bool | None]:
        """The attribute's ordered integers of rows, and which of them are NULL."""
        return self.attribute.values(columns, ctx)

    def intervals(self, params: I64, ctx: Context) -> IntervalSets:
        """The values that queries accept, given their parameters (a row each, NULL word first)."""
        return interval_sets_of(self.condition, self.value, self.attribute.by_text, params, ctx)


# ---- clauses -------------------------------------------------------------------------
def clause_of(conjunct: Expr) -> tuple[Term, ...] | None:
    """The terms of a conjunct, each on a different attribute; None if the conjunct is a call.

    One of the terms must hold.
    """
    conditions: dict[Attribute, list[Expr]] = {}
    anywhere: list[Expr] = []  # conditions on parameters only
    for part in sorted(disjuncts(push_down_not(conjunct)), key=_is_null_test):
        attribute = attribute_of(part)
        if not columns_of(part):
            anywhere.append(part)
        elif attribute is None:
            return None
        else:
            if _is_null_test(part) and Attribute(attribute.value, True) in conditions:
                attribute = Attribute(attribute.value, True)
            conditions.setdefault(attribute, []).append(part)
    if not conditions:
        return None
    next(iter(conditions.values())).extend(anywhere)
    return tuple(Term(attribute, either(parts)) for attribute, parts in conditions.items())


def _is_null_test(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.fn in ("is_null", "is_not_null")


def clauses_of(predicate: Expr | None) -> list[Expr]:
    """Equivalent conjuncts, with NOT pushed down and ORs of ANDs multiplied out.

    An OR is not multiplied out if that would give many conjuncts, or conjuncts that are not
    clauses.
    """
    return [c for part in conjuncts(predicate) for c in _multiplied(push_down_not(part))]


def _multiplied(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.fn == "and":
        return [c for arg in expr.args for c in _multiplied(arg)]
    parts = disjuncts(expr)
    if len(parts) == 1 or clause_of(expr) is not None:
        return [expr]
    choices: list[list[Expr]] = [[]]
    for part in parts:
        options = [part] if attribute_of(part) is not None else _multiplied(part)
        choices = [[*chosen, option] for chosen in choices for option in options]
        if len(choices) > _MOST_CLAUSES:
            return [expr]
    found = [either(parts) for parts in choices]
    return found if any(clause_of(c) is not None for c in found) else [expr]


def disjuncts(expr: Expr) -> list[Expr]:
    """The operands of a chain of ORs."""
    if isinstance(expr, Call) and expr.fn == "or":
        return [part for arg in expr.args for part in disjuncts(arg)]
    return [expr]


def either(parts: list[Expr]) -> Expr:
    """OR of `parts`."""
    return chained("or", parts)


# ---- values --------------------------------------------------------------------------
def attribute_of(condition: Expr) -> Attribute | None:
    """The only attribute that a condition reads; None if it reads several or is a call."""
    leaves = list(_leaves(condition))
    if None in leaves:
        return None
    found = {leaf.value for leaf in leaves if leaf is not None}
    if len(found) != 1:
        return None
    return Attribute(found.pop(), any(leaf.by_text for leaf in leaves if leaf is not None))


def _leaves(expr: Expr) -> list[Attribute | None]:
    """The attributes below AND, OR, NOT and IS TRUE; None for each part that is a call."""
    if isinstance(expr, Call) and is_logic(expr):
        return [leaf for arg in expr.args for leaf in _leaves(arg)]
    return [_leaf(expr)] if columns_of(expr) else []


def _leaf(expr: Expr) -> Attribute | None:
    if isinstance(expr, Call) and _is_value(expr.args[0]):
        value, constants = expr.args[0], expr.args[1:]
        known = not any(columns_of(c) for c in constants)
        if expr.fn in ("is_null", "is_not_null"):
            return Attribute(value)
        if expr.fn in ("like", "starts_with") and known:
            return Attribute(value, by_text=True)
        if expr.fn in (*COMPARISONS, "in") and known:
            return _compared(expr.fn, value, constants)
    calls_udf = any(isinstance(e, Call) and e.fn.startswith("udf:") for e in walk(expr))
    return Attribute(expr) if _is_value(expr) and not calls_udf else None


def _compared(fn: str, value: Expr, constants: tuple[Expr, ...]) -> Attribute | None:
    if not all(_comparable(value.type, c.type) for c in constants):
        return None
    # Q keeps the codes of string parameters valid; those of other strings may be reused.
    coded = fn in ("eq", "ne", "in") and all(isinstance(c, Param) for c in constants)
    return Attribute(value, by_text=value.type.is_string and not coded)


def _is_value(expr: Expr) -> bool:
    return bool(columns_of(expr)) and not params_of(expr)


def _comparable(a: SqlType, b: SqlType) -> bool:
    """Whether values of both types have the same form."""
    return a == b or b.kind is Kind.NULL or (a.is_integer and b.is_integer)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition on one alias, over the columns of its stream: a clause of terms, or a call."""

    alias: int
    predicate: Expr
    terms: tuple[Term, ...] | None

    @staticmethod
    def of(alias: int, predicate: Expr) -> Conjunct:
        """The conjunct of a predicate on one alias."""
        return Conjunct(alias, predicate, clause_of(predicate))
