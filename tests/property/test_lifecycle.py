"""Queries that come and go: registered with and without history, dropped, registered again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from oracle.check import check
from oracle.scenario import Action, Advance, Drop, Push, Register, Scenario
from property.cases import CHUNKS, Case, case, seeds, verify
from property.data import STREAMS, session
from property.plans import Plans


def come_and_go(rng: Random, scenario: Scenario, queries: int, history: bool) -> Scenario:
    """Registers and drops in random places.

    All clocks are brought together first: a row pushed before a registration and applied
    after it would otherwise count in a ROWS window it cannot be seen in.
    """
    actions: list[Action] = list(scenario.actions)
    for index in range(queries):
        at = rng.randint(0, len(actions))
        newest = max(
            (int(str(r[-1])) for a in actions[:at] if isinstance(a, Push) for r in a.rows),
            default=-50,
        )
        actions[at:at] = [Advance(None, newest), Register(index, history and rng.random() < 0.6)]
        if rng.random() < 0.4:
            after = rng.randint(at + 2, len(actions))
            actions.insert(after, Drop(index))
    return replace(scenario, actions=tuple(actions))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_registered_at_any_step(chunk: int) -> None:
    for seed in seeds(8, chunk, 100):
        subject = case(seed, queries=3)
        scenario = come_and_go(Random(seed), subject.scenario, 3, history=False)
        verify("come and go", Case(subject.sqls, scenario), _exact)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_registered_with_history(chunk: int) -> None:
    for seed in seeds(9, chunk, 100):
        verify("history", retained(seed), _exact)


def _exact(subject: Case) -> None:
    check(list(subject.sqls), subject.scenario)


class _TimeWindows(Plans):
    """Plans whose windows are bounded in time, so that retained rows suffice."""

    def window(self, slide: bool = True) -> str:
        step = self.rng.randint(1, 4)
        if slide and self.rng.random() < 0.25:
            return f"RANGE {step + self.rng.randint(0, 4)} SLIDE {step}"
        return f"RANGE {self.rng.randint(1, 8)}"

    def _with_nrr(self) -> tuple[str, list]:  # type: ignore[type-arg]
        # What an NRR held when a retained row came is not part of the history.
        return self._source(0)


def retained(seed: int) -> Case:
    """Queries that are registered with history and without."""
    rng = Random(seed)
    plans = _TimeWindows(rng)
    sqls = tuple(plans.query(rng.choice((0, 1, 2))) for _ in range(3))
    base = session(rng, plans.streams or {rng.choice(sorted(STREAMS))}, plans.tables, 20)
    streams = tuple(replace(s, retain=1000) for s in base.streams)
    return Case(sqls, come_and_go(rng, replace(base, streams=streams), 3, history=True))
