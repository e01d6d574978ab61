"""Strategies: random plans under each of them equal the oracle at every instant (DESIGN §5.8)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from oracle.check import check
from oracle.scenario import Action, Restore, Scenario
from penstock.logical.strategy import STRATEGIES, UPA
from property.cases import Case, case, seeds, verify
from property.test_lifecycle import come_and_go, retained

OTHERS = tuple(s.name for s in STRATEGIES if s != UPA)
CHUNKS = range(20)


@pytest.mark.parametrize("strategy", OTHERS)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_instant_equals_the_oracle(chunk: int, strategy: str) -> None:
    for seed in seeds(81, chunk, 40):
        subject = case(seed, queries=3)
        verify(strategy, subject, lambda c: check(list(c.sqls), c.scenario, strategy=strategy))


@pytest.mark.parametrize("strategy", OTHERS)
def test_on_commit_is_exact_at_batch_ends(strategy: str) -> None:
    for seed in seeds(82, 0, 160):
        verify(f"{strategy} on commit", case(seed), lambda c: _on_commit(c, strategy))


def _on_commit(subject: Case, strategy: str) -> None:
    sqls = [f"{sql} EMIT ON COMMIT" for sql in subject.sqls]
    check(sqls, subject.scenario, strategy=strategy)


@pytest.mark.parametrize("strategy", OTHERS)
def test_shards_do_not_matter(strategy: str) -> None:
    for seed in seeds(83, 0, 200):
        shards = (1, 2, 4)[seed % 3]
        verify(
            f"{strategy} on shards",
            case(seed, queries=2),
            lambda c, n=shards: check(list(c.sqls), c.scenario, strategy=strategy, shards=n),
        )


@pytest.mark.parametrize("strategy", OTHERS)
def test_queries_come_and_go(strategy: str) -> None:
    for seed in seeds(85, 0, 160):
        plain = case(seed, queries=3)
        later = come_and_go(Random(seed), plain.scenario, 3, history=False)
        for subject in (Case(plain.sqls, later), retained(seed)):
            verify(
                f"{strategy} with queries that come and go",
                subject,
                lambda c: check(list(c.sqls), c.scenario, strategy=strategy),
            )


@pytest.mark.parametrize("strategy", OTHERS)
def test_restore_at_any_step(strategy: str) -> None:
    for seed in seeds(84, 0, 160):
        rng = Random(seed)
        verify(
            f"{strategy} restored",
            case(seed, queries=2),
            lambda c, r=rng: check(
                list(c.sqls), _restored(c.scenario, r), named=True, strategy=strategy
            ),
        )


def _restored(scenario: Scenario, rng: Random) -> Scenario:
    """The scenario with restarts between its actions."""
    actions: list[Action] = []
    for action in scenario.actions:
        actions.append(action)
        if rng.random() < 0.35:
            actions.append(Restore())
    return replace(scenario, actions=tuple(actions))
