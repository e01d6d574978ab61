"""The gate of a session: lets one thread at a time call or read the session.

An error that occurs while no call waits is kept; the next call that ends raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError


def gravest(errors: list[BaseException]) -> BaseException:
    """The error to raise: one that ends the program if there is one, else the first."""
    return next((error for error in errors if not isinstance(error, Exception)), errors[0])


def _nothing() -> None:
    pass


class Gate:
    """Lets calls in, one after another.

    The gate calls `ended` when the outermost call ends and `catch_up` before a read. `check` raises
    the error that ended the job of the queries, if it has ended.
    """

    def __init__(
        self,
        ended: Callable[[], None] = _nothing,
        catch_up: Callable[[], None] = _nothing,
        check: Callable[[], None] = _nothing,
    ) -> None:
        self.lock = threading.RLock()
        self.closed = False
        self._ended, self._catch_up, self._check = ended, catch_up, check
        self._depth = 0  # depth of nested calls
        self._complaint: BaseException | None = None

    @property
    def in_call(self) -> bool:
        """Whether a call is in progress."""
        return self._depth > 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the session for one call; raise an error if it is closed."""
        with self.lock:
            if self.closed:
                raise PenstockError(
                    "the session is closed", code="PS-RUN-003", remedy="connect() again"
                )
            self._depth += 1
            try:
                yield
            finally:
                self._leave()
            if not self._depth:
                self.raise_complaint()

    def _leave(self) -> None:
        try:
            if self._depth == 1:
                self._ended()
        finally:
            self._depth -= 1

    @contextmanager
    def glance(self) -> Iterator[None]:
        """Hold the session to read what has arrived; allowed even when the job is dead."""
        with self.lock:
            self._catch_up()
            yield

    @contextmanager
    def look(self) -> Iterator[None]:
        """Hold the session to read it after all earlier calls have taken effect."""
        with self.glance():
            self.check_alive()
            yield

    def check_alive(self) -> None:
        """Raise the error that ended the job of the queries, if it has ended."""
        if not self.closed:
            self._check()

    def complain(self, error: BaseException) -> None:
        """Keep an error that no call can raise, unless a more serious one is kept already."""
        earlier = [self._complaint] if self._complaint is not None else []
        self._complaint = gravest([*earlier, error])

    def raise_complaint(self) -> None:
        """Raise the kept error, once."""
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint
