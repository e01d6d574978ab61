"""The gate of a session: one thread at a time makes a call or looks.

What went wrong while no call waited is kept, and the next call that ends raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError


def gravest(errors: list[BaseException]) -> BaseException:
    """What to raise: what ends the program, if there is that, else the first error."""
    return next((error for error in errors if not isinstance(error, Exception)), errors[0])


def _nothing() -> None:
    pass


class Gate:
    """Lets calls in, one after another.

    `ended` is called when the outermost call ends, `catch_up` before someone looks, and `check`
    raises what ended the job that runs the queries, if something has.
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
        self._depth = 0  # of calls within calls
        self._complaint: BaseException | None = None

    @property
    def in_call(self) -> bool:
        """Whether a call has not ended yet."""
        return self._depth > 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the session for one call; a closed one takes none."""
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
        """Hold the session to look at what has come, even if no more will."""
        with self.lock:
            self._catch_up()
            yield

    @contextmanager
    def look(self) -> Iterator[None]:
        """Hold the session to look at it: calls made before have had their effect."""
        with self.glance():
            self.check_alive()
            yield

    def check_alive(self) -> None:
        """Say what ended the job that runs the queries, if something has."""
        if not self.closed:
            self._check()

    def complain(self, error: BaseException) -> None:
        """Keep an error that no call can raise, unless an earlier one waits."""
        earlier = [self._complaint] if self._complaint is not None else []
        self._complaint = gravest([*earlier, error])

    def raise_complaint(self) -> None:
        """Raise, once, what went wrong while no call waited."""
        complaint, self._complaint = self._complaint, None
        if complaint is not None:
            raise complaint
