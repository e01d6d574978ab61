"""A block of changes (`wire.pack_changes`) as the columns of a changelog.

`_seq` is (place of the block in the batch, row in the block): within a batch and a template no two
changes have the same, and a batch that is run again numbers them as before.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.delta import BEGINNING, I64

CHANGE_TYPES = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
META = ("_change_type", "_time", "_batch", "_seq")
"""Columns before the query's own; a query's name comes before them."""


def block_table(
    data: pa.RecordBatch,
    order: int,
    number: int,
    names: tuple[str, ...],
    unit_time: bool,
    rows: I64 | None = None,
) -> pa.Table:
    """A block of changes (or some rows of it) as a changelog, but for the query's name."""
    if rows is None:
        rows = np.arange(data.num_rows)
    else:
        data = data.take(pa.array(rows))
    times = numbers(data, "_time")
    time: pa.Array = pa.array(times, mask=times == BEGINNING)
    if not unit_time:
        time = time.cast(pa.timestamp("us"))
    kind = pa.DictionaryArray.from_arrays(data.column("_kind"), CHANGE_TYPES)
    seq = (np.int64(order) << 32) + rows
    meta = [kind, time, pa.array(np.full(len(rows), number)), pa.array(seq)]
    return pa.Table.from_arrays([*meta, *own_columns(data)], names=[*META, *names])


def own_columns(data: pa.RecordBatch) -> list[pa.Array]:
    """The query's own columns of a block."""
    columns: list[pa.Array] = data.columns[3:]
    return columns


def numbers(data: pa.RecordBatch, name: str) -> I64:
    """A column of a block as NumPy."""
    return np.asarray(data.column(name).to_numpy(zero_copy_only=False))
