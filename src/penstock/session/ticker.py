"""The thread that lets wall-clock rules (TICK, IDLE AFTER) work between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import HeldUp

_EVERY = 0.1  # seconds
_PATIENCE = 30.0
"""Seconds that a subscriber is given to return when the thread is to end."""


class Ticker:
    """Calls a function again and again, in one thread, between `start` and `stop`."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin, unless it runs."""
        with self._lock:
            if self._thread is None:
                self._stopping = threading.Event()
                run = (self._stopping,)
                self._thread = threading.Thread(target=self._run, args=run, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End; the function is not called any more."""
        with self._lock:
            if self._thread is not None:
                self._stopping.set()
                self._thread.join(_PATIENCE)
                if self._thread.is_alive():
                    raise HeldUp(_PATIENCE)
                self._thread = None

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(_EVERY):
            self._tick()
