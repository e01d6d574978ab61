from __future__ import annotations

import pytest
from plan_builders import NONE, anti, cmp, col, count_by, join, lit, project, scan, union_all

from penstock.logical.nodes import Distinct, Filter, JoinKind, Node, SetKind, SetOp
from penstock.optimizer.emit import choose_emit, choose_emits
from penstock.optimizer.stats import Stats

R, S = scan("r"), scan("s")
DISTINCT = Distinct(R)
JOIN = join(DISTINCT, S)
NEGATIONS = [
    anti(R, S),
    join(R, S, JoinKind.SEMI),
    SetOp(R, S, SetKind.EXCEPT, all=True),
    SetOp(R, S, SetKind.EXCEPT, all=False),
]


def test_distinct_is_expiring_below_an_inner_join() -> None:
    assert choose_emit(DISTINCT, JOIN, NONE) == "expiring"


@pytest.mark.parametrize("parent", [None, count_by(R, 0), Distinct(R), anti(R, S), union_all(R, S)])
def test_and_explicit_elsewhere(parent: Node | None) -> None:
    assert choose_emit(DISTINCT, parent, NONE) == "explicit"


@pytest.mark.parametrize("node", NEGATIONS)
def test_negation_below_a_join_goes_by_its_premature_share(node: Node) -> None:
    assert choose_emit(node, JOIN, Stats(premature={node: 0.1})) == "expiring"
    assert choose_emit(node, JOIN, Stats(premature={node: 0.25})) == "explicit"
    assert choose_emit(node, JOIN, NONE) == "explicit"
    assert choose_emit(node, None, Stats(premature={node: 0.1})) == "explicit"


def test_filters_and_projections_are_looked_through() -> None:
    between = project(Filter(DISTINCT, cmp("gt", col(0), lit(1))), 0)
    plan = Distinct(join(between, S))
    assert choose_emits(plan, NONE)[DISTINCT] == "expiring"
    assert choose_emits(join(between, S), NONE) == {DISTINCT: "explicit"}
    assert choose_emits(between, NONE) == {DISTINCT: "explicit"}


def test_uses_that_disagree_get_explicit_changes() -> None:
    plan = anti(join(DISTINCT, S), DISTINCT)
    assert choose_emits(plan, NONE) == {plan: "explicit", DISTINCT: "explicit"}
