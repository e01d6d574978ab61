from __future__ import annotations

from dataclasses import replace

import pytest
from evaluate_bags import bag
from plan_builders import PlanMaker, cmp, col, count_by, join, lit, scan

from penstock.logical.nodes import Filter, Join, JoinKind, Node, SetKind, SetOp, walk
from penstock.optimizer.lower import lower
from penstock.optimizer.optimizer import NEEDS, RULES, THOROUGH, Rule, optimize
from penstock.optimizer.total_pairs import MANY, total_pairs
from penstock.patterns.check import check_bounded
from penstock.patterns.rules import is_nrr, pattern_of

SEEDS = range(150)
ROUNDS = 2


def plan_for(rule: Rule, maker: PlanMaker) -> Node:
    """A plan by chance; for totals of pairs, a count over two filtered windows."""
    if rule is not total_pairs:
        return maker.plan(3)
    least = cmp("gt", col(maker.rng.randrange(6)), lit(maker.rng.randrange(3)))
    return count_by(Filter(join(scan("r"), scan("s")), least))


@pytest.mark.parametrize("rule", dict.fromkeys(RULES), ids=lambda rule: rule.__name__)
def test_each_rule_keeps_every_bag(rule: Rule) -> None:
    changed = 0
    for seed in SEEDS:
        maker = PlanMaker(seed)
        plan, stats = lower(plan_for(rule, maker)), replace(maker.stats(), queries=MANY)
        after = rule(plan, stats)
        changed += after != plan
        assert after.schema == plan.schema, seed
        for _ in range(ROUNDS):
            contents = maker.contents()
            assert bag(after, contents) == bag(plan, contents), seed
    assert changed > 0  # the plans do exercise the rule


@pytest.mark.parametrize("rule", [r for r in RULES if r in THOROUGH], ids=lambda r: r.__name__)
def test_a_thorough_rule_finds_nothing_more_in_what_it_made(rule: Rule) -> None:
    for seed in SEEDS:
        maker = PlanMaker(seed)
        plan, stats = lower(maker.plan(seed % 5)), maker.stats()
        made = rule(plan, stats)
        assert rule(made, stats) == made, seed


@pytest.mark.parametrize("rule", NEEDS, ids=lambda rule: rule.__name__)
def test_a_rule_that_is_not_asked_would_change_nothing(rule: Rule) -> None:
    passed = 0
    for seed in SEEDS:
        maker = PlanMaker(seed)
        plan, stats = lower(maker.plan(seed % 4)), maker.stats()
        if not NEEDS[rule] <= {type(node) for node in walk(plan)}:
            assert rule(plan, stats) == plan, seed
            passed += 1
    assert passed > 0


def test_lowering_keeps_every_bag_and_leaves_what_the_engine_has() -> None:
    for seed in SEEDS:
        maker = PlanMaker(seed)
        plan = maker.plan(3)
        check_bounded(plan)
        after = lower(plan)
        check_bounded(after)
        assert lower(after) == after, seed
        assert after.schema == plan.schema, seed
        for node in walk(after):
            assert is_lowered(node), seed
        for _ in range(ROUNDS):
            contents = maker.contents()
            assert bag(after, contents) == bag(plan, contents), seed


def is_lowered(node: object) -> bool:
    match node:
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return node.band is None and node.residual is None
        case Join():
            return node.kind is JoinKind.INNER and not is_nrr(node.left)
        case SetOp(kind=SetKind.UNION):
            return node.all
        case _:
            return True


def test_the_optimiser_keeps_every_bag_and_settles() -> None:
    for seed in SEEDS:
        maker = PlanMaker(seed)
        plan, stats = maker.plan(3), maker.stats()
        after = optimize(plan, stats)
        assert optimize(after, stats) == after, seed
        check_bounded(after)
        for node in walk(after):
            pattern_of(node)
        for _ in range(ROUNDS):
            contents = maker.contents()
            assert bag(after, contents) == bag(plan, contents), seed
