from __future__ import annotations

import pytest
from plan_builders import NONE, add, anti, cmp, col, join, lit, nrr, project, scan, table, union_all

from penstock.logical.nodes import Filter, JoinKind, Node
from penstock.optimizer.lower import lower
from penstock.optimizer.push_down_table_join import push_down_table_join
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import pattern_of

R, S, T, N = scan("r"), scan("s"), table(), nrr()


def pushed(node: Node) -> Node:
    return push_down_table_join(node, NONE)


def test_below_an_anti_join() -> None:
    assert pushed(join(anti(R, S), T)) == anti(join(R, T), S)


def test_from_the_left_too_with_columns_put_back() -> None:
    after = project(anti(join(R, T), S), 3, 4, 5, 0, 1, 2)
    assert pushed(join(T, anti(R, S))) == after


def test_through_filters_and_projections() -> None:
    over = cmp("gt", col(0), lit(1))
    before = join(project(Filter(anti(R, S), over), 1, 0), T, on=((1, 0),))
    below = Filter(anti(join(R, T), S), over)
    assert pushed(before) == project(below, 1, 0, 3, 4, 5)


def test_not_below_a_computed_key() -> None:
    before = join(project(anti(R, S), add(col(0), lit(1))), T)
    assert pushed(before) == before


@pytest.mark.parametrize(
    "plan", [join(join(R, S), T), join(R, T), join(join(R, S, JoinKind.SEMI), T)]
)
def test_other_joins_with_tables_stay(plan: Node) -> None:
    assert pushed(plan) == plan


def test_lowering_puts_nrr_joins_below_anti_and_semi_joins() -> None:
    assert lower(join(anti(R, S), N)) == anti(join(R, N), S)
    assert pattern_of(lower(join(anti(R, S), N)).inputs[0]) is Pattern.WKS
    semi = join(join(R, S, JoinKind.SEMI), N)
    assert lower(semi) == join(join(R, N), S, JoinKind.SEMI)


def test_lowering_puts_nrr_joins_into_a_union_with_an_anti_join() -> None:
    before = join(union_all(anti(R, S), S), N)
    assert lower(before) == union_all(anti(join(R, N), S), join(S, N))


def test_nrr_joins_stay_above_joins_of_streams() -> None:
    plan = join(join(R, S), N)
    assert pushed(lower(plan)) == plan
