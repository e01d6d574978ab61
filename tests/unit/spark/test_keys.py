"""Keys of shards land where Spark's hash says."""

from __future__ import annotations

import pytest

from penstock.spark.keys import murmur3, shard_keys


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 933211791), (1, -559580957), (42, 29417773), (-1, -1604776387)]
)
def test_murmur3_is_that_of_spark(value: int, expected: int) -> None:
    assert murmur3(value) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 8, 200])
def test_every_shard_has_its_own_partition(count: int) -> None:
    assert [murmur3(key) % count for key in shard_keys(count)] == list(range(count))
