"""Sessions that a program leaves open are let go when it ends.

Spark's callbacks hold a session for as long as the process lives, so garbage collection never ends
it. Whatever the session holds open (a running batch, DuckDB) would then be torn down under it.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark

_open: WeakSet[OnSpark] = WeakSet()
_process = os.getpid()


def remember(session: OnSpark) -> None:
    """Let a session go when the process ends, unless it is forgotten before."""
    _open.add(session)


def forget(session: OnSpark) -> None:
    """The session is closed."""
    _open.discard(session)


@atexit.register
def leave_all() -> None:
    """Let all sessions go: the running batch ends, the rest waits in the checkpoint.

    A process that was forked from this one has no sessions of its own.
    """
    for session in list(_open) if os.getpid() == _process else []:
        with suppress(Exception):  # the program is over: no call can raise it
            session._spark_job.stop()
        with suppress(Exception):
            session._let_go()
