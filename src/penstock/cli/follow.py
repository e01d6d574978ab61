"""Running a script on Spark: rows are pushed and read while batches run in the background.

A thread flushes the session repeatedly: a flush ends when the answers contain all available rows,
saves the driver's part of the checkpoint, and raises the error that stopped the job.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.live import Live

from penstock.cli.feed import Interrupt, feed
from penstock.cli.progress import Tracker
from penstock.errors import PenstockError, QueryFailed, UnsupportedError

if TYPE_CHECKING:
    from penstock.cli.app import App
    from penstock.session import Query, Session

_PAUSE_S = 0.3
_ASKED_AT_ONCE = 32


def follow(app: App, batch_rows: int, available_now: bool, show: bool) -> bool:
    """Run until input ends (`available_now`, or nothing can bring more) or Ctrl-C; False then."""
    session = app.session
    with (
        Interrupt().listening() as interrupt,
        _display(Tracker(session), show),
        Follower(session) as follower,
    ):
        feed(session, app.pushed(), batch_rows, interrupt, lambda stream, rows: None)
        once = available_now or not app.reads_sources
        follower.wait(interrupt, once)
    return not interrupt.pressed


class Follower:
    """Flushes a session repeatedly in a separate thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun = self._ended = 0
        self._error: BaseException | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Follower:
        self._session.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True  # a flush that still runs ends with the session

    def _run(self) -> None:
        try:
            while not self._over:
                self._begun += 1
                self._session.flush()
                self._ended = self._begun
                time.sleep(_PAUSE_S)
        except BaseException as error:  # raised in the thread that waits
            self._error = error
            if not self._over:
                os.kill(os.getpid(), signal.SIGINT)  # it may be waiting for input

    def wait(self, interrupt: Interrupt, once: bool) -> None:
        """Wait until Ctrl-C or, with `once`, until the answers contain all rows; raises errors."""
        enough = self._begun + 1
        while not interrupt.pressed and not (once and self._ended >= enough):
            time.sleep(0.05)
        if self._error is not None:
            raise self._error


@contextmanager
def _display(tracker: Tracker, show: bool) -> Iterator[None]:
    if not show:
        yield
        return
    console = Console(stderr=True)
    with Live(get_renderable=tracker.render, console=console, refresh_per_second=8, transient=True):
        yield


def views(queries: list[Query]) -> list[pa.Table | PenstockError]:
    """The answers of many queries; an error in place of an answer that cannot be read.

    All are read together, because a read takes one batch for any number of queries.
    """

    def ask(query: Query) -> pa.Table | PenstockError:
        try:
            return query.view()
        except (UnsupportedError, QueryFailed) as error:
            return error

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, queries))
