"""Letting sessions go: when they are closed, and those that a program leaves open when it ends.

Spark's callbacks hold a session for as long as the process lives, so garbage collection never ends
it. Whatever the session holds open (a running batch, DuckDB) would then be torn down under it.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark

_open: WeakSet[OnSpark] = WeakSet()
_process = os.getpid()


def remember(session: OnSpark) -> None:
    """Let a session go when the process ends, unless it is closed before."""
    _open.add(session)


def let_go(session: OnSpark) -> None:
    """Let others have the checkpoint of a session, as far as it was opened."""
    _open.discard(session)
    with ExitStack() as last:  # whatever fails, the rest is done
        if session._own_spark:
            last.callback(_stop, session._spark)
        if "_job" in vars(session):
            last.callback(session._job.close)
        views = vars(session).pop("_views", None)  # DuckDB minds being held at exit
        if views is not None:
            views.shut()


def _stop(spark: Any) -> None:
    with suppress(Exception):  # its Java process may be gone
        spark.stop()


@atexit.register
def leave_all() -> None:
    """Let all sessions go: the running batch ends, the rest waits in the checkpoint.

    A process that was forked from this one has no sessions of its own.
    """
    left = list(_open) if os.getpid() == _process else []
    for session in left:  # before one of them stops the Spark of all
        with suppress(Exception):  # the program is over: no call can raise it
            session._spark_job.stop()
    for session in left:
        with suppress(Exception):
            let_go(session)
