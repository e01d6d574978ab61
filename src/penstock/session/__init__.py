"""Sessions: what a user holds in hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import StateError, UnsupportedError
from penstock.optimizer.optimizer import RULES
from penstock.session.changelog import DEFAULT_KEPT_ROWS
from penstock.session.directory import open_directory
from penstock.session.query import Queries, Query
from penstock.session.session import Session
from penstock.session.sharded import ShardedSession
from penstock.session.snapshot import Snapshot, load, put_back
from penstock.shards.job import LocalJob
from penstock.sharing.eddy import ROUTINGS, Routing

__all__ = ["Queries", "Query", "Session", "Snapshot", "connect"]


def _routing(name: str) -> Routing:
    for known in ROUTINGS:
        if name == known:
            return known
    raise UnsupportedError(
        f"there is no routing {name!r}",
        code="PS-ROUTING-001",
        remedy=f"use one of {', '.join(ROUTINGS)}",
    )


def _shards(count: Any) -> int:
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    raise UnsupportedError(
        f"there cannot be {count!r} shards", code="PS-RUNNER-004", remedy="give a number from 1 on"
    )


def connect(
    *,
    runner: str = "spark",
    spark: Any = None,
    master: str | None = None,
    shards: int | None = None,
    spark_options: Mapping[str, str] | None = None,
    checkpoint: str | Path | None = None,
    snapshot: Snapshot | None = None,
    optimizer_off: str | set[str] | frozenset[str] = frozenset(),
    keep_changes: int = DEFAULT_KEPT_ROWS,
    routing: str = "tickets",
) -> Session:
    """Open a session.

    The runner "spark" (the default) runs in the given SparkSession, on the given `master`, or
    in an embedded local Spark; "inprocess" is the same engine in this process, without a JVM.
    With `checkpoint`, streams, tables, queries, sinks and state come back when the directory
    holds a session. `shards` is fixed for the life of a checkpoint (default: the cores; in
    process: one, and with a number plans are spread as on Spark). `keep_changes` rows of
    unread changes are kept per plan. `optimizer_off` names rules to switch off ("all").
    `routing` is how rows find their way through shared filters and SteMs: "tickets" learns it,
    "fixed", "random" and "optimal" are there for comparison.
    """
    names = frozenset(rule.__name__ for rule in RULES)
    off = names if optimizer_off == "all" else frozenset(optimizer_off)
    if checkpoint == "":
        raise StateError("the checkpoint has no name", remedy="name a directory, or leave it out")
    directory = None if checkpoint is None else Path(checkpoint)
    if runner == "spark":
        from penstock.session.on_spark import OnSpark  # a JVM's worth of imports

        session: Session = OnSpark(
            spark=spark, master=master, shards=shards, spark_options=spark_options,
            checkpoint=directory, optimizer_off=off, keep_changes=keep_changes,
        )  # fmt: skip
        session._route(_routing(routing))
        return session
    if runner != "inprocess":
        raise UnsupportedError(
            f"there is no runner {runner!r}",
            code="PS-RUNNER-001",
            remedy='use "spark" or "inprocess"',
        )
    if shards is not None:
        count = _shards(shards)
        session = ShardedSession(
            lambda deliver: LocalJob(count, deliver), optimizer_off=off, keep_changes=keep_changes
        )
        session._route(_routing(routing))
        return session
    held = None if directory is None else open_directory(directory)
    try:
        session = Session(optimizer_off=off, keep_changes=keep_changes, checkpoint=held)
        session._route(_routing(routing))
        if snapshot is None and held is not None:
            snapshot = load(held.path)
        if snapshot is not None:
            put_back(session, snapshot)
    except BaseException:
        if held is not None:
            held.close()
        raise
    return session
