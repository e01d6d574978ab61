"""Exactness: random plans over random sessions equal the oracle at every instant (DESIGN §1)."""

from __future__ import annotations

import pytest

from oracle.check import check
from property.cases import CHUNKS, Case, case, seeds, tally, verify

TOTAL = 2100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_instant_equals_the_oracle(chunk: int) -> None:
    for seed in seeds(1, chunk, TOTAL // 3):
        verify("exact", case(seed, queries=3), lambda c: check(list(c.sqls), c.scenario))


def test_few_plans_are_refused() -> None:
    done, declined = tally["exact"], tally["exact: refused"] * 3
    assert declined <= 0.05 * max(1, done + declined), f"{declined} of {done + declined} refused"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_on_commit_is_exact_at_batch_ends(chunk: int) -> None:
    for seed in seeds(2, chunk, 160):
        verify("on commit", case(seed), _check_on_commit)


def _check_on_commit(subject: Case) -> None:
    check([f"{sql} EMIT ON COMMIT" for sql in subject.sqls], subject.scenario)
