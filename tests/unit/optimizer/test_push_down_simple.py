from __future__ import annotations

from plan_builders import NONE, add, anti, col, join, lit, project, scan, union_all

from penstock.logical.expr import Call
from penstock.logical.nodes import JoinKind, Node
from penstock.optimizer.push_down_simple import push_down_simple
from penstock.types import BOOLEAN

R, S = scan("r"), scan("s")


def pushed(node: Node) -> Node:
    return push_down_simple(node, NONE)


def test_below_anti_and_semi_joins_whose_keys_survive() -> None:
    known = Call(BOOLEAN, "is_null", (col(0),))
    before = project(anti(R, S, on=((2, 0),)), known, 2)
    after = anti(project(R, known, 2), S, on=((1, 0),))
    assert pushed(before) == after
    semi = project(join(R, S, JoinKind.SEMI), 1, 0)
    assert pushed(semi) == join(project(R, 1, 0), S, JoinKind.SEMI, on=((1, 0),))


def test_what_can_fail_stays_above_what_leaves_rows_out() -> None:
    before = project(anti(R, S, on=((2, 0),)), add(col(0), lit(1)), 2)
    assert pushed(before) == before


def test_not_below_an_anti_join_whose_key_is_dropped_or_computed() -> None:
    for before in (project(anti(R, S), 1), project(anti(R, S), add(col(0), lit(1)))):
        assert pushed(before) == before


def test_through_several_negations() -> None:
    before = project(anti(anti(R, S), scan("u"), on=((1, 1),)), 1, 0)
    after = anti(anti(project(R, 1, 0), S, on=((1, 0),)), scan("u"), on=((0, 1),))
    assert pushed(before) == after


def test_into_the_sides_of_union_all() -> None:
    assert pushed(project(union_all(R, S), 2)) == union_all(project(R, 2), project(S, 2))
