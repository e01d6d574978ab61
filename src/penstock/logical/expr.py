"""Expression nodes: typed, frozen, positional.

`Column.index` counts columns of the child's schema (of left + right for a join condition).
Every computation is a `Call`; its `fn` is a name in `FUNCTIONS` (`logical/functions.py`) or
``udf:<name>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import reduce

from penstock.errors import Place
from penstock.frozen import Hashed, derived, frozen, record
from penstock.types import BOOLEAN, SqlType

_NONE: frozenset[int] = frozenset()
_ALONE = tuple(frozenset((i,)) for i in range(64))
_CHAIN = 16  # longest chain that is built without a tree
Value = bool | int | float | str | None
"""A literal in physical terms: µs for TIMESTAMP and INTERVAL, days for DATE, scaled for DECIMAL."""


class _Reads(Hashed):
    """Base with slots for the properties that an expression computes once."""

    __slots__ = ("_columns", "_params")


@frozen
class Expr(_Reads):
    """Base of all expressions."""

    type: SqlType

    @derived
    def columns(self) -> frozenset[int]:
        """Indices of the columns it reads."""
        return _union([a.columns for a in children(self)])

    @derived
    def params(self) -> frozenset[int]:
        """Indices of the parameters it reads."""
        return _union([a.params for a in children(self)])


@frozen
class Column(Expr):
    """Column `index` of the input."""

    index: int
    name: str = ""

    @derived
    def columns(self) -> frozenset[int]:
        """Itself."""
        return _alone(self.index)

    def __str__(self) -> str:
        return self.name or f"#{self.index}"


@record
class Written:
    """The number or string in a text that alone decides a value.

    For a length of time, `unit` is the length of one unit (else 0).
    """

    place: Place
    negated: bool = False
    unit: int = 0


@frozen
class Literal(Expr):
    """A constant; `at` is set if replacing the token there changes only this value."""

    value: Value
    at: Written | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@frozen
class Param(Expr):
    """Parameter `index` of the template: a column of its relation Q."""

    index: int
    name: str = ""

    @derived
    def params(self) -> frozenset[int]:
        """Itself."""
        return _alone(self.index)

    def __str__(self) -> str:
        return f"${self.name or self.index + 1}"


@frozen
class Call(Expr):
    """A function or operator applied to arguments."""

    fn: str
    args: tuple[Expr, ...]

    def __str__(self) -> str:
        if self.fn in INFIX and len(self.args) == 2:
            return f"({self.args[0]} {INFIX[self.fn]} {self.args[1]})"
        if self.fn in ("cast", "try_cast"):
            return f"{self.fn.upper()}({self.args[0]} AS {self.type})"
        return f"{self.fn}({', '.join(map(str, self.args))})"


INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "AND", "or": "OR", "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%",
}  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@record
class Agg:
    """One aggregate of a GROUP BY.

    `fn` is count, sum, avg, min, max, stddev or median (count without `arg` is count(*));
    `filter` is its FILTER (WHERE …) condition. `type` is the result type. A sum that exceeds it
    fails the query, unless ON ERROR says otherwise ("null", "skip"): then it is NULL meanwhile.
    """

    fn: str
    arg: Expr | None
    distinct: bool
    filter: Expr | None
    type: SqlType
    on_error: str = "fail"

    def __str__(self) -> str:
        inner = "*" if self.arg is None else f"{'DISTINCT ' if self.distinct else ''}{self.arg}"
        tail = f" FILTER (WHERE {self.filter})" if self.filter is not None else ""
        return f"{self.fn}({inner}){tail}"


def _alone(index: int) -> frozenset[int]:
    """The set of one index; expressions share those of the first."""
    return _ALONE[index] if index < len(_ALONE) else frozenset((index,))


def _union(sets: list[frozenset[int]]) -> frozenset[int]:
    """The union of some sets: one of them, if the others add nothing."""
    most = max(sets, key=len, default=_NONE)
    return most if all(some <= most for some in sets) else most.union(*sets)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Direct subexpressions."""
    return expr.args if isinstance(expr, Call) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything below it, parents first."""
    todo = [expr]
    while todo:
        top = todo.pop()
        yield top
        if isinstance(top, Call):
            todo += top.args[::-1]


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up, passing every node through `change`."""
    if isinstance(expr, Call):
        args = [transform(a, change) for a in expr.args]
        for old, new in zip(expr.args, args, strict=True):
            if old is not new:
                expr = Call(expr.type, expr.fn, tuple(args))
                break
    return change(expr)


def columns_of(expr: Expr) -> frozenset[int]:
    """Indices of the columns an expression reads."""
    return expr.columns


def params_of(expr: Expr) -> frozenset[int]:
    """Indices of the parameters an expression reads."""
    return expr.params


def remap(expr: Expr, index_of: Callable[[int], int]) -> Expr:
    """The same expression over columns moved by `index_of`."""

    def move(e: Expr) -> Expr:
        if not isinstance(e, Column):
            return e
        index = index_of(e.index)
        return e if index == e.index else Column(e.type, index, e.name)

    return transform(expr, move) if expr.columns else expr


def conjuncts(expr: Expr | None) -> list[Expr]:
    """The parts of a chain of ANDs."""
    if expr is None:
        return []
    if isinstance(expr, Call) and expr.fn == "and":
        return [part for arg in expr.args for part in conjuncts(arg)]
    return [expr]


def conjunction(parts: list[Expr]) -> Expr | None:
    """AND of `parts`, None when there are none."""
    return chained("and", parts) if parts else None


def chained(fn: str, parts: list[Expr]) -> Expr:
    """AND or OR of `parts` from left to right; many of them are a tree that is not deep."""
    while len(parts) > _CHAIN:
        parts = [chained(fn, parts[i : i + _CHAIN]) for i in range(0, len(parts), _CHAIN)]
    return reduce(lambda left, right: Call(BOOLEAN, fn, (left, right)), parts)
