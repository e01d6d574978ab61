from __future__ import annotations

import pytest
from plan_builders import (
    NONE,
    add,
    anti,
    both,
    cmp,
    col,
    count_by,
    join,
    lit,
    nrr,
    project,
    scan,
    table,
    union_all,
)

from penstock.logical.expr import Call, Expr, Param
from penstock.logical.nodes import (
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Range,
    Rows,
    SetKind,
    SetOp,
    Unbounded,
    Windowed,
)
from penstock.optimizer.push_down_filter import push_down_filter
from penstock.types import BIGINT

R, S = scan("r"), scan("s")


def gt(index: int, value: int = 1) -> Expr:
    return cmp("gt", col(index), lit(value))


def pushed(node: Node) -> Node:
    return push_down_filter(node, NONE)


def test_through_projections_with_columns_replaced() -> None:
    before = Filter(project(R, 1, add(col(0), col(2))), both(gt(0), gt(1)))
    predicate = both(cmp("gt", col(1, "a"), lit(1)), cmp("gt", add(col(0), col(2)), lit(1)))
    assert pushed(before) == project(Filter(R, predicate), 1, add(col(0), col(2)))


def test_not_through_a_projection_that_calls_a_users_function() -> None:
    before = Filter(project(R, Call(BIGINT, "udf:f", (col(0),))), gt(0))
    assert pushed(before) == before


def test_to_the_sides_of_a_join_and_equalities_into_its_keys() -> None:
    cross = cmp("lt", col(1), col(4))
    equal = cmp("eq", col(5), col(2))
    before = Filter(join(R, S), both(gt(1), gt(4), cross, equal))
    after = Filter(join(Filter(R, gt(1)), Filter(S, gt(1)), on=((0, 0), (2, 2))), cross)
    assert pushed(before) == after


def test_one_sided_residuals_too() -> None:
    before = join(R, S, residual=both(gt(1), cmp("lt", col(1), col(4))))
    assert pushed(before) == join(Filter(R, gt(1)), S, residual=cmp("lt", col(1), col(4)))


def test_parameters_go_along() -> None:
    mine = cmp("eq", col(4), Param(BIGINT, 0))
    theirs = cmp("eq", col(1), Param(BIGINT, 0))
    assert pushed(Filter(join(R, S), mine)) == join(R, Filter(S, theirs))


@pytest.mark.parametrize(
    "keyed", [anti(R, S), Distinct(R), count_by(R, 0), SetOp(R, S, SetKind.EXCEPT, True)]
)
def test_parameters_stay_above_keyed_operators(keyed: Node) -> None:
    """Below, every query of the template would need its own state."""
    before = Filter(keyed, cmp("eq", col(0), Param(BIGINT, 0)))
    assert pushed(before) == before
    union = union_all(R, S)
    sides = [Filter(side, before.predicate) for side in union.inputs]
    assert pushed(Filter(union, before.predicate)) == union_all(*sides)


def test_into_a_table_but_not_into_an_nrr() -> None:
    assert pushed(Filter(join(R, table()), gt(4))) == join(R, Filter(table(), gt(1)))
    before = Filter(join(R, nrr()), both(gt(1), gt(4)))
    assert pushed(before) == Filter(join(Filter(R, gt(1)), nrr()), gt(4))


@pytest.mark.parametrize("kind", list(SetKind))
@pytest.mark.parametrize("all_", [True, False])
def test_into_both_sides_of_set_operations(kind: SetKind, all_: bool) -> None:
    before = Filter(SetOp(R, S, kind, all_), gt(1))
    assert pushed(before) == SetOp(Filter(R, gt(1)), Filter(S, gt(1)), kind, all_)


def test_to_the_left_of_semi_and_anti_joins() -> None:
    assert pushed(Filter(anti(R, S), gt(1))) == anti(Filter(R, gt(1)), S)
    semi = join(R, S, JoinKind.SEMI)
    assert pushed(Filter(semi, gt(0))) == join(Filter(R, gt(0)), S, JoinKind.SEMI)


def test_to_both_sides_where_whole_rows_are_compared() -> None:
    every = ((0, 0), (1, 1), (2, 2))
    before = Filter(Join(R, S, JoinKind.ANTI, every, null_safe=True), gt(1))
    after = Join(Filter(R, gt(1)), Filter(S, gt(1)), JoinKind.ANTI, every, null_safe=True)
    assert pushed(before) == after


def test_below_a_group_by_on_its_keys_only() -> None:
    before = Filter(count_by(R, 2), both(gt(0), gt(1)))
    assert pushed(before) == Filter(count_by(Filter(R, gt(2)), 2), gt(1))


def test_never_below_an_aggregate_without_keys() -> None:
    before = Filter(count_by(R), cmp("gt", Param(BIGINT, 0), lit(1)))
    assert pushed(before) == before


def test_through_distinct_and_time_windows_but_not_rows_windows() -> None:
    stream = scan("r", Unbounded())
    assert pushed(Filter(Distinct(R), gt(1))) == Distinct(Filter(R, gt(1)))
    timed = Windowed(stream, Range(10))
    assert pushed(Filter(timed, gt(1))) == Windowed(Filter(stream, gt(1)), Range(10))
    counted = Filter(Windowed(stream, Rows(3)), gt(1))
    assert pushed(counted) == counted
    assert pushed(Filter(scan("r", Rows(3)), gt(1))) == Filter(scan("r", Rows(3)), gt(1))


def test_filters_over_filters_become_one() -> None:
    before = Filter(Filter(union_all(R, S), gt(1)), gt(0))
    after = union_all(Filter(R, both(gt(1), gt(0))), Filter(S, both(gt(1), gt(0))))
    assert pushed(before) == after
