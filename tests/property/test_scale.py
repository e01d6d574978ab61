"""Longer streams over wider domains: growing and recycled state, compared at the ends of steps."""

from __future__ import annotations

from random import Random

import pytest

from oracle.check import check
from property.cases import CHUNKS, Case, seeds, verify
from property.data import STREAMS, session
from property.plans import Plans


def long_case(seed: int, rows: int = 600) -> Case:
    """A few hundred rows, windows ten times as long."""
    rng = Random(seed)
    plans = Plans(rng, scale=10)
    sqls = tuple(plans.query(rng.choice((0, 1, 1, 2))) for _ in range(2))
    streams = plans.streams or {rng.choice(sorted(STREAMS))}
    return Case(sqls, session(rng, streams, plans.tables, rows, wide=True))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_long_streams(chunk: int) -> None:
    for seed in seeds(11, chunk, 60):
        verify("long", long_case(seed), _exact_at_ends, shrink=False)


def _exact_at_ends(subject: Case) -> None:
    check(list(subject.sqls), subject.scenario, every_instant=False)
