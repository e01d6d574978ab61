"""Functions of the user's that raise, hang or return nonsense: only their query suffers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from faults.books import Books, clear_stop, close, open_books, row
from penstock.errors import PenstockError

_RELEASED = threading.Event()


def raises(values: Any) -> Any:
    raise RuntimeError("no")


def hangs(values: Any) -> Any:
    _RELEASED.wait(20)
    return values


def shorter(values: Any) -> Any:
    return values.slice(1)


def longer(values: Any) -> Any:
    return pa.concat_arrays([values, values])


def scalar(values: Any) -> Any:
    return 7


def nothing(values: Any) -> Any:
    return None


def texts(values: Any) -> Any:
    return pa.array(["x"] * len(values))


def exits(values: Any) -> Any:
    raise SystemExit(3)


def interrupts(values: Any) -> Any:
    raise KeyboardInterrupt


def recurses(values: Any) -> Any:
    return recurses(values)


BROKEN = [
    raises, hangs, shorter, longer, scalar, nothing, texts, exits, interrupts, recurses
]  # fmt: skip


def doubled(values: Any) -> Any:
    return pc.multiply(values, 2)


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest) -> Iterator[Books]:
    made = open_books(request.param)
    yield made
    close(made.ps)


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_a_broken_function_fails_its_query_only(
    books: Books, function: Callable[[Any], Any]
) -> None:
    _RELEASED.clear()
    books.ps.register_udf("broken", function, ["BIGINT"], "BIGINT", timeout_s=0.1)
    books.ps.register_udf("good", doubled, ["BIGINT"], "BIGINT")
    bad = books.ps.query("SELECT broken(a) AS y FROM r [RANGE 100]")
    good = books.ps.query("SELECT good(a) AS y FROM r [RANGE 100]")
    books.push([row(1, a=3), row(30, a=4)])
    _RELEASED.set()
    books.check()
    assert bad.status == "failed"
    for read in (bad.changes, bad.view):
        with pytest.raises(PenstockError) as caught:
            read()
        assert clear_stop(caught.value).code == "PS-RUN-001"
    assert good.view().to_pylist() == [{"y": 6}]
    bad.drop()
    books.push([row(60, a=5)])
    books.check()


@pytest.mark.parametrize("function", [raises, recurses, exits], ids=lambda f: f.__name__)
def test_a_broken_subscriber_starves_nobody(books: Books, function: Callable[[Any], Any]) -> None:
    heard: list[int] = []
    books.ps["groups"].subscribe(function)
    books.ps["groups"].subscribe(lambda table: heard.append(table.num_rows))
    books.ps["kinds"].subscribe(lambda table: heard.append(table.num_rows))
    with pytest.raises((PenstockError, SystemExit)) as caught:
        books.push([row(1), row(30, k=2)])
    if function is not exits:
        assert clear_stop(caught.value).code == "PS-RUN-002"
    assert len(heard) == 2
    books.check()
