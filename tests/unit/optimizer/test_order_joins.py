from __future__ import annotations

from plan_builders import MIN, NONE, W10, anti, cmp, col, join, nrr, project, scan

from penstock.logical.nodes import Band, Join, Node, Range, Scan, walk
from penstock.optimizer.cost import cost
from penstock.optimizer.order_joins import order_joins
from penstock.optimizer.stats import Stats, StreamStats

W = Range(MIN)
A, B, C, D = (scan(name, W) for name in "abcd")


def stats(**rates: float) -> Stats:
    keys = {"k": 100.0, "a": 100.0, "b": 100.0}
    return Stats({name: StreamStats(rate, keys) for name, rate in rates.items()})


def leaves(node: Node) -> list[str]:
    return [part.stream for part in walk(node) if isinstance(part, Scan)]


CHAIN = join(join(A, B), C, on=((0, 0),))
SLOW_C = stats(a=1000.0, b=1000.0, c=1.0)


def test_the_small_stream_is_joined_first_and_columns_are_restored() -> None:
    after = order_joins(CHAIN, SLOW_C)
    assert leaves(after) == ["a", "c", "b"]
    assert after == project(join(join(A, C), B), 0, 1, 2, 6, 7, 8, 3, 4, 5)
    assert after.schema == CHAIN.schema
    assert cost(after, SLOW_C).total < cost(CHAIN, SLOW_C).total


def test_what_is_not_measured_stays_as_written() -> None:
    assert order_joins(CHAIN, NONE) is CHAIN
    assert order_joins(CHAIN, stats(a=1000.0, b=1000.0)) is CHAIN


def test_an_order_no_cheaper_stays_as_written() -> None:
    assert order_joins(CHAIN, stats(a=10.0, b=10.0, c=10.0)) is CHAIN
    after = order_joins(CHAIN, SLOW_C)
    assert order_joins(after, SLOW_C) == after


def test_predicates_are_checked_where_their_columns_meet() -> None:
    before = join(join(A, B, residual=cmp("lt", col(1), col(4))), C)
    after = order_joins(before, SLOW_C)
    assert leaves(after) == ["a", "c", "b"]
    last = next(part for part in walk(after) if isinstance(part, Join))
    assert last.residual == cmp("lt", col(1), col(7))


def test_no_cross_product_without_need() -> None:
    before = join(join(A, B), C, on=((4, 1),))  # c is only tied to b
    after = order_joins(before, SLOW_C)
    joins = [part for part in walk(after) if isinstance(part, Join)]
    assert all(part.equi for part in joins)


def test_bands_tables_and_negations_are_inputs() -> None:
    banded = join(A, B, band=Band(1, 1, -1, 1))
    before = join(join(banded, C), D)
    after = order_joins(before, stats(a=1000.0, b=1000.0, c=1000.0, d=0.1))
    assert banded in walk(after)
    assert leaves(after)[-1] == "c"
    named = join(join(A, B), nrr())
    assert order_joins(named, SLOW_C) is named
    negated = join(join(anti(A, B), B), C)
    assert anti(A, B) in walk(order_joins(negated, SLOW_C))


def test_many_inputs_are_ordered_greedily() -> None:
    names = "abcdefgh"
    tree: Node = project(scan("a", W10), 0)
    for name in names[1:]:
        tree = join(tree, project(scan(name, W10), 0))
    known = stats(**{name: 1000.0 / (i + 1) for i, name in enumerate(names)})
    after = order_joins(tree, known)
    assert sorted(leaves(after)) == sorted(names)
    assert after.schema == tree.schema
