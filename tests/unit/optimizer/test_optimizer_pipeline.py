from __future__ import annotations

from collections.abc import Callable

import pytest
from plan_builders import (
    MIN,
    NONE,
    both,
    cmp,
    col,
    join,
    lit,
    project,
    scan,
)

from penstock.errors import PlanError
from penstock.logical.nodes import Filter, Join, JoinKind, Range, walk
from penstock.optimizer.lower import lower
from penstock.optimizer.lower_windows import lower_windows
from penstock.optimizer.optimizer import RULE_NAMES, RULES, optimize
from penstock.optimizer.split_aggregate import split

W = Range(10 * MIN)
A, B, C = (scan(name, W) for name in "abc")


def test_each_rule_has_a_verb_phrase_and_a_switch() -> None:
    verbs = {"push", "prune", "merge", "pull", "order", "total"}
    assert {rule.__name__.split("_")[0] for rule in RULES} <= verbs
    plan = Filter(join(A, B), cmp("gt", col(1), lit(1)))
    assert optimize(plan, NONE, off=RULE_NAMES) == plan
    assert optimize(plan, NONE) != plan


@pytest.mark.parametrize("rule", [*RULES, lower, lower_windows, split], ids=lambda r: r.__name__)
def test_each_rule_shows_a_plan_before_and_after(rule: Callable[..., object]) -> None:
    lines = (rule.__doc__ or "").splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["before:", "after:"]


def test_lowering_cannot_be_switched_off() -> None:
    plan = optimize(join(A, B, JoinKind.LEFT), NONE, off=RULE_NAMES)
    assert not any(isinstance(n, Join) and n.kind is JoinKind.LEFT for n in walk(plan))


def test_an_unknown_rule_name_is_an_error() -> None:
    with pytest.raises(PlanError, match="push_up_everything") as caught:
        optimize(A, NONE, off=frozenset({"push_up_everything"}))
    assert "pull_up_except" in caught.value.remedy


def test_rules_work_together() -> None:
    wanted = both(cmp("eq", col(0), col(3)), cmp("gt", col(4), lit(7)))
    before = project(Filter(join(A, B, on=()), wanted), 1)
    narrow = project(Filter(scan("b", W, (0, 1)), cmp("gt", col(1), lit(7))), 0)
    assert optimize(before, NONE) == project(join(scan("a", W, (0, 1)), narrow), 1)
