"""Room on the stack: what walks plans by recursion can go as deep wherever it is called from.

Python counts the frames of a thread. A caller that has used many of them (a framework, a
recursive program) would see plans fail that others see run; so such a call is made on a thread
of its own, whose stack is empty, while the caller waits. Nothing that is called this way may ask
for a lock that the caller may hold.
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
"""Frames that a caller may have used; the deepest plan (`session.compile`) has room above them."""


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """A function that always has room for its recursion."""

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
    """Do it on a thread of its own, and wait for the end of it whatever happens here."""
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
    except BaseException:  # Ctrl-C: what was begun is not left half done
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]
