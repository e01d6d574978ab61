"""The wall clock jumps, forth and back: nothing stands still for longer than it must."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from faults.books import Books, close, open_books, row
from penstock.session import clock as wall

_NOW = 1_704_067_200_000_000  # 2024-01-01
_SECOND = 1_000_000
_YEAR = 365 * 86_400 * _SECOND


class Clock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.now = _NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(wall, "now_us", made)
    return made


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Books]:
    made = open_books(request.param)
    made.ps.sql("CREATE STREAM t (k INT, ts TIMESTAMP) TIMESTAMP BY ts TICK 10 SECONDS")
    made.ps.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t [RANGE 1 MINUTE]")
    yield made
    close(made.ps)


def at(books: Books, clock: Clock, now: int) -> None:
    clock.now = now
    books.ps.flush()


def counted(books: Books) -> int:
    found = books.ps["n"].view().to_pylist()
    return int(found[0]["n"]) if found else 0


def arrive(books: Books, now: int) -> None:
    books.ps.push("t", pa.table({"k": [1], "ts": pa.array([now], pa.timestamp("us"))}))


def balanced(books: Books) -> dict[str, int]:
    counts: dict[str, int] = books.ps.stats()["streams"]["t"]
    assert counts["accepted"] + counts["late"] + counts["quarantined"] == counts["received"]
    return counts


def test_ticks_go_on_after_the_clock_went_back(books: Books, clock: Clock) -> None:
    at(books, clock, _NOW + _YEAR)  # wrong by a year, while nothing had come
    clock.now = _NOW
    arrive(books, _NOW)  # late: the ticks of the future have been
    assert balanced(books)["late"] + balanced(books)["accepted"] == 1
    books.push([row(1), row(40)])
    books.check()


def test_a_jump_back_delays_no_tick_for_longer_than_a_tick(books: Books, clock: Clock) -> None:
    clock.now = _NOW
    arrive(books, _NOW)
    assert counted(books) == 1
    at(books, clock, _NOW - _YEAR)  # and stays there
    assert counted(books) == 1
    at(books, clock, _NOW + 5 * _SECOND)
    assert counted(books) == 1
    at(books, clock, _NOW + 80 * _SECOND)  # silence: the row expires by the tick
    at(books, clock, _NOW + 91 * _SECOND)
    assert counted(books) == 0


def test_a_tick_after_a_jump_forth_and_back(books: Books, clock: Clock) -> None:
    """A short wrong time must not switch TICK off until the wrong time is reached."""
    arrive(books, _NOW)
    clock.now = _NOW + 100 * _SECOND
    books.push([row(1)])  # any call lets time pass
    clock.now = _NOW + 20 * _SECOND
    arrive(books, _NOW + 20 * _SECOND)  # late
    at(books, clock, _NOW + 30 * _SECOND)
    at(books, clock, _NOW + 120 * _SECOND)
    assert counted(books) == 0
    balanced(books)
    books.check()


def test_idle_streams_after_a_jump(books: Books, clock: Clock) -> None:
    ps = books.ps
    for name in ("u", "v"):
        ps.sql(f"CREATE STREAM {name} (k INT, ts BIGINT) TIMESTAMP BY ts IDLE AFTER 10 SECONDS")
    joined = ps.query("SELECT u.k FROM u [RANGE 50], v [RANGE 50] WHERE u.k = v.k")
    ps.push("u", [{"k": 1, "ts": 10}])
    ps.push("v", [{"k": 1, "ts": 10}])
    clock.now = _NOW - _YEAR
    ps.push("u", [{"k": 2, "ts": 20}])
    assert joined.view().num_rows == 1
    clock.now = _NOW - _YEAR + 5 * _SECOND
    ps.push("u", [{"k": 2, "ts": 200}])
    ps.flush()
    clock.now = _NOW - _YEAR + 16 * _SECOND  # v was silent for longer than 10 s of any clock
    ps.push("u", [{"k": 2, "ts": 201}])
    ps.flush()
    assert joined.view().num_rows == 0
