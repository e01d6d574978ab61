"""Narrow integers come back as they were, whatever their type, range, NULLs or place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.shards import narrow, wire
from penstock.shards.narrow import narrowed, widened

N = 2000
TYPES = (pa.int64(), pa.int32(), pa.timestamp("us"), pa.date32())
SPANS = (0, 1, 255, 256, 65_535, 65_536, 2**31 - 1)


def column(type_: pa.DataType, low: int, span: int, nulls: float, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    width = np.int64 if type_.bit_width == 64 else np.int32
    values = rng.integers(low, low + span, N, width, endpoint=True)
    values[:2] = low, low + span
    null = rng.random(N) < nulls
    null[:2] = nulls == 1
    return pa.array(values, mask=null).view(type_)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("span", SPANS)
def test_columns_come_back(type_: pa.DataType, span: int) -> None:
    lows = (0, -(2**31)) if type_.bit_width == 32 else (0, 7, -(2**63), 2**63 - 1 - span)
    columns = {
        f"{low} {nulls}": column(type_, low, span, nulls, n)
        for n, low in enumerate(lows)
        for nulls in (0.0, 0.3, 1.0)
    }
    batch = pa.record_batch(columns)
    for part in (batch, batch.slice(3), batch.slice(500, 1500)):
        made = narrowed(part)
        assert widened(made).equals(part)
        assert wire.unpack_batch(wire.pack_batch(part)).equals(part)
    size = 1 if span < 256 else 2 if span < 65_536 else 4
    assert {f.type.bit_width // 8 for f in narrowed(batch).schema} <= {1, size}


def test_what_spans_much_stays() -> None:
    wide = pa.array([-(2**63), *[0] * N, 2**63 - 1])
    texts = pa.array([str(n) for n in range(N + 2)])
    batch = pa.record_batch({"i": wide, "s": texts, "x": pa.array(np.arange(N + 2.0))})
    assert narrowed(batch).schema == batch.schema
    assert wire.unpack_batch(wire.pack_batch(batch)).equals(batch)


@pytest.mark.parametrize("rows", [0, 1, narrow._FEW - 1])
def test_few_rows_stay(rows: int) -> None:
    batch = pa.record_batch({"i": pa.array(range(rows), pa.int64())})
    assert narrowed(batch) is batch
    assert wire.unpack_batch(wire.pack_batch(batch)).equals(batch)


def test_foreign_metadata_is_no_order() -> None:
    field = pa.field("i", pa.int64(), metadata={"type": "int32"})
    batch = pa.record_batch([pa.array([1, 2])], schema=pa.schema([field]))
    assert widened(batch).equals(batch)
