"""An operator that calls itself idle would have emitted nothing."""

from __future__ import annotations

import pytest

from oracle.check import check
from penstock.delta import Clock, Delta
from penstock.engine import template
from penstock.physical.operator import Operator
from property.cases import CHUNKS, case, seeds, tally, verify


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_idle_operators_have_nothing_to_say(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(operator: Operator, inputs: list[Delta], clock: Clock) -> Delta:
        idle = bool(inputs) and not any(map(len, inputs)) and operator.idle(clock.now)
        out = operator.step(inputs, clock)
        assert not (idle and len(out)), operator.name
        tally["idle steps"] += idle
        return out

    monkeypatch.setattr(template, "_step", step)
    for seed in seeds(33, chunk, 100):
        verify("idle", case(seed), lambda c: check(list(c.sqls), c.scenario), shrink=False)


def test_some_were_idle() -> None:
    assert tally["idle steps"] > 0
