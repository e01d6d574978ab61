"""When rows arrive and leave: formulas, positions in a log, and that nobody else computes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock.arrays import BEGINNING, NEVER
from penstock.kernels.lifetime import arrival, departure
from penstock.logical.expr import Param
from penstock.logical.lifetime import Lifetime, lifetime_of
from penstock.logical.nodes import Now, Range, Rows, Unbounded
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.types import BIGINT

ROOT = Path(penstock.__file__).parent
LIFETIMES = [Lifetime(1), Lifetime(7), Lifetime(9, 3), Lifetime(5, 5), Lifetime(NEVER)]
TIMES = np.arange(-12, 30)


def of_each_row(life: Lifetime) -> list[tuple[int, int]]:
    assert isinstance(life.length, int)
    return [
        (arrival(ts, life.slide), departure(ts, life.length, life.slide)) for ts in TIMES.tolist()
    ]


@pytest.mark.parametrize("life", LIFETIMES, ids=str)
def test_columns_and_single_rows_have_the_same_lifetimes(life: Lifetime) -> None:
    columns = life.arrivals(TIMES).tolist(), life.departures(TIMES).tolist()
    assert list(zip(*columns, strict=True)) == of_each_row(life)


def test_a_range_window_holds_a_row_for_its_length() -> None:
    life = Lifetime(7)
    assert life.arrivals(np.array([3])).tolist() == [3]
    assert life.departures(np.array([3])).tolist() == [10]


def test_with_a_slide_rows_come_and_go_at_its_multiples() -> None:
    life = Lifetime(9, 3)
    assert life.arrivals(np.array([2, 3])).tolist() == [3, 6]
    assert life.departures(np.array([2, 3])).tolist() == [12, 15]


def test_lengths_of_queries_take_the_place_of_a_parameter() -> None:
    life = Lifetime(Param(BIGINT, 1))
    params = np.array([[0, 70, 7], [0, 80, 8], [0, 90, 9]])
    lengths = life.lengths(params, np.array([2, 0]))
    assert life.departures(np.array([5, 5]), lengths).tolist() == [14, 12]


@pytest.mark.parametrize(
    ("window", "life"),
    [
        (Range(7), Lifetime(7)),
        (Range(9, 3), Lifetime(9, 3)),
        (Now(), Lifetime(1)),
        (Unbounded(True), Lifetime(NEVER)),
        (Rows(3), None),
    ],
)
def test_windows_make_lifetimes(
    window: Range | Now | Unbounded | Rows, life: Lifetime | None
) -> None:
    assert lifetime_of(window) == life


@pytest.mark.parametrize("life", LIFETIMES, ids=str)
def test_a_window_is_a_span_of_its_log(life: Lifetime) -> None:
    """At every instant its rows are those at [first, end) that have arrived and not left."""
    log = SourceLog(Arena().scope("log"), Schema((Field("x", BIGINT),)), retain=0)
    ts = np.repeat(TIMES, 2)
    log.add(np.zeros((2, ts.shape[0]), np.int64), ts, 0)
    arrived, leaves = life.arrivals(ts), life.departures(ts)
    for now in range(-15, 45):
        inside = np.flatnonzero((arrived <= now) & (leaves > now))
        first, end = life.first(log, now), life.end(log, now)
        assert inside.tolist() == list(range(first, end))
    assert life.first(log, BEGINNING) == 0


# ---- one home ------------------------------------------------------------------------
HOME = "kernels/lifetime.py"
READERS = ("kernels", "state", "stems", "eddy", "physical", "engine")
LENGTH = {"length", "lengths", "w", "window", "windows"}
TIME = {"ts", "now", "instant", "instants", "time", "times", "exp"}


def words(node: ast.AST) -> set[str]:
    """The last names of an operand: of `side.l_ts[i]` it is `ts`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name, name.split("_")[-1]}
        case ast.Subscript(value=value):
            return words(value)
        case ast.BinOp(left=left, right=right):
            return words(left) | words(right)
    return set()


def sums_of_time_and_length(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left, right = words(node.left), words(node.right)
            if (left & TIME and right & LENGTH) or (left & LENGTH and right & TIME):
                yield node.lineno


def test_only_one_module_adds_a_length_to_a_time() -> None:
    files = [path for package in READERS for path in (ROOT / package).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if any(sums_of_time_and_length(path.read_text()))
    }
    assert found == {HOME}
