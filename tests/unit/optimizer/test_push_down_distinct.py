from __future__ import annotations

import pytest
from plan_builders import (
    NONE,
    anti,
    cmp,
    col,
    count_by,
    join,
    nrr,
    project,
    scan,
    table,
    union_all,
)

from penstock.logical.nodes import Distinct, Filter, Node, SetKind, SetOp
from penstock.optimizer.push_down_distinct import is_duplicate_free, push_down_distinct

R, S, U = scan("r"), scan("s"), scan("u")


def pushed(node: Node) -> Node:
    return push_down_distinct(node, NONE)


def test_distinct_rows_of_a_join_are_the_join_of_distinct_rows() -> None:
    assert pushed(Distinct(join(R, S))) == join(Distinct(R), Distinct(S))


def test_query_4_of_the_paper_needs_no_distinct_above_the_join() -> None:
    before = Distinct(project(join(R, S), 0))
    after = project(join(Distinct(project(R, 0)), Distinct(project(S, 0))), 0)
    assert pushed(before) == after


def test_the_outer_distinct_stays_when_the_output_hides_a_column() -> None:
    before = Distinct(project(join(R, S), 1))
    sides = Distinct(project(R, 0, 1)), Distinct(project(S, 0))
    assert pushed(before) == Distinct(project(join(*sides), 1))
    assert pushed(pushed(before)) == pushed(before)


def test_residuals_are_read_too() -> None:
    before = Distinct(project(join(R, S, residual=cmp("lt", col(1), col(5))), 0))
    sides = Distinct(project(R, 0, 1)), Distinct(project(S, 0, 2))
    after = Distinct(project(join(*sides, residual=cmp("lt", col(1), col(3))), 0))
    assert pushed(before) == after


def test_through_several_joins() -> None:
    assert pushed(Distinct(join(join(R, S), U))) == join(
        join(Distinct(R), Distinct(S)), Distinct(U)
    )


@pytest.mark.parametrize("other", [table(), nrr()])
def test_joins_with_tables_are_left_alone(other: Node) -> None:
    before = Distinct(join(R, other))
    assert pushed(before) == before


@pytest.mark.parametrize(
    ("node", "free"),
    [
        (R, False),
        (Distinct(R), True),
        (count_by(R, 0), True),
        (project(count_by(R, 0), 0), True),
        (project(count_by(R, 0), 1), False),
        (Filter(Distinct(R), cmp("gt", col(0), col(1))), True),
        (project(Distinct(R), 2, 1, 0), True),
        (project(Distinct(R), 2, 1), False),
        (SetOp(R, S, SetKind.EXCEPT, all=False), True),
        (SetOp(R, S, SetKind.INTERSECT, all=True), False),
        (union_all(Distinct(R), Distinct(S)), False),
        (anti(Distinct(R), S), True),
        (join(Distinct(R), Distinct(S)), True),
        (join(Distinct(R), S), False),
    ],
)
def test_duplicate_free_rows_need_no_distinct(node: Node, free: bool) -> None:
    assert is_duplicate_free(node) is free
    if free:
        assert pushed(Distinct(node)) == node
