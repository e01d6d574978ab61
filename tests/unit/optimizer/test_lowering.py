from __future__ import annotations

import pytest
from plan_builders import add, anti, both, cmp, col, join, lit, nrr, project, scan, union_all

from penstock.errors import PlanError
from penstock.logical.expr import Literal
from penstock.logical.nodes import (
    Band,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    SetKind,
    SetOp,
)
from penstock.optimizer.lower import lower
from penstock.types import BIGINT

R, S, N = scan("r"), scan("s"), nrr()
NULL = Literal(BIGINT, None)
NAMES = ("k", "a", "b", "k", "a", "b")
EVERY = ((0, 0), (1, 1), (2, 2))


def padded_right(node: Node) -> Project:
    return Project(node, (*project(node, 0, 1, 2).exprs, NULL, NULL, NULL), NAMES)


def padded_left(node: Node) -> Project:
    return Project(node, (NULL, NULL, NULL, *project(node, 0, 1, 2).exprs), NAMES)


def whole_row(kind: JoinKind, left: Node, matched: Node) -> Join:
    return Join(left, project(matched, 0, 1, 2), kind, EVERY, null_safe=True)


def test_left_join() -> None:
    after = union_all(join(R, S), padded_right(anti(R, S)))
    assert lower(join(R, S, JoinKind.LEFT)) == after


def test_right_join() -> None:
    before = join(R, S, JoinKind.RIGHT, on=((0, 1),))
    after = union_all(join(R, S, on=((0, 1),)), padded_left(anti(S, R, on=((1, 0),))))
    assert lower(before) == after


def test_full_join() -> None:
    left = union_all(join(R, S), padded_right(anti(R, S)))
    after = union_all(left, padded_left(anti(S, R)))
    assert lower(join(R, S, JoinKind.FULL)) == after


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI])
def test_a_residual_over_both_sides_compares_whole_left_rows(kind: JoinKind) -> None:
    less = cmp("lt", col(1), col(4))
    after = whole_row(kind, R, join(R, S, residual=less))
    assert lower(join(R, S, kind, residual=less)) == after


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI])
def test_a_band_does_too(kind: JoinKind) -> None:
    band = Band(1, 2, -5, None)
    assert lower(join(R, S, kind, band=band)) == whole_row(kind, R, join(R, S, band=band))


def test_a_band_turns_round_with_its_sides() -> None:
    before = join(R, S, JoinKind.RIGHT, band=Band(1, 2, -5, None))
    turned = join(S, R, band=Band(2, 1, None, 5))
    after = union_all(
        join(R, S, band=Band(1, 2, -5, None)), padded_left(whole_row(JoinKind.ANTI, S, turned))
    )
    assert lower(before) == after


def test_what_the_right_side_decides_is_a_filter_and_equalities_are_keys() -> None:
    residual = both(cmp("gt", col(4), lit(5)), cmp("eq", col(2), col(5)))
    before = join(R, S, JoinKind.ANTI, residual=residual)
    after = anti(R, Filter(S, cmp("gt", col(1), lit(5))), on=((0, 0), (2, 2)))
    assert lower(before) == after


def test_what_the_left_side_decides_filters_a_semi_join_only() -> None:
    mine = cmp("gt", col(1), lit(5))
    semi = join(R, S, JoinKind.SEMI, residual=mine)
    assert lower(semi) == join(Filter(R, mine), S, JoinKind.SEMI)
    negated = join(R, S, JoinKind.ANTI, residual=mine)
    assert lower(negated) == whole_row(JoinKind.ANTI, R, join(R, S, residual=mine))


def test_union_is_the_distinct_rows_of_union_all() -> None:
    before = SetOp(R, S, SetKind.UNION, all=False)
    assert lower(before) == Distinct(union_all(R, S))


def test_an_nrr_goes_to_the_right_and_stands_bare() -> None:
    assert lower(join(N, R)) == project(join(R, N), 3, 4, 5, 0, 1, 2)
    over = Filter(N, cmp("gt", col(1), lit(0)))
    assert lower(join(R, over)) == Filter(join(R, N), cmp("gt", col(4), lit(0)))
    columns = join(R, project(N, 2, 0), on=((0, 1),))
    assert lower(columns) == project(join(R, N), 0, 1, 2, 5, 3)


def test_a_computed_key_of_an_nrr_is_a_residual() -> None:
    before = join(R, project(N, add(col(0), lit(1))))
    key = add(col(3), lit(1))
    bare = join(R, N, on=(), residual=cmp("eq", col(0, "k"), key))
    after = Project(bare, (*project(R, 0, 1, 2).exprs, key), (*R.schema.names, "x0"))
    assert lower(before) == after


def test_a_band_on_a_computed_column_of_an_nrr_is_refused() -> None:
    with pytest.raises(PlanError, match="computed"):
        lower(join(R, project(N, add(col(0), lit(1))), on=(), band=Band(0, 0, -1, 1)))
