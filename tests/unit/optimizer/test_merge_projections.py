from __future__ import annotations

from plan_builders import NONE, add, col, lit, project, scan

from penstock.logical.expr import Call
from penstock.logical.nodes import Node, Project
from penstock.optimizer.merge_projections import merge_projections
from penstock.types import BIGINT

R = scan("r")


def merged(node: Node) -> Node:
    return merge_projections(node, NONE)


def test_two_projections_become_one() -> None:
    inner = project(R, 2, add(col(0), lit(1)))
    before = project(inner, 1, add(col(0), lit(2)))
    after = Project(
        R, (add(col(0), lit(1)), add(col(2, "b"), lit(2))), (inner.names[1], before.names[1])
    )
    assert merged(before) == after


def test_a_chain_of_three_too() -> None:
    assert merged(project(project(project(R, 2, 1, 0), 2, 1), 1)) == project(R, 1)


def test_identities_go_away_but_renaming_stays() -> None:
    assert merged(project(R, 0, 1, 2)) == R
    renamed = Project(R, project(R, 0, 1, 2).exprs, ("x", "y", "z"))
    assert merged(renamed) == renamed


def test_nothing_is_computed_twice() -> None:
    twice = project(project(R, add(col(0), col(1))), add(col(0), col(0)))
    assert merged(twice) == twice
    users = project(project(R, Call(BIGINT, "udf:f", (col(0),))), add(col(0), lit(1)))
    assert merged(users) == users
