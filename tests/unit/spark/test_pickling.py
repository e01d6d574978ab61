"""Pickles of functions and of slices."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.shards import wire
from penstock.spark import pickling

BATCH = pa.record_batch({"a": pa.array(range(100_000)), "s": pa.array(["x"] * 100_000)})


@pytest.mark.parametrize("length", [0, 3])
def test_a_slice_is_as_small_as_it_looks(length: int) -> None:
    for value in (BATCH.slice(5, length), pa.Table.from_batches([BATCH]).slice(5, length)):
        data = pickling.dumps({"rows": (value,)})
        assert len(data) < 2_000
        assert wire.loads(data) == {"rows": (value,)}


def test_a_table_of_several_batches_comes_back() -> None:
    table = pa.Table.from_batches([BATCH.slice(0, 2), BATCH.slice(7, 3)])
    assert wire.loads(pickling.dumps(table)).equals(table)


def test_functions_come_by_value() -> None:
    more = 2
    assert wire.loads(pickling.dumps(lambda x: x + more))(3) == 5
