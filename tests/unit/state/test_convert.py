"""Arrow to rows and back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock import types as t
from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.convert import to_arrow, to_rows
from penstock.state.strings import StringTable

SCHEMA = Schema(
    (
        Field("b", t.BOOLEAN), Field("i", t.INT), Field("l", t.BIGINT), Field("f", t.FLOAT),
        Field("d", t.DOUBLE), Field("m", t.decimal(18, 4)), Field("s", t.STRING),
        Field("day", t.DATE), Field("ts", t.TIMESTAMP),
    )
)  # fmt: skip
BIG = np.iinfo(np.int64).max
COLUMNS: list[list[object]] = [
    [True, False, None, True],
    [2**31 - 1, -(2**31), None, 0],
    [BIG, -BIG - 1, None, 0],
    [0.5, -3.0, None, float("inf")],
    [0.1, -1e308, None, float("-inf")],
    [Decimal("99999999999999.9999"), Decimal("-0.0001"), None, Decimal("-99999999999999.9999")],
    ["é", "", None, "a"],
    [dt.date(1900, 1, 1), dt.date(2262, 1, 1), None, dt.date(1970, 1, 1)],
    [dt.datetime(1900, 1, 1), dt.datetime(2500, 1, 1, 1, 2, 3, 4), None, dt.datetime(1970, 1, 1)],
]


@pytest.fixture
def strings() -> StringTable:
    return StringTable(Arena().scope("strings"))


def batch() -> pa.RecordBatch:
    schema = SCHEMA.arrow()
    arrays = [pa.array(c, f.type) for c, f in zip(COLUMNS, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def test_round_trip(strings: StringTable) -> None:
    rows = to_rows(batch(), SCHEMA, strings)
    assert rows.shape == (10, 4)
    assert rows[:, 2].tolist() == [0b111111111] + [0] * 9
    arrays = to_arrow(rows, SCHEMA, strings)
    assert [a.type for a in arrays] == [f.type for f in SCHEMA.arrow()]
    assert [a.to_pylist() for a in arrays] == COLUMNS
    for array in arrays:
        array.validate(full=True)


def test_slices_and_chunks(strings: StringTable) -> None:
    whole = to_rows(batch(), SCHEMA, strings)
    assert (to_rows(batch().slice(1, 2), SCHEMA, strings) == whole[:, 1:3]).all()
    table = pa.Table.from_batches([batch(), batch().slice(2), batch().slice(0, 0)])
    assert (to_rows(table, SCHEMA, strings) == np.hstack([whole, whole[:, 2:]])).all()


def test_long_slice_of_booleans_and_decimals(strings: StringTable) -> None:
    schema = Schema((Field("b", t.BOOLEAN), Field("m", t.decimal(9, 2))))
    values = [i % 3 == 0 for i in range(100)]
    amounts = [Decimal(i - 50) / 100 for i in range(100)]
    source = pa.record_batch(
        [pa.array(values), pa.array(amounts, pa.decimal128(9, 2))], names=["b", "m"]
    )
    rows = to_rows(source.slice(13, 70), schema, strings)
    assert rows[1].tolist() == values[13:83]
    assert rows[2].tolist() == [i - 50 for i in range(13, 83)]


def test_floats_are_canonical(strings: StringTable) -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    schema = Schema((Field("d", t.DOUBLE), Field("f", t.FLOAT)))
    values = np.array([0.0, -0.0, *odd])
    source = pa.record_batch([pa.array(values), pa.array(values, pa.float32())], names=["d", "f"])
    rows = to_rows(source, schema, strings)
    assert rows[1, 0] == rows[1, 1] == 0
    assert rows[1, 2] == rows[1, 3] == np.array([np.nan]).view(np.int64)[0]
    assert (rows[1] == rows[2]).all()


def test_columns_are_cast_when_nothing_is_lost(strings: StringTable) -> None:
    schema = Schema((Field("i", t.INT), Field("s", t.STRING), Field("ts", t.TIMESTAMP)))
    source = pa.record_batch(
        [
            pa.array([1, 2]),
            pa.array(["a", None]).dictionary_encode(),
            pa.array([1, 2], pa.timestamp("ms")),
        ],
        names=["i", "s", "ts"],
    )
    arrays = to_arrow(to_rows(source, schema, strings), schema, strings)
    assert arrays[0].to_pylist() == [1, 2]
    assert arrays[1].to_pylist() == ["a", None]
    assert arrays[2].cast(pa.int64()).to_pylist() == [1000, 2000]
    with pytest.raises(DataError):
        to_rows(pa.record_batch([pa.array([1 << 40])], names=["i"]), schema.select((0,)), strings)
    with pytest.raises(DataError):
        to_rows(source, schema.select((0,)), strings)


def test_null_inside_a_dictionary(strings: StringTable) -> None:
    schema = Schema((Field("s", t.STRING),))
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([None, "x"]))
    rows = to_rows(pa.record_batch([array], names=["s"]), schema, strings)
    assert rows[0].tolist() == [1, 0, 1]


def test_int_is_checked_on_the_way_out(strings: StringTable) -> None:
    schema = Schema((Field("i", t.INT),))
    with pytest.raises(DataError):
        to_arrow(np.array([[0], [1 << 31]]), schema, strings)


def test_no_rows(strings: StringTable) -> None:
    rows = to_rows(batch().slice(0, 0), SCHEMA, strings)
    assert rows.shape == (10, 0)
    assert [len(a) for a in to_arrow(rows, SCHEMA, strings)] == [0] * 9


def test_words_are_not_copied_on_the_way_out(strings: StringTable) -> None:
    rows = np.zeros((2, 3), np.int64)
    (array,) = to_arrow(rows, Schema((Field("l", t.BIGINT),)), strings)
    assert array.buffers()[1].address == rows[1].ctypes.data
