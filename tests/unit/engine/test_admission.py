"""Admission: accepted + late + quarantined = received, whatever comes."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.arrays import BEGINNING
from penstock.engine.admission import admit
from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    decimal,
)

SCHEMA = Schema(
    (
        Field("k", INT),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("flag", BOOLEAN),
        Field("d", decimal(6, 2)),
        Field("ts", BIGINT),
    )
)


def run(data, watermark=BEGINNING, delay=0, ahead=None, wall=0, schema=SCHEMA):
    got = admit(data, schema, "ts", delay, ahead, watermark, wall)
    assert got.accepted.num_rows + got.late.num_rows + got.quarantined.num_rows == got.received
    return got


def test_good_rows_pass_and_move_the_watermark():
    got = run([{"k": 1, "x": 1.5, "s": "a", "flag": True, "ts": 10}, {"k": None, "ts": 7}], delay=2)
    assert got.ts.tolist() == [10, 7]
    assert got.watermark == 8
    assert got.accepted.column("s").to_pylist() == ["a", None]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"k": "abc", "ts": 1}, "k is not a valid INT"),
        ({"k": 2**31, "ts": 1}, "k is not a valid INT"),
        ({"k": 1.5, "ts": 1}, "k is not a valid INT"),
        ({"k": True, "ts": 1}, "k is not a valid INT"),
        ({"x": "zero", "ts": 1}, "x is not a valid DOUBLE"),
        ({"flag": 3, "ts": 1}, "flag is not a valid BOOLEAN"),
        ({"d": "12345.67", "ts": 1}, "d is not a valid DECIMAL(6,2)"),
        ({"k": 1}, "ts is NULL"),
        ({"k": 1, "ts": 2**63}, "ts is not a valid BIGINT"),
    ],
)
def test_a_bad_row_is_quarantined_alone(row, reason):
    got = run([{"k": 1, "ts": 3}, row, {"k": 2, "ts": 4}])
    assert got.accepted.column("k").to_pylist() == [1, 2]
    assert got.quarantined.column("_reason").to_pylist() == [reason]
    assert got.watermark == 4


def test_text_columns_are_read_as_their_types():
    table = pa.table({"k": ["1", "x", "3"], "x": ["1e3", "2", "nan"], "ts": ["5", "6", "7"]})
    got = run(table)
    assert got.accepted.column("k").to_pylist() == [1, 3]
    assert got.quarantined.num_rows == 1


def test_times_are_text_with_and_without_a_zone():
    schema = Schema((Field("k", INT), Field("ts", TIMESTAMP)))
    times = ["2024-05-01T12:00:00Z", "2024-05-01T14:00:00.5+02:00", "2024-05-01 12:00:01.123456789"]
    times += ["2024-05-01T12:00:02.1234567Z", "soon", "1714564800000"]
    got = run(pa.table({"k": range(6), "ts": times}), schema=schema)
    found = [str(at)[17:] for at in got.accepted.column("ts").to_pylist()]
    assert found == ["00", "00.500000", "01.123456", "02.123456"]
    assert got.quarantined.num_rows == 2


def test_late_rows_are_judged_by_the_watermark_at_the_start():
    got = run([{"k": 1, "ts": 9}, {"k": 2, "ts": 10}, {"k": 3, "ts": 30}], watermark=10)
    assert got.late.column("k").to_pylist() == [1]
    assert got.late.column("_watermark").to_pylist() == [10]
    assert got.watermark == 30


def test_future_rows_move_no_clock():
    schema = Schema((Field("k", INT), Field("ts", TIMESTAMP)))
    now = 1_700_000_000_000_000
    rows = [{"k": 1, "ts": dt.datetime(2023, 11, 14)}, {"k": 2, "ts": dt.datetime(2050, 1, 1)}]
    got = run(rows, ahead=86_400_000_000, wall=now, schema=schema)
    assert got.accepted.column("k").to_pylist() == [1]
    assert "MAX AHEAD" in got.quarantined.column("_reason")[0].as_py()
    assert got.watermark < now


def test_frames_tables_batches_and_nothing_at_all():
    frame = pd.DataFrame({"k": [1], "ts": [1]})
    assert run(frame).accepted.num_rows == 1
    assert run(pa.RecordBatch.from_pydict({"k": [1], "ts": [1]})).accepted.num_rows == 1
    assert run([]).received == 0
    assert (
        run(pa.table({"k": pa.array([], pa.int32()), "ts": pa.array([], pa.int64())})).received == 0
    )


def test_whole_batches_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="unknown column nope") as error:
        run([{"nope": 1, "ts": 1}])
    assert error.value.code == "PS-DATA-003"
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["k", "k"])
    with pytest.raises(DataError, match="is given twice"):
        run(doubled)
    with pytest.raises(DataError, match="cannot read rows"):
        run(42)


def test_malformed_text_is_kept_for_the_reader():
    got = run([{"_malformed": "{broken", "ts": None}, {"k": 1, "ts": 1}])
    assert got.quarantined.column("_reason").to_pylist() == ["malformed row"]
    assert got.accepted.num_rows == 1


def test_big_batch_with_one_bad_value():
    values = [str(i) for i in range(5000)]
    values[1234] = "oops"
    got = run(pa.table({"k": values, "ts": np.arange(5000)}))
    assert got.quarantined.num_rows == 1
    assert got.accepted.num_rows == 4999


def test_event_times_leave_room_for_windows():
    got = run([{"k": 1, "ts": 2**61 + 1}, {"k": 2, "ts": 2**61}, {"k": 3, "ts": -(2**61) - 1}])
    assert got.accepted.column("k").to_pylist() == [2]
    assert set(got.quarantined["_reason"].to_pylist()) == {"ts is outside the range of event time"}


@pytest.mark.parametrize("bad", [1.505, "1.505", 1e-9])
def test_digits_beyond_the_scale_of_a_decimal_are_not_cut(bad):
    got = run([{"d": 1.15, "ts": 1}, {"d": bad, "ts": 2}, {"d": "-2.50", "ts": 3}])
    assert [str(d) for d in got.accepted.column("d").to_pylist()] == ["1.15", "-2.50"]
    assert got.quarantined["_reason"].to_pylist() == ["d is not a valid DECIMAL(6,2)"]


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_columns_of_floats_become_decimals_or_are_kept_out(type_):
    data = pa.table({"d": pa.array([0.1, 2.675, None, 1234.56], type_), "ts": [1, 2, 3, 4]})
    got = run(data)
    assert got.ts.tolist() == [1, 3, 4]
    assert [str(d) for d in got.accepted.column("d").to_pylist()] == ["0.10", "None", "1234.56"]


def test_integers_are_decimals_however_they_come():
    for ints in (pa.array([1, 20000, None]), pa.array([1, 20000, None], pa.uint16())):
        got = run(pa.table({"d": ints, "ts": [1, 2, 3]}))
        assert got.accepted.column("d").to_pylist() == [1, None]
        assert got.quarantined.column("_reason").to_pylist() == ["d is not a valid DECIMAL(6,2)"]


def test_what_a_narrower_type_would_change_is_quarantined():
    schema = Schema((Field("f", FLOAT), Field("day", DATE), Field("ts", BIGINT)))
    noon, day = dt.datetime(2024, 2, 29, 12), dt.datetime(2024, 2, 29)
    columns = {"f": [0.5, 1e300, 0.1, None], "day": [day, day, noon, None], "ts": [1, 2, 3, 4]}
    for rows in (pa.table(columns), pa.table(columns).to_pylist(), pd.DataFrame(columns)):
        got = run(rows, schema=schema)
        assert got.ts.tolist() == [1, 4]
        assert got.quarantined.column("_reason").to_pylist() == [
            "f is not a valid FLOAT",
            "day is not a valid DATE",
        ]


def test_text_that_is_no_unicode_is_quarantined():
    got = run([{"s": "a", "ts": 1}, {"s": "\ud800", "ts": 2}])
    assert got.ts.tolist() == [1]
    assert got.quarantined.column("_reason").to_pylist() == ["s is not a valid STRING"]


def test_times_in_dicts_may_have_a_zone():
    schema = Schema((Field("at", TIMESTAMP), Field("ts", BIGINT)))
    got = run([{"at": "2020-01-01T00:00:00+02:00", "ts": 1}, {"at": 5, "ts": 2}], schema=schema)
    assert got.accepted.column("at").to_pylist()[0] == dt.datetime(2019, 12, 31, 22)


def test_a_frame_is_judged_row_by_row():
    got = run(pd.DataFrame({"k": [1, "x", None], "s": ["a", 5, None], "ts": [1, 2, 3]}))
    assert got.ts.tolist() == [1, 3]
    with pytest.raises(DataError, match="k is given twice"):
        run(pd.DataFrame([[1, 2, 3]], columns=["k", "k", "ts"]))
