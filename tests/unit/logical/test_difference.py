"""Comparisons read as bounds of differences say what they said, in few words."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.unit.sql.sql_world import bound

from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError, compile_expr
from penstock.logical.difference import Difference, differences_of, same_bits
from penstock.logical.expr import Call, Column, Expr, Literal, Param, columns_of, conjuncts
from penstock.logical.nodes import Filter, walk
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, decimal


def conditions(text: str) -> list[Expr]:
    """The conjuncts of a condition on r x and s y."""
    node = bound(f"SELECT x.k FROM r [NOW] x, s [NOW] y WHERE {text}").node
    (found,) = (n for n in walk(node) if isinstance(n, Filter))
    return conjuncts(found.predicate)


def told(text: str) -> list[str]:
    """The bounds in a condition, as text; x is the stream on the left."""
    columns = len(bound("SELECT * FROM r [NOW]").node.schema)

    def name(column: Column) -> str:
        return f"{'x' if column.index < columns else 'y'}.{column.name}"

    return [
        f"{name(d.minuend)} - {name(d.subtrahend)} {d.fn} {d.bound}"
        for condition in conditions(text)
        for d in differences_of(condition) or ()
    ]


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("y.b - x.b <= $p", ["y.b - x.b le $p"]),
        ("$p >= y.b - x.b", ["y.b - x.b le $p"]),
        ("$p < y.b - x.a", ["y.b - x.a gt $p"]),
        ("y.b - x.a = $p", ["y.b - x.a eq $p"]),
        ("y.b >= x.b + $p", ["y.b - x.b ge $p"]),
        ("y.b - $p > x.b", ["y.b - x.b gt $p"]),
        ("x.b + $p < y.b", ["x.b - y.b lt neg($p)"]),
        ("y.b BETWEEN x.b + $p AND x.b + $q", ["y.b - x.b ge $p", "y.b - x.b le $q"]),
        ("abs(y.b - x.b) < $p", ["y.b - x.b lt $p", "y.b - x.b gt neg($p)"]),
        ("$p >= abs(y.p - x.p)", ["y.p - x.p le $p", "y.p - x.p ge neg($p)"]),
        ("y.b >= x.b + $p + 3", ["y.b - x.b ge ($p + 3)"]),
        ("y.b - x.b - 3 <= $p", ["y.b - x.b le ($p + 3)"]),
        ("-x.b + y.b <= $p", ["y.b - x.b le $p"]),
        ("y.d - x.d < $p", ["y.d - x.d lt $p"]),
        ("y.ts - x.ts <= $p", ["y.ts - x.ts le $p"]),
        ("y.p - x.p > $p", ["y.p - x.p gt $p"]),
    ],
)
def test_a_bound_of_a_difference(text: str, bounds: list[str]) -> None:
    assert told(text) == bounds


@pytest.mark.parametrize(
    "text",
    [
        "y.p >= x.p + $p",  # rounds otherwise
        "y.p - x.a <= $p",  # a BIGINT that becomes a DOUBLE
        "y.b + x.b <= $p",
        "y.b * 2 - x.b <= $p",
        "y.b - x.b <> $p",
        "y.b - x.b >= x.k + $p",
        "abs(y.b - x.b) >= $p",
        "abs(y.b) - x.b >= $p",
        "y.name >= $p",
        "NOT y.b - x.b > $p",
        "y.b - x.b <= $p OR y.b = $q",
    ],
)
def test_what_bounds_no_difference(text: str) -> None:
    assert told(text) == []


def test_types_of_one_physical_form() -> None:
    assert same_bits(INT, BIGINT)
    assert same_bits(FLOAT, DOUBLE)
    assert same_bits(decimal(10, 2), decimal(18, 2))
    pairs = [(decimal(10, 2), decimal(10, 3)), (decimal(10, 0), BIGINT), (BIGINT, DOUBLE)]
    pairs += [(DATE, TIMESTAMP), (DATE, BIGINT), (STRING, BIGINT)]
    assert not any(same_bits(a, b) or same_bits(b, a) for a, b in pairs)


# ---- the same truth ------------------------------------------------------------------
LEAST, MOST = -(2**63), 2**63 - 1
X, Y = Column(BIGINT, 0, "x"), Column(BIGINT, 1, "y")


def _sum(rng: Random, depth: int) -> Expr:
    """A sum of columns, parameters and numbers."""
    if depth == 0:
        number = Literal(BIGINT, rng.choice((0, 1, -3, 7)))
        return rng.choice((X, Y, X, Y, Param(BIGINT, 0), Param(BIGINT, 1), number))
    if rng.random() < 0.15:
        return Call(BIGINT, "neg", (_sum(rng, depth - 1),))
    return Call(
        BIGINT, rng.choice(("add", "sub")), (_sum(rng, depth - 1), _sum(rng, rng.randrange(depth)))
    )


def _comparison(rng: Random) -> Call:
    left = _sum(rng, rng.randint(0, 2))
    if rng.random() < 0.3:
        left = Call(BIGINT, "abs", (left,))
    sides = [left, _sum(rng, rng.randint(0, 2))]
    rng.shuffle(sides)
    return Call(BOOLEAN, rng.choice(("lt", "le", "gt", "ge", "eq")), tuple(sides))


def _written_out(found: list[Difference]) -> Expr:
    """All bounds as one condition."""
    result: Expr | None = None
    for d in found:
        assert not columns_of(d.bound)
        gap = Call(BIGINT, "sub", (d.minuend, d.subtrahend))
        one = Call(BOOLEAN, d.fn, (gap, d.bound))
        result = one if result is None else Call(BOOLEAN, "and", (result, one))
    assert result is not None
    return result


def test_the_bounds_hold_where_the_comparison_holds() -> None:
    ctx = Context(StringTable(Arena().scope("strings")), {}, Failures())
    rng, numbers, read = Random(3), np.random.default_rng(3), 0
    rows, params = numbers.integers(-9, 10, (2, 3, 400))
    rows[0], params[0] = numbers.integers(0, 4, 400), numbers.integers(0, 4, 400)  # NULLs
    for _ in range(2500):
        comparison = _comparison(rng)
        found = differences_of(comparison)
        if found is None:
            continue
        read += 1
        wanted = compile_expr(comparison, ctx).mask(rows, params)
        assert (compile_expr(_written_out(found), ctx).mask(rows, params) == wanted).all()
    assert read > 150


def test_a_bound_may_overflow_where_the_comparison_does_not() -> None:
    ctx = Context(StringTable(Arena().scope("strings")), {}, Failures())
    moved = Call(BIGINT, "add", (Call(BIGINT, "add", (X, Param(BIGINT, 0))), Literal(BIGINT, 1)))
    comparison = Call(BOOLEAN, "ge", (Y, moved))
    rows, params = np.array([[0], [-5], [0]]), np.array([[0], [MOST]])
    assert not compile_expr(comparison, ctx).mask(rows, params)[0]
    found = differences_of(comparison)
    assert found is not None
    with pytest.raises(EvaluationError):
        compile_expr(_written_out(found), ctx).mask(rows, params)
