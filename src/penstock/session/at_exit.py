"""Letting sessions go: when they are closed, and those that a program leaves open when it ends.

Spark's callbacks hold a session for as long as the process lives, so garbage collection never ends
it. Whatever the session holds open (a running batch, DuckDB) would then be torn down under it.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from penstock.session.view_store import ViewStore
from penstock.spark.job import SparkJob


@dataclass(slots=True, eq=False, weakref_slot=True)
class Held:
    """What a session on Spark holds open, as far as it was opened."""

    spark: Any
    own: bool  # whether Spark was started for this session
    job: SparkJob | None = None
    views: ViewStore | None = None


_open: WeakSet[Held] = WeakSet()
_process = os.getpid()


def remember(held: Held) -> None:
    """Let a session go when the process ends, unless it is closed before."""
    _open.add(held)


def let_go(held: Held) -> None:
    """Let others have the checkpoint of a session, as far as it was opened."""
    _open.discard(held)
    with ExitStack() as last:  # whatever fails, the rest is done
        if held.own:
            last.callback(_stop, held.spark)
        if held.job is not None:
            last.callback(held.job.close)
        views, held.views = held.views, None  # DuckDB minds being held at exit
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
    for held in left:  # before one of them stops the Spark of all
        with suppress(Exception):  # the program is over: no call can raise it
            if held.job is not None:
                held.job.stop()
    for held in left:
        with suppress(Exception):
            let_go(held)
