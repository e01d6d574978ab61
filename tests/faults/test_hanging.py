"""A subscriber that does not return: Ctrl-C ends the wait, and what others have is right.

The rows of the batch were applied: sinks and other subscribers have them, and so has the answer.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from faults.books import Books, clear_stop, close, open_books, row
from faults.test_sinks import changes, written
from penstock.errors import PenstockError
from penstock.session import ticker

_RELEASED = threading.Event()


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also if the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest) -> Iterator[Books]:
    made = open_books(request.param)
    _RELEASED.clear()
    yield made
    _RELEASED.set()
    close(made.ps)


def hangs(changes: Any) -> None:
    """Wait, and be interrupted while it does."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    _RELEASED.wait(60)


def leaves(changes: Any) -> None:
    sys.exit(3)


@pytest.mark.parametrize(
    ("function", "error"),
    [(hangs, KeyboardInterrupt), (leaves, SystemExit)],
    ids=["hangs", "exits"],
)
def test_an_interrupted_subscriber_takes_nothing_from_others(
    books: Books, tmp_path: Path, function: Callable[[Any], None], error: type[BaseException]
) -> None:
    heard: list[int] = []
    books.ps.sql(f"CREATE SINK out FROM groups INTO json OPTIONS (path '{tmp_path}')")
    failing = books.ps.query("SELECT CAST(w AS INT) AS n FROM r [RANGE 100]")
    books.ps["groups"].subscribe(function)
    books.ps["groups"].subscribe(lambda table: heard.append(table.num_rows))
    books.ps["kinds"].subscribe(lambda table: heard.append(table.num_rows))
    with pytest.raises(error):
        books.push([*changes(0), row(60)])
    assert len(heard) == 2
    assert failing.status == "failed"
    books.check()
    assert written(tmp_path) == books.answers()["groups"]
    with pytest.raises(error):
        books.push(changes(3))
    books.check()
    books.ps.close()
    assert written(tmp_path) == books.answers()["groups"]


def test_a_subscriber_that_hangs_in_the_background_is_named(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "_PATIENCE", 0.2)
    called = threading.Event()

    def waits(changes: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            called.set()
            _RELEASED.wait(60)

    books.ps.sql("CREATE STREAM t (ts TIMESTAMP) TIMESTAMP BY ts TICK 1 SECOND")
    query = books.ps.query("SELECT count(*) AS n FROM t [RANGE 1 SECOND]")
    books.push(changes(0))
    books.ps.push("t", [{"ts": datetime.now()}])
    query.subscribe(waits)
    books.ps.start()
    assert called.wait(30)
    with pytest.raises(PenstockError) as caught:
        books.ps.close()
    assert clear_stop(caught.value).code == "PS-RUN-007"
    _RELEASED.set()
    books.ps.stop()
    books.check()
    books.ps.close()
