"""Routing of rows to shards, for Arrow batches and for rows of the engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.arrays import I64, Bool
from penstock.kernels import routing as k
from penstock.optimizer.distribution import Spread
from penstock.schema import Schema
from penstock.state.arena import Arena
from penstock.state.convert import fill_column
from penstock.state.strings import StringTable, utf8_buffers
from penstock.types import SqlType

_NULL = 0x6E756C6C  # the word of a NULL, whatever its column holds


def arrow_shards(batch: pa.RecordBatch, schema: Schema, spread: Spread, count: int) -> I64:
    """The shard of each row of a stream's batch (columns by name), for "hash" and "any"."""
    n = batch.num_rows
    if spread.kind == "any":
        return anywhere(n, count)
    hashes = np.zeros(n, np.uint64)
    for c in spread.columns:
        field = schema[c]
        k.add_words(hashes, _arrow_words(batch.column(field.name), field.type))
    return k.shards_of(hashes, count)


def row_shards(rows: I64, schema: Schema, columns: tuple[int, ...], strings: StringTable,
               count: int) -> I64:  # fmt: skip
    """The shard of each of the engine's rows (column-major) by hash of columns."""
    hashes = np.zeros(rows.shape[1], np.uint64)
    for c in columns:
        words = rows[1 + c]
        if schema[c].type.is_string:
            codes, places = np.unique(words, return_inverse=True)
            words = _string_words(strings.decode(codes))[places]
        null = (rows[0] >> c) & 1 != 0
        k.add_words(hashes, np.where(null, _NULL, words) if null.any() else words)
    return k.shards_of(hashes, count)


def anywhere(n: int, count: int) -> I64:
    """Rows in as many runs as there are shards."""
    return np.arange(n) * count // max(n, 1)


def runs(n: int, count: int) -> list[tuple[int, int]]:
    """Where the run of each shard starts and stops in `anywhere`."""
    bounds = [-(-shard * n // count) for shard in range(count + 1)]
    return list(pairwise(bounds))


def split(shards: I64, count: int) -> list[I64]:
    """Positions of the rows of each shard, in order."""
    order, starts = k.group_by_shard(shards, count)
    return [order[starts[s] : starts[s + 1]] for s in range(count)]


def _arrow_words(array: pa.Array, type_: SqlType) -> I64:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if type_.is_string:
        words = _text_words(array)
        null: Bool | None = array.is_null().to_numpy(zero_copy_only=False)
    else:
        words = np.empty(len(array), np.int64)
        null = fill_column(array, type_, _NO_STRINGS, words)
    if null is not None and null.any():
        words[null] = _NULL
    return words


def _text_words(array: pa.Array) -> I64:
    if pa.types.is_dictionary(array.type):
        known = _string_words(array.dictionary)
        places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return known[places] if len(known) else np.zeros(len(array), np.int64)
    return _string_words(array)


def _string_words(array: pa.Array) -> I64:
    offsets, data, _ = utf8_buffers(array)
    return k.hash_strings(offsets, data)


_NO_STRINGS = StringTable(Arena().scope("none"))  # no column that gets here is a string
