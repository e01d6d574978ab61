"""Running a script on Spark: rows are pushed and read while batches run in the background.

The session is followed by flushing it over and over: a flush ends when all that is available
is in the answers, saves the driver's part of the checkpoint, and raises what stopped the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
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
    from penstock.session import Query

_PAUSE_S = 0.3
_ASKED_AT_ONCE = 32


def follow(app: App, batch_rows: int, available_now: bool, show: bool) -> bool:
    """Run until input ends (`available_now`, or nothing can bring more) or Ctrl-C; False then."""
    session = app.session
    tracker = Tracker(session)
    session.start()
    with Interrupt().listening() as interrupt, _display(tracker, show):
        feed(session, app.pushed(), batch_rows, interrupt, lambda stream, rows: None)
        once = available_now or not app.reads_sources
        while not interrupt.asked:
            watched(session.flush, interrupt)
            if once:
                break
            time.sleep(_PAUSE_S)
    return not interrupt.asked


@contextmanager
def _display(tracker: Tracker, show: bool) -> Iterator[None]:
    if not show:
        yield
        return
    console = Console(stderr=True)
    with Live(get_renderable=tracker.render, console=console, refresh_per_second=8, transient=True):
        yield


def watched(work: Callable[[], None], interrupt: Interrupt) -> None:
    """Do something that takes long, but no longer than until Ctrl-C; its error is raised here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised below, in the thread that asked for it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not interrupt.asked:
        thread.join(0.1)
    if errors:
        raise errors[0]


def views(queries: list[Query]) -> list[pa.Table | PenstockError]:
    """The answers of many queries, or why there is none.

    They are asked for at once, because answering takes a batch, however many are asked.
    """

    def ask(query: Query) -> pa.Table | PenstockError:
        try:
            return query.view()
        except (UnsupportedError, QueryFailed) as error:
            return error

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, queries))
