"""Rows as they come in the worst case: the answers stay right, and every row is accounted for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from faults.books import Books, Row, clear_stop, close, open_books, row
from penstock.errors import PenstockError

MOST = 2**63 - 1


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest) -> Iterator[Books]:
    made = open_books(request.param)
    yield made
    close(made.ps)


def rough(rng: random.Random, n: int) -> Row:
    """A row of batch `n`: hot keys, odd values, any order, late, without time."""
    floats = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 5e-324, 1.7e308, None, 1.5)
    ts: int | None = 20 * n + rng.randrange(20)
    fate = rng.random()
    if fate < 0.06:
        ts = None
    elif fate < 0.15 and ts is not None:
        ts -= 60
    return row(
        ts,
        k=7 if rng.random() < 0.6 else rng.choice([*range(4), None]),
        a=rng.choice([None, 0, 1, -1, 2**40, -(2**40), rng.randrange(9)]),
        x=rng.choice(floats),
        w=rng.choice([None, "", "a", "B", "ä\U0001f41f", "x" * 300, "\x00", "'"]),
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_rough_rows(books: Books, seed: int) -> None:
    rng = random.Random(seed)
    for n in range(14):
        rows = [rough(rng, n) for _ in range(25)]
        rows += rng.sample(rows, 5)  # delivered twice: two rows, as the contract says
        rng.shuffle(rows)
        books.push(rows)
        if n % 4 == 3:
            books.check()
    assert books.late
    assert books.quarantined
    books.check()


def test_a_row_of_the_year_9999_does_not_end_time(books: Books) -> None:
    books.ps.sql("CREATE STREAM t (k INT, ts TIMESTAMP) TIMESTAMP BY ts")
    counted = books.ps.query("SELECT count(*) AS n FROM t [RANGE 1 HOUR]")
    now = "2024-01-01 00:00:00"
    books.ps.push("t", [{"k": 1, "ts": now}])
    books.ps.push("t", [{"k": 2, "ts": "9999-12-31 23:59:59"}, {"k": 3, "ts": now}])
    assert counted.view().to_pylist() == [{"n": 2}]
    assert books.ps.quarantine("t").num_rows == 1
    books.push([row(5)])
    books.check()


def test_overflow_fails_its_query_only(books: Books) -> None:
    books.push([row(1, a=MOST), row(2, a=1, k=2)])
    books.check()
    books.push([row(3, a=MOST), row(40, a=5, k=3)])
    books.failed("groups")
    books.check()
    books.push([row(80)])
    books.check()


def test_an_empty_batch_and_none_at_all(books: Books) -> None:
    books.push([])
    books.push([row(1)])
    books.push([])
    books.check()


DRIFTED: dict[str, tuple[dict[str, Any], list[int]]] = {
    "text": ({"a": ["12", "many", "13"]}, [12, 13]),
    "wide": ({"k": [1, 2**40, 1], "a": [1, 2, 3]}, [1, 3]),
    "narrow": ({"a": pa.array([1, 2, 3], pa.int8())}, [1, 2, 3]),
    "turned": ({"ts": [30, 31, 32], "w": ["p", "q", None], "a": [1, 2, 3]}, [1, 2, 3]),
}
"""Columns of other types or in another order: their values, and `a` of the rows that fit."""


@pytest.mark.parametrize("kind", DRIFTED)
def test_columns_that_drift(books: Books, kind: str) -> None:
    """What fits is taken, and what does not is quarantined with its reason."""
    given, kept = DRIFTED[kind]
    books.push([row(1)])
    columns = {"k": [1] * 3, "x": [None] * 3, "w": [None] * 3, "ts": [30, 31, 32]} | given
    books.ps.push("r", pa.table(columns))
    whole = pa.table(columns).to_pylist()
    rows = [row(r["ts"], a=int(r["a"]), x=None, w=r["w"]) for r in whole if _fits(r, kept)]
    books.judge(rows)
    books.received += 3 - len(rows)
    books.quarantined += 3 - len(rows)
    books.check()
    assert books.ps.quarantine("r").num_rows == 3 - len(rows)
    books.push([row(60)])
    books.check()


def _fits(found: Row, kept: list[int]) -> bool:
    return str(found["a"]).isdigit() and int(found["a"]) in kept


def test_columns_that_nobody_declared(books: Books) -> None:
    books.push([row(1)])
    with pytest.raises(PenstockError) as caught:
        books.ps.push("r", [row(2) | {"new": 1}])
    assert clear_stop(caught.value).code == "PS-DATA-003"
    books.push([row(30)])
    books.check()
