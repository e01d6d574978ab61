"""All queries of a `query_many` at once tell what each of them would."""

from __future__ import annotations

from collections import Counter

import pytest

from property.cases import CHUNKS, seeds, tally
from property.crowds import Follower, Plan, seen
from property.test_many import TEMPLATES


def equal(one: Follower, two: Follower) -> None:
    """Both were told the same at every reading, and in all."""
    for at, (left, right) in enumerate(zip(one.read, two.read, strict=True)):
        assert left[0] == right[0], f"changes, reading {at} of {one.template} {one.plan.events}"
        assert left[1] == right[1], f"answers, reading {at} of {one.template} {one.plan.events}"
    for left, right in zip(one.heard, two.heard, strict=True):
        told = [sum(map(seen, tables), Counter()) for tables in (left, right)]
        assert told[0] == told[1], f"subscribers of {one.template} {one.plan.events}"


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("template", TEMPLATES)
def test_queries_tell_what_each_tells(template: str, shards: int | None) -> None:
    for seed in seeds(71, TEMPLATES.index(template), 4 * CHUNKS):
        plan = Plan.draw(seed)
        alone = Follower(template, plan, together=False, shards=shards).run()
        equal(Follower(template, plan, together=True, shards=shards).run(), alone)
        tally["queries at once"] += 1
