"""Closes sessions that a program leaves open when it ends.

Spark's callbacks reference a session as long as the process lives, so the garbage collector never
ends it. Without this module, the process would end while the session still has a batch running or
DuckDB open.
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
    """The resources of a session on Spark: fields are None until the resource is opened."""

    spark: Any
    own: bool  # whether Spark was started for this session
    job: SparkJob | None = None
    views: ViewStore | None = None


_open: WeakSet[Held] = WeakSet()
_process = os.getpid()


def remember(held: Held) -> None:
    """Register a session to be closed when the process ends."""
    _open.add(held)


def let_go(held: Held) -> None:
    """Close the resources of a session, so that another session can use its checkpoint."""
    _open.discard(held)
    with ExitStack() as last:  # each callback runs even if another one fails
        if held.own:
            last.callback(_stop, held.spark)
        if held.job is not None:
            last.callback(held.job.close)
        views, held.views = held.views, None  # DuckDB must be closed before the process ends
        if views is not None:
            views.shut()


def _stop(spark: Any) -> None:
    with suppress(Exception):  # its Java process may be gone
        spark.stop()


@atexit.register
def leave_all() -> None:
    """Close all sessions: the running batch ends, later entries stay in the checkpoint.

    A process forked from this one has no sessions of its own.
    """
    left = list(_open) if os.getpid() == _process else []
    for held in left:  # before any session stops the Spark that all share
        with suppress(Exception):  # the program is over: no caller is left to handle an error
            if held.job is not None:
                held.job.stop()
    for held in left:
        with suppress(Exception):
            let_go(held)
