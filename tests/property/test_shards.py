"""Shards: random plans on 1, 2 and 4 shards of two levels equal the oracle at every instant."""

from __future__ import annotations

import pytest

from oracle.check import check
from property.cases import CHUNKS, case, seeds, verify


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_shards_do_not_matter(chunk: int) -> None:
    for seed in seeds(61, chunk, 240):
        shards = (1, 2, 4)[seed % 3]
        verify(
            "shards",
            case(seed, queries=3),
            lambda c, n=shards: check(list(c.sqls), c.scenario, shards=n),
        )
