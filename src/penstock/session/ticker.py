"""The thread that lets wall-clock rules (TICK, IDLE AFTER) work between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import HeldUp

_EVERY = 0.1  # seconds
_PATIENCE = 30.0
"""Seconds that a subscriber is given to return when the thread is to end."""


class Ticker:
    """Calls a function again and again, in one thread, between `start` and `stop`.

    It holds `session` for a call. While another holds that for long, it does not call.
    """

    def __init__(self, tick: Callable[[], None], session: threading.RLock) -> None:
        self._tick = tick
        self._session = session
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin, unless it runs."""
        with self._lock:
            self._stopping.clear()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
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

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            if self._session.acquire(timeout=_EVERY):
                try:
                    self._tick()
                finally:
                    self._session.release()
