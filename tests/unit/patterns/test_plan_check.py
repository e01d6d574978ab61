from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import PlanError
from penstock.logical.expr import Agg, Literal
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Range,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Windowed,
)
from penstock.patterns.check import check_bounded
from penstock.schema import Field, Schema
from penstock.types import BIGINT, BOOLEAN

COLUMNS = Schema((Field("k", BIGINT), Field("a", BIGINT)))
COUNT = Agg("count", None, False, None, BIGINT)
OPEN = Scan("clicks", COLUMNS, Unbounded(), (0, 1))
KEPT = Scan("clicks", COLUMNS, Unbounded(explicit=True), (0, 1))
CLOSED = Scan("r", COLUMNS, Range(10), (0, 1))
TABLE = TableScan("t", COLUMNS, False, (0, 1))
NRR = TableScan("names", COLUMNS, True, (0, 1))


def stateless(node: Node) -> Node:
    return Project(Filter(node, Literal(BOOLEAN, True)), (Literal(BIGINT, 1),) * 2, ("x", "y"))


def join(left: Node, right: Node, kind: JoinKind = JoinKind.INNER) -> Join:
    return Join(left, right, kind, ((0, 0),))


STATEFUL: dict[str, Callable[[Node], Node]] = {
    "JOIN": lambda n: join(n, CLOSED),
    "LEFT JOIN": lambda n: join(CLOSED, n, JoinKind.LEFT),
    "EXISTS": lambda n: join(CLOSED, n, JoinKind.SEMI),
    "NOT EXISTS": lambda n: join(CLOSED, n, JoinKind.ANTI),
    "DISTINCT": Distinct,
    "GROUP BY": lambda n: GroupBy(n, (0,), (COUNT,), ("n",)),
    "an aggregate": lambda n: GroupBy(n, (), (COUNT,), ("n",)),
    "INTERSECT": lambda n: SetOp(CLOSED, n, SetKind.INTERSECT, False),
    "EXCEPT ALL": lambda n: SetOp(n, CLOSED, SetKind.EXCEPT, True),
    "UNION": lambda n: SetOp(n, CLOSED, SetKind.UNION, False),
    "JOIN over": lambda n: join(n, TABLE),
}


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("depth", range(3))
def test_state_over_a_stream_without_a_window_is_refused_with_a_remedy(
    name: str, depth: int
) -> None:
    source: Node = OPEN
    for _ in range(depth):
        source = stateless(source)
    with pytest.raises(PlanError, match=name) as caught:
        check_bounded(stateless(STATEFUL[name](source)))
    assert caught.value.code == "PS-PLAN-001"
    assert "clicks" in caught.value.message
    assert "[UNBOUNDED]" in caught.value.remedy


@pytest.mark.parametrize("name", STATEFUL)
def test_a_window_or_unbounded_in_writing_is_accepted(name: str) -> None:
    check_bounded(STATEFUL[name](KEPT))
    check_bounded(STATEFUL[name](CLOSED))
    check_bounded(STATEFUL[name](Windowed(stateless(OPEN), Range(10))))
    check_bounded(STATEFUL[name](Windowed(OPEN, Rows(10))))


def test_stateless_operators_take_a_stream_as_it_is() -> None:
    check_bounded(stateless(OPEN))
    check_bounded(SetOp(OPEN, stateless(OPEN), SetKind.UNION, True))
    check_bounded(join(OPEN, NRR))
    check_bounded(join(join(OPEN, NRR), stateless(NRR)))


def test_a_join_with_an_nrr_does_not_bound_its_stream() -> None:
    with pytest.raises(PlanError, match="DISTINCT"):
        check_bounded(Distinct(join(OPEN, NRR)))


@pytest.mark.parametrize(
    "plan",
    [
        NRR,
        stateless(NRR),
        Distinct(NRR),
        join(CLOSED, Distinct(NRR)),
        join(NRR, NRR),
        join(CLOSED, NRR, JoinKind.ANTI),
        join(CLOSED, NRR, JoinKind.SEMI),
        SetOp(CLOSED, NRR, SetKind.UNION, True),
    ],
)
def test_an_nrr_elsewhere_than_in_an_inner_join_is_refused(plan: Node) -> None:
    with pytest.raises(PlanError, match="names") as caught:
        check_bounded(plan)
    assert caught.value.code == "PS-PLAN-003"
    assert caught.value.remedy


@pytest.mark.parametrize("kind", [JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL])
def test_outer_joins_with_an_nrr_are_refused_with_a_remedy(kind: JoinKind) -> None:
    with pytest.raises(PlanError, match="names") as caught:
        check_bounded(join(CLOSED, NRR, kind))
    assert "inner join" in caught.value.remedy


def test_a_window_over_results_that_are_deleted_is_refused() -> None:
    with pytest.raises(PlanError, match="never deletes") as caught:
        check_bounded(Windowed(Distinct(CLOSED), Range(10)))
    assert caught.value.code == "PS-PLAN-004"
