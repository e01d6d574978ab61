"""Stack space for recursion over plans, independent of the caller's stack depth.

Python limits the frames of a thread. If the caller (a framework, a recursive program) has used
many of them, the call runs on a new thread with an empty stack while the caller waits. Such a
call must not take a lock that the caller may hold.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SHALLOW = 120
"""Frames that a caller may use; the deepest plan (`session.compile`) fits above them."""


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """Run a recursive function with enough stack space, whatever the caller has used."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _is_deep():
            return _elsewhere(lambda: function(*args, **kwargs))
        return function(*args, **kwargs)

    return call


def _is_deep() -> bool:
    try:
        sys._getframe(_SHALLOW)
    except ValueError:
        return False
    return True


def _elsewhere(work: Callable[[], T]) -> T:
    """Run the call on a new thread and wait until it ends, even after Ctrl-C."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    try:
        thread.join()
    except BaseException:  # Ctrl-C: wait until the call is complete
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]
