"""Arrivals: paces, when event time is reached, and when watermarks have passed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.arrays import BEGINNING
from penstock.pipeline.arrivals import (
    SECOND,
    Arrivals,
    AtRate,
    AtRates,
    AtSpeed,
    InBatches,
    Input,
    first_rows,
)
from penstock.schema import Field, Schema
from penstock.sql.catalog import StreamDef
from penstock.types import Kind, SqlType

MS = SECOND // 1000


def stream(name: str, delay: int = 0, kind: Kind = Kind.BIGINT) -> StreamDef:
    schema = Schema((Field("k", SqlType(Kind.INT)), Field("ts", SqlType(kind))))
    return StreamDef(name, schema, "ts", delay)


def given(name: str, *ts: int | None, delay: int = 0) -> Input:
    table = pa.table({"k": pa.array([0] * len(ts), pa.int32()), "ts": pa.array(ts, pa.int64())})
    return Input.of(stream(name, delay), table)


def test_a_front_is_the_largest_time_so_far_of_rows_that_have_one() -> None:
    assert given("r", None, 5, 3, None, 9, 1 << 62).front.tolist() == [BEGINNING, 5, 5, 5, 9, 9]
    late = Input.of(stream("r"), given("r", 5, 3, 100, 8).rows, latest=50)
    assert late.front.tolist() == [5, 5, 5, 8]
    assert late.first(2).front.tolist() == [5, 5]


def test_the_first_rows_are_those_of_the_earliest_fronts() -> None:
    chosen = first_rows([given("r", 1, 5, 4, 9), given("s", 2, 5, 7)], 4)
    assert [i.front.tolist() for i in chosen] == [[1, 5, 5], [2]]
    assert [i.rows["ts"].to_pylist() for i in chosen] == [[1, 5, 4], [2]]


def test_one_rate_for_all_streams_follows_event_time() -> None:
    arrivals = Arrivals.of([given("r", 1, 5, 9), given("s", 2, 7)], AtRate(10))
    moments = {name: (at // MS).tolist() for name, at in arrivals.moments.items()}
    assert moments == {"r": [0, 200, 400], "s": [100, 300]}
    assert (arrivals.rows, arrivals.end) == (5, 400 * MS)


def test_a_rate_for_each_stream() -> None:
    arrivals = Arrivals.of([given("r", 1, 5, 9), given("s", 2, 7)], AtRates({"r": 2, "s": 10}))
    moments = {name: (at // MS).tolist() for name, at in arrivals.moments.items()}
    assert moments == {"r": [0, 500, 1000], "s": [0, 100]}


def test_event_time_is_reached_with_a_row_at_it_or_later() -> None:
    arrivals = Arrivals.of([given("r", 1, 5, 9), given("s", 2, 7)], AtRate(10))
    times = np.array([1, 4, 6, 8])
    assert (arrivals.reached({"r", "s"}, times) // MS).tolist() == [0, 200, 300, 400]
    assert (arrivals.reached({"r"}, times) // MS).tolist() == [0, 200, 400, 400]


def test_watermarks_have_passed_when_all_streams_are_beyond_their_delay() -> None:
    arrivals = Arrivals.of([given("r", 1, 5, 9, delay=3), given("s", 2, 7)], AtRate(10))
    times = np.array([1, 2, 5])
    assert (arrivals.passed({"r", "s"}, times) // MS).tolist() == [200, 200, 400]


def test_at_a_speed_event_time_passes_by_itself() -> None:
    r = given("r", 2_000_000, 5_000_000, 4_000_000)
    arrivals = Arrivals.of([r], AtSpeed(10))
    assert (arrivals.moments["r"] // MS).tolist() == [0, 300, 300]
    times = np.array([1_000_000, 3_000_000, 9_000_000])
    assert (arrivals.reached({"r"}, times) // MS).tolist() == [0, 100, 700]


def test_batches_are_an_hour_apart() -> None:
    arrivals = Arrivals.of([given("r", 1, 5, 9), given("s", 2, 7)], InBatches(2))
    hours = {name: (at // (3600 * SECOND)).tolist() for name, at in arrivals.moments.items()}
    assert hours == {"r": [0, 1, 2], "s": [0, 1]}
