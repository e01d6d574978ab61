"""The thread that applies wall-clock rules (TICK, IDLE AFTER) between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import HeldUp

_EVERY = 0.1  # seconds
_PATIENCE = 30.0
"""Seconds to wait for a running subscriber when the thread has to end."""


class Ticker:
    """Calls a function repeatedly in one thread, between `start` and `stop`.

    It holds `session` during a call, and skips calls while another thread holds it for long.
    """

    def __init__(self, tick: Callable[[], None], session: threading.RLock) -> None:
        self._tick = tick
        self._session = session
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            self._stopping.clear()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread; the function is not called afterwards."""
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
