"""Several threads call a session at once, in any order, while rows come and its ticker ticks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as some

import penstock
from oracle.running import CALLS, R, Running, rows_of_file

FILES = 8
PLAN = some.lists(some.sampled_from(CALLS), min_size=4, max_size=14)


@pytest.mark.parametrize("shards", [None, 2])
@settings(phases=[Phase.explicit, Phase.generate], max_examples=20)  # threads do not shrink
@given(plans=some.lists(PLAN, min_size=2, max_size=3), seed=some.integers(0, 1 << 30))
def test_answers_while_others_call_are_those_of_a_batch(
    shards: int | None, plans: list[list[str]], seed: int
) -> None:
    with penstock.connect(runner="inprocess", shards=shards) as session:
        running = Running(session)
        session.start()

        def feed() -> None:
            for n in range(FILES):
                session.push("r", pa.Table.from_pylist(rows_of_file(n), schema=R))

        running.call_all(plans, seed, feed)
        running.check(FILES)
