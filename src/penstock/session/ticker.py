"""The thread that lets wall-clock rules (TICK, IDLE AFTER) work between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

_EVERY = 0.1  # seconds


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
                self._stopping.clear()
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End; the function is not called any more."""
        with self._lock:
            if self._thread is not None:
                self._stopping.set()
                self._thread.join()
                self._thread = None

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            self._tick()
