from __future__ import annotations

import pytest

from penstock.logical.expr import Agg, Literal
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Now,
    Project,
    Range,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Window,
    Windowed,
)
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import pattern_of
from penstock.schema import Field, Schema
from penstock.types import BIGINT, BOOLEAN

MON, WKS, WK, STR = Pattern.MON, Pattern.WKS, Pattern.WK, Pattern.STR
COLUMNS = Schema((Field("k", BIGINT), Field("a", BIGINT)))
TRUE = Literal(BOOLEAN, True)


def scan(window: Window) -> Scan:
    return Scan("r", COLUMNS, window, (0, 1))


def table(*, nrr: bool) -> TableScan:
    return TableScan("t", COLUMNS, nrr, (0, 1))


def join(left: Node, right: Node, kind: JoinKind = JoinKind.INNER) -> Join:
    return Join(left, right, kind, ((0, 0),))


def set_op(left: Node, right: Node, kind: SetKind, *, all: bool = True) -> SetOp:
    return SetOp(left, right, kind, all)


EDGES: dict[Pattern, Node] = {
    MON: scan(Unbounded(explicit=True)),
    WKS: scan(Range(10)),
    WK: Distinct(scan(Range(10))),
    STR: scan(Rows(3)),
}


@pytest.mark.parametrize(
    ("window", "pattern"),
    [(Unbounded(), MON), (Range(10), WKS), (Range(10, 5), WKS), (Now(), WKS), (Rows(5), STR)],
)
def test_leaves(window: Window, pattern: Pattern) -> None:
    assert pattern_of(scan(window)) is pattern
    assert pattern_of(Windowed(scan(Unbounded()), window)) is pattern


def test_constants_and_tables() -> None:
    assert pattern_of(table(nrr=False)) is STR


@pytest.mark.parametrize("pattern", EDGES)
def test_rule_1_unary_stateless_operators_and_nrr_joins_keep_the_pattern(pattern: Pattern) -> None:
    edge = EDGES[pattern]
    assert pattern_of(Filter(edge, TRUE)) is pattern
    assert pattern_of(Project(edge, (TRUE,), ("x",))) is pattern
    assert pattern_of(join(edge, table(nrr=True))) is pattern
    assert pattern_of(join(edge, Filter(table(nrr=True), TRUE))) is pattern


@pytest.mark.parametrize(
    ("left", "right", "pattern"),
    [
        (MON, MON, MON), (MON, WKS, WK), (WKS, WKS, WKS), (WKS, WK, WK), (WK, WK, WK),
        (WKS, STR, STR), (STR, STR, STR), (MON, STR, STR),
    ],
)  # fmt: skip
def test_rule_2_union(left: Pattern, right: Pattern, pattern: Pattern) -> None:
    union = set_op(EDGES[left], EDGES[right], SetKind.UNION)
    assert pattern_of(union) is pattern


def test_rule_2_windows_of_different_lengths_do_not_expire_in_order_of_arrival() -> None:
    union = set_op(scan(Range(10)), scan(Range(20)), SetKind.UNION)
    assert pattern_of(union) is WK
    assert pattern_of(set_op(union, scan(Range(10)), SetKind.UNION)) is WK


@pytest.mark.parametrize(
    ("left", "right", "pattern"),
    [(WKS, WKS, WK), (WKS, WK, WK), (WK, STR, STR), (MON, MON, MON), (MON, WKS, WK)],
)
def test_rule_3_weak_operators(left: Pattern, right: Pattern, pattern: Pattern) -> None:
    pair = EDGES[left], EDGES[right]
    assert pattern_of(join(*pair)) is pattern
    assert pattern_of(join(*pair, JoinKind.SEMI)) is pattern
    assert pattern_of(set_op(*pair, SetKind.INTERSECT)) is pattern
    assert pattern_of(set_op(*pair, SetKind.INTERSECT, all=False)) is pattern


def test_rule_3_distinct() -> None:
    assert [pattern_of(Distinct(EDGES[p])) for p in (MON, WKS, WK, STR)] == [MON, WK, WK, STR]


@pytest.mark.parametrize("pattern", EDGES)
def test_rule_4_group_by_is_weak(pattern: Pattern) -> None:
    count = Agg("count", None, False, None, BIGINT)
    assert pattern_of(GroupBy(EDGES[pattern], (0,), (count,), ("n",))) is WK


@pytest.mark.parametrize("pattern", EDGES)
def test_rule_5_negation_outer_and_relation_joins_are_strict(pattern: Pattern) -> None:
    edge = EDGES[pattern]
    for kind in (JoinKind.ANTI, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL):
        assert pattern_of(join(edge, EDGES[WKS], kind)) is STR
    for all_ in (True, False):
        assert pattern_of(set_op(edge, EDGES[WKS], SetKind.EXCEPT, all=all_)) is STR
    assert pattern_of(join(edge, table(nrr=False))) is STR
    assert pattern_of(join(table(nrr=False), edge)) is STR
