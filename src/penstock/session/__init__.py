"""Sessions: what a user holds in hand."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UnsupportedError
from penstock.optimizer.optimizer import RULES
from penstock.session.changelog import DEFAULT_KEPT_ROWS
from penstock.session.query import Query
from penstock.session.session import Session
from penstock.session.sharded import ShardedSession
from penstock.session.snapshot import Snapshot, load, put_back
from penstock.shards.job import LocalJob

__all__ = ["Query", "Session", "Snapshot", "connect"]


def connect(
    *,
    runner: str = "inprocess",
    checkpoint: str | Path | None = None,
    snapshot: Snapshot | None = None,
    optimizer_off: str | set[str] | frozenset[str] = frozenset(),
    keep_changes: int = DEFAULT_KEPT_ROWS,
    shards: int | None = None,
) -> Session:
    """Open a session.

    With `checkpoint`, streams, tables, queries, sinks and state come back when the directory
    holds a session, and flush() and close() write them there. `optimizer_off` names rules to
    switch off ("all" for every one). With `shards`, the in-process runner spreads plans over
    that many shards of two levels, as Spark does.
    """
    if runner != "inprocess":
        raise UnsupportedError(
            f"runner {runner!r} is not available in this version",
            code="PS-RUNNER-001",
            remedy='use penstock.connect(runner="inprocess")',
        )
    names = frozenset(rule.__name__ for rule in RULES)
    off = names if optimizer_off == "all" else frozenset(optimizer_off)
    directory = None if checkpoint is None else Path(checkpoint)
    if shards is not None:
        return ShardedSession(
            lambda deliver: LocalJob(shards, deliver), optimizer_off=off, keep_changes=keep_changes
        )
    session = Session(optimizer_off=off, keep_changes=keep_changes, checkpoint=directory)
    if snapshot is None and directory is not None:
        snapshot = load(directory)
    if snapshot is not None:
        put_back(session, snapshot)
    return session
