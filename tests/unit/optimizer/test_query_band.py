"""The band with bounds of each query's own: what belongs to it, and blocks that have one."""

from __future__ import annotations

import pytest
from tests.unit.sql.sql_world import bound

from penstock.logical.nodes import Node, walk
from penstock.optimizer.flow_block import PLACES, Block, find_block
from penstock.optimizer.optimizer import optimize
from penstock.optimizer.stats import Stats

STREAMS = frozenset({"r", "s"})
B = 2
"""A column of r and of s."""


def block_of(where: str, sources: str = "r [NOW] x, s [NOW] y") -> Block | None:
    """The block of a join, wherever it is in the plan."""
    node = optimize(bound(f"SELECT x.k, x.b, y.b AS c FROM {sources} WHERE {where}").node, Stats())
    return next((b for n in walk(node) if (b := _found(n)) is not None), None)


def _found(node: Node) -> Block | None:
    return find_block(node, STREAMS)


def band(where: str, sources: str = "r [NOW] x, s [NOW] y") -> tuple[list[str], int, int]:
    """The conditions of the band, and its columns as places."""
    block = block_of(where, sources)
    assert block is not None
    assert block.band is not None
    return [str(c) for c in block.band.conditions], block.band.minuend, block.band.subtrahend


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("y.b - x.b BETWEEN $p AND $q", ["ge $p", "le $q"]),
        ("y.b - x.b >= $p AND x.b - y.b >= $q", ["ge $p", "le neg($q)"]),
        ("y.b > x.b + $p AND x.b >= y.b - $q", ["gt $p", "le $q"]),
        ("y.b >= x.b AND y.b <= x.b + $p", ["le $p", "ge 0"]),
        ("y.b - x.b > 3 AND y.b - x.b <= $p", ["le $p", "ge 4"]),
        ("abs(y.b - x.b) < $p", ["lt $p", "gt neg($p)"]),
    ],
)
def test_bounds_of_one_difference_are_one_band(where: str, conditions: list[str]) -> None:
    found, minuend, subtrahend = band(where)
    signs = {"ge": ">=", "le": "<=", "lt": "<", "gt": ">"}
    bounds = [text.split(" ", 1) for text in conditions]
    assert sorted(found) == sorted(f"((#0 - #1) {signs[fn]} {bound})" for fn, bound in bounds)
    assert (minuend, subtrahend) == (PLACES + B, B)


def test_a_difference_of_other_columns_is_checked_on_pairs() -> None:
    block = block_of("y.b - x.b <= $p AND y.a - x.a >= $q AND x.k = y.k")
    assert block is not None
    assert block.band is not None
    assert block.band.minuend == PLACES + block.band.subtrahend
    assert len(block.band.conditions) == len(block.above) == 1


def test_floats_do_not_change_sides() -> None:
    block = block_of("y.p - x.p <= $p AND x.p - y.p <= $q")
    assert block is not None
    assert block.band is not None
    assert block.band.is_float
    assert len(block.band.conditions) == 1
    assert len(block.above) == 1


def test_a_constant_band_of_other_columns_joins_the_streams() -> None:
    block = block_of("y.b - x.b <= 3 AND y.ts - x.ts <= $p AND x.a > $q")
    assert block is None or block.band is None


def test_sides_have_one_order_however_the_query_is_written() -> None:
    one = block_of("y.b - x.b <= $p")
    two = block_of("y.b - x.b <= $p", "s [NOW] y, r [NOW] x")
    assert one is not None
    assert two is not None
    assert (one.span, one.band) == (two.span, two.band)
    assert one.span.streams == ("r", "s")


@pytest.mark.parametrize(
    "where",
    [
        "y.b - x.b <> $p",
        "y.b - x.b <= 3",
        "x.b - x.k <= $p AND x.k = y.k AND x.b < y.b",
        "y.p >= x.p + $p",
    ],
)
def test_no_band(where: str) -> None:
    block = block_of(where)
    assert block is None or block.band is None
