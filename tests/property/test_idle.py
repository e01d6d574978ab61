"""An operator that calls itself idle would have emitted nothing."""

from __future__ import annotations

import pytest

from oracle.check import check
from penstock.delta import Clock, Delta
from penstock.engine import template
from penstock.physical.operator import Operator
from property.cases import CHUNKS, case, seeds, tally, verify


def _idle_steps(cases: range, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many steps of the cases found an operator idle; all of them emit nothing."""
    found = 0

    def step(operator: Operator, inputs: list[Delta], clock: Clock) -> Delta:
        nonlocal found
        idle = bool(inputs) and not any(map(len, inputs)) and operator.idle(clock.now)
        out = operator.step(inputs, clock)
        assert not (idle and len(out)), operator.name
        found += idle
        return out

    monkeypatch.setattr(template, "step_operator", step)
    for seed in cases:
        verify("idle", case(seed), lambda c: check(list(c.sqls), c.scenario), shrink=False)
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_idle_operators_have_nothing_to_say(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tally["idle steps"] += _idle_steps(seeds(33, chunk, 100), monkeypatch)


def test_some_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _idle_steps(range(330_000_000, 330_000_005), monkeypatch) > 0
