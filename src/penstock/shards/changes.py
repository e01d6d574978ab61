"""A block of changes (`wire.pack_changes`) as the columns of a changelog.

`_seq` is (place of the block in the batch, row in the block). It is unique within a batch and a
template, and a repeated batch has the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BEGINNING, I32, I64
from penstock.delta import QuerySets, Sets
from penstock.kernels.prefix_sets import copy_lists
from penstock.state.prefixes import small_items

CHANGE_TYPES = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
META = ("_change_type", "_time", "_batch", "_seq")
"""Columns before the query's own; a query's name comes before them."""
NAMES = pa.list_(pa.string())
"""Type of the names of the queries that a row belongs to (EMIT … PER ROW), in files."""
NUMBERED_NAMES = pa.list_(pa.dictionary(pa.int32(), pa.string()))
"""The same for readers of a session, which pay for a number per name."""
_MOST_NAMES, _MOST_BYTES = 1 << 30, 1 << 30
"""Of names in one chunk of a column: Arrow counts them, and the bytes of texts, with 31 bits."""


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


def owners_of(data: pa.RecordBatch) -> tuple[I64, Sets | None]:
    """The query of each row of a block; with sets of queries, which set it is."""
    column = data.column("_qid")
    if not pa.types.is_dictionary(column.type):
        return numbers(data, "_qid"), None
    lists = column.dictionary
    offsets = lists.offsets.to_numpy().astype(np.int64)
    items = lists.flatten().to_numpy().astype(np.int64)
    return column.indices.to_numpy().astype(np.int64), Sets(offsets - offsets[0], items)


def numbered_lists(who: I64, sets: QuerySets, names: pa.Array) -> pa.ChunkedArray:
    """The names of the members of each row's set; all lists share `names`."""
    offsets, items = small_items(sets)
    sizes = np.cumsum(np.diff(offsets)[who])
    cuts = 1 + np.flatnonzero(np.diff(sizes // _MOST_NAMES))
    names = names.cast(pa.string())
    parts = [_numbered(*copy_lists(part, offsets, items), names) for part in np.split(who, cuts)]
    return pa.chunked_array(parts, NUMBERED_NAMES)


def _numbered(lists: I32, items: I32, names: pa.Array) -> pa.Array:
    listed = pa.DictionaryArray.from_arrays(pa.array(items), names, safe=False)
    return pa.ListArray.from_arrays(pa.array(lists), listed)


def in_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with the names themselves, if it has numbers of names."""
    if column.type != NUMBERED_NAMES:
        return column
    parts = [part.cast(NAMES) for chunk in column.chunks for part in _small_parts(chunk)]
    return pa.chunked_array(parts, NAMES)


def _small_parts(lists: pa.Array) -> Iterator[pa.Array]:
    """Parts of a column; the names of each fit into one array of texts, if it has several lists."""
    names, half = lists.flatten(), len(lists) // 2
    longest = pc.max(pc.binary_length(names.dictionary)).as_py() or 0
    if not half or len(names) * longest <= _MOST_BYTES:
        yield lists
    else:
        yield from _small_parts(lists[:half])
        yield from _small_parts(lists[half:])
