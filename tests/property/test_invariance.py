"""What must not change the answer: batching, rewriting, company, interruption, repetition."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from oracle.check import Mismatch, check, compare, history
from oracle.driver import Trace, run
from oracle.fold import Values, same, show
from oracle.scenario import Action, Push, Restore, Scenario
from penstock.optimizer.optimizer import RULE_NAMES
from property.cases import CHUNKS, Case, case, seeds, verify


def equal_histories(one: Trace, two: Trace) -> None:
    """Both runs folded to the same bags at the same instants."""
    for index, sql in enumerate(one.sqls):
        left, right = history(one, index), history(two, index)
        times = sorted({t for t, _ in left} | {t for t, _ in right})
        for instant in times:
            a, b = _bag_at(left, instant), _bag_at(right, instant)
            if not same(a, b):
                script = two.scenario.script(two.sqls)
                raise Mismatch(f"{sql}\n  at {instant}: {show(a)} or {show(b)}\n{script}")


def _bag_at(found: list[tuple[int, Counter[Values]]], instant: int) -> Counter[Values]:
    held: Counter[Values] = Counter()
    for time, bag in found:
        if time > instant:
            break
        held = bag
    return held


# ---- batches -----------------------------------------------------------------------------
def split(rng: Random, scenario: Scenario) -> Scenario:
    """The same rows in the same order, one to three at a time."""
    actions: list[Action] = []
    for action in scenario.actions:
        if not isinstance(action, Push):
            actions.append(action)
            continue
        rows = list(action.rows)
        while rows:
            size = rng.randint(1, 3)
            actions.append(Push(action.stream, tuple(rows[:size])))
            del rows[:size]
    return replace(scenario, actions=tuple(actions))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batches_do_not_matter(chunk: int) -> None:
    for seed in seeds(3, chunk, 120):
        verify("batch split", case(seed, queries=2), lambda c, s=seed: _split_equals(c, s))


def _split_equals(subject: Case, seed: int) -> None:
    sqls = list(subject.sqls)
    finer = split(Random(seed), subject.scenario)
    whole = run(sqls, subject.scenario, views=False)
    pieces = run(sqls, finer, views=False)
    if whole.late == pieces.late:  # lateness is judged per batch
        equal_histories(whole, pieces)


# ---- optimiser ---------------------------------------------------------------------------
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_optimised_equals_naive(chunk: int) -> None:
    for seed in seeds(4, chunk, 160):
        verify("naive", case(seed, queries=2), _naive_equals)


def _naive_equals(subject: Case) -> None:
    sqls = list(subject.sqls)
    clever = run(sqls, subject.scenario, views=False)
    naive = run(sqls, subject.scenario, views=False, optimizer_off="all")
    equal_histories(clever, naive)


@pytest.mark.parametrize("rule", sorted(RULE_NAMES))
def test_each_rule_alone_is_exact(rule: str) -> None:
    chunk = sorted(RULE_NAMES).index(rule)
    others = set(RULE_NAMES) - {rule}
    for seed in seeds(13, chunk, 8 * CHUNKS):
        subject = case(seed, queries=2)
        verify("one rule", subject, lambda c: check(list(c.sqls), c.scenario, optimizer_off=others))


# ---- company -----------------------------------------------------------------------------
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_queries_equal_each_alone(chunk: int) -> None:
    for seed in seeds(5, chunk, 80):
        verify("company", case(seed, queries=5, depth=1), _alone_equals, shrink=False)


def _alone_equals(subject: Case) -> None:
    together = run(list(subject.sqls), subject.scenario, views=False)
    for index, sql in enumerate(subject.sqls):
        alone = run([sql], subject.scenario, views=False)
        apart = replace(together, sqls=[sql], seen=[together.seen[index]])
        equal_histories(alone, apart)


# ---- interruption ------------------------------------------------------------------------
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_restore_at_any_step(chunk: int) -> None:
    for seed in seeds(6, chunk, 120):
        verify("restore", case(seed, queries=2), lambda c, s=seed: _restored_is_exact(c, s))


def _restored_is_exact(subject: Case, seed: int) -> None:
    rng = Random(seed)
    actions: list[Action] = []
    for action in subject.scenario.actions:
        actions.append(action)
        if rng.random() < 0.35:
            actions.append(Restore())
    check(list(subject.sqls), replace(subject.scenario, actions=tuple(actions)), named=True)


# ---- repetition --------------------------------------------------------------------------
@pytest.mark.parametrize("chunk", range(4))
def test_a_replay_gives_the_same_changelog(chunk: int) -> None:
    for seed in seeds(7, chunk, 100):
        verify("replay", case(seed, queries=2), _replay_equals)


def _replay_equals(subject: Case) -> None:
    one, two = (run(list(subject.sqls), subject.scenario, named=True) for _ in range(2))
    assert one.seen == two.seen
    compare(one)
