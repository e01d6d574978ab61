"""Batches of a changelog: what one query reads of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.session.changelog import ChangeBatch


@pytest.mark.parametrize("rows", [40, 4_000])  # scanned, and sorted by query
def test_a_query_gets_its_own_rows_in_order(rows: int) -> None:
    who = np.random.default_rng(3).integers(0, 20, rows)
    chunks = [pa.table({"n": np.arange(rows)[at::2]}) for at in (0, 1)]
    table = pa.concat_tables(chunks)
    order = table.column("n").to_numpy()
    batch = ChangeBatch(1, who, table)
    for one in (7, 0, 19, 21):
        assert batch.of(one).column("n").to_pylist() == order[who == one].tolist()


def test_who_keeps_a_few_rows_does_not_keep_all() -> None:
    who, table = np.arange(10_000) % 1_000, pa.table({"n": np.arange(10_000)})
    few = ChangeBatch(1, who, table).of(5)
    assert few.num_rows == 10
    assert few.get_total_buffer_size() < 1_000
