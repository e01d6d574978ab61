"""Exactness: random plans over random sessions equal the oracle at every instant (DESIGN §1)."""

from __future__ import annotations

import pytest

import penstock
from oracle.check import check
from penstock.session import windows
from property.cases import CHUNKS, Case, case, refused, seeds, verify

TOTAL = 2100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_instant_equals_the_oracle(chunk: int) -> None:
    for seed in seeds(1, chunk, TOTAL // 3):
        verify("exact", case(seed, queries=3), lambda c: check(list(c.sqls), c.scenario))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_windows_alone_may_be_parameters(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MOST_LENGTHS", 0)
    for seed in seeds(3, chunk, 240):
        verify("lengths lifted", case(seed), lambda c: check(list(c.sqls), c.scenario))


def test_few_plans_are_refused() -> None:
    cases = [case(seed, queries=3) for seed in range(10_000_000, 10_000_200)]
    declined = sum(refused("planned", lambda c=c: _plan(c)) for c in cases)
    assert declined <= 0.05 * len(cases), f"{declined} of {len(cases)} refused"


def _plan(subject: Case) -> None:
    with penstock.connect(runner="inprocess") as session:
        for text in (*subject.scenario.ddl(), *subject.sqls):
            session.sql(text)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_on_commit_is_exact_at_batch_ends(chunk: int) -> None:
    for seed in seeds(2, chunk, 160):
        verify("on commit", case(seed), _check_on_commit)


def _check_on_commit(subject: Case) -> None:
    check([f"{sql} EMIT ON COMMIT" for sql in subject.sqls], subject.scenario)
