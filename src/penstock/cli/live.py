"""Rows of streams with FROM while a shell is open, and views that are redrawn as rows come.

In process this thread reads the files, batch by batch; on Spark the job reads its sources by
itself. Ctrl-C ends the wait between two batches, never a batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live

from penstock.cli.feed import Interrupt

if TYPE_CHECKING:
    from penstock.session import Session

_PAUSE_S = 0.5


@dataclass(slots=True)
class Sources:
    """The sources of a session's streams."""

    session: Session
    on_spark: bool

    def __bool__(self) -> bool:
        return any(stream.format is not None for stream in self.session.outline().streams())

    def read(self, interrupt: Interrupt, seen: Callable[[], None] = lambda: None) -> None:
        """Read all available rows; calls `seen` for each batch."""
        if not self:
            return
        if self.on_spark:
            _wait_for(self.session.flush, interrupt)
            return
        piped = {
            s.name for s in self.session.outline().streams() if dict(s.options).get("path") == "-"
        }
        for _ in self.session.outline().read_sources(piped):
            seen()
            if interrupt.asked:
                return


def _wait_for(call: Callable[[], None], interrupt: Interrupt) -> None:
    """Return when the call returns or at Ctrl-C; raises the call's error."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not interrupt.pressed:
        thread.join(0.05)
    if raised:
        raise raised[0]


def show_live(sources: Sources, draw: Callable[[], RenderableType], console: Console) -> None:
    """Redraw as rows arrive, until Ctrl-C."""
    with Interrupt().listening() as interrupt, Live(console=console, auto_refresh=False) as live:

        def redraw() -> None:
            live.update(draw(), refresh=True)

        if sources.on_spark:
            sources.session.start()
        while not interrupt.pressed:
            if not sources.on_spark:
                sources.read(interrupt, redraw)
            redraw()
            _pause(interrupt)


def _pause(interrupt: Interrupt) -> None:
    until = time.monotonic() + _PAUSE_S
    while not interrupt.pressed and time.monotonic() < until:
        time.sleep(0.05)
