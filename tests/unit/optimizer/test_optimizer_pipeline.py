from __future__ import annotations

import pytest
from plan_builders import (
    MIN,
    NONE,
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
)

from penstock.errors import PlanError
from penstock.logical.nodes import Band, Filter, Join, JoinKind, Node, Range, Rows, Windowed, walk
from penstock.optimizer.explain import describe, explain, lines
from penstock.optimizer.optimizer import RULE_NAMES, RULES, optimize
from penstock.optimizer.stats import Stats, StreamStats

W = Range(10 * MIN)
A, B, C = (scan(name, W) for name in "abc")


def test_each_rule_has_a_verb_phrase_and_a_switch() -> None:
    verbs = {"push", "prune", "merge", "pull", "order"}
    assert {rule.__name__.split("_")[0] for rule in RULES} <= verbs
    plan = Filter(join(A, B), cmp("gt", col(1), lit(1)))
    assert optimize(plan, NONE, off=RULE_NAMES) == plan
    assert optimize(plan, NONE) != plan


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


def test_explain_shows_operator_pattern_and_cost() -> None:
    stats = Stats({name: StreamStats(10.0, {"k": 100.0}) for name in "abc"})
    plan = anti(join(A, Filter(C, cmp("eq", col(1, "a"), lit(21)))), B)
    assert explain(plan, stats).splitlines() == [
        "anti join on k = k                        STR  cost 298.3/s",
        "  inner join on k = k                     WK   cost 16/s",
        "    scan a [RANGE 600000000] (k, a, b)    WKS  cost 10/s",
        "    filter (a = 21)                       WKS  cost 10/s",
        "      scan c [RANGE 600000000] (k, a, b)  WKS  cost 10/s",
        "  scan b [RANGE 600000000] (k, a, b)      WKS  cost 10/s",
    ]


def test_lines_can_be_added_to() -> None:
    assert lines(count_by(A, 0)) == [
        (0, count_by(A, 0), "group by k: count(*)"),
        (1, A, "scan a [RANGE 600000000] (k, a, b)"),
    ]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (join(A, nrr()), "join NRR on k = k"),
        (table("t", columns=(0,)), "table t (k)"),
        (join(A, B, on=(), band=Band(1, 2, -5, None)), "inner join on -5 <= b - a"),
        (Windowed(A, Rows(3, (1,))), "window [PARTITION BY a ROWS 3]"),
        (project(A, 0), "project k"),
        (count_by(A), "group by (): count(*)"),
        (
            Join(A, B, JoinKind.ANTI, ((0, 0),), null_safe=True),
            "anti join on k IS NOT DISTINCT FROM k",
        ),
    ],
)
def test_descriptions(node: Node, text: str) -> None:
    assert describe(node) == text
