"""Sessions: `connect()` and the objects it gives to a user."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from penstock.eddy.eddy import ROUTINGS
from penstock.eddy.settings import Settings
from penstock.errors import StateError, UnsupportedError
from penstock.indexes.pairs.router import PAIR_STRATEGIES
from penstock.kernels.compiling import tell_once
from penstock.logical.strategy import UPA, strategy_of
from penstock.optimizer.optimizer import RULES
from penstock.optimizer.total_pairs import total_pairs
from penstock.session.changelog import DEFAULT_KEPT_ROWS
from penstock.session.opening import Options, open_in_process, open_on_shards
from penstock.session.query import Queries, Query
from penstock.session.session import Session
from penstock.session.snapshot import Snapshot
from penstock.shards.job import LocalJob

__all__ = ["Queries", "Query", "Session", "Snapshot", "connect"]


N = TypeVar("N", bound=str)

_OF_SPARK = ("spark", "master", "spark_options")
_IGNORED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "spark": (("snapshot",), "on Spark", "use checkpoint="),
    "inprocess": (_OF_SPARK, "in process", 'leave it out, or use runner="spark"'),
    "shards": (
        ("checkpoint", "snapshot", *_OF_SPARK),
        "in process with shards=",
        'leave shards= out, or use runner="spark", where shards have a checkpoint',
    ),
}
"""For each runner, the arguments of connect() that it does not take, and what to do instead."""


def _settings(routing: str, pairs: str) -> Settings:
    return Settings(
        _chosen("routing", routing, ROUTINGS, "PS-ROUTING-001"),
        _chosen("strategy for pairs", pairs, PAIR_STRATEGIES, "PS-PAIRS-001"),
    )


def _chosen(what: str, name: str, known: tuple[N, ...], code: str) -> N:
    """The one of the known names that is meant."""
    for one in known:
        if name == one:
            return one
    raise UnsupportedError(
        f"unknown {what} {name!r}", code=code, remedy=f"use one of {', '.join(known)}"
    )


def _shards(count: Any) -> int:
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    raise UnsupportedError(
        f"shards={count!r} is not a valid number of shards",
        code="PS-RUNNER-004",
        remedy="give a whole number of 1 or more",
    )


def _rules(given: str | Collection[str] | None) -> frozenset[str]:
    """The optimizer rules to switch off, as given in `optimizer_off`."""
    names = frozenset(rule.__name__ for rule in RULES)
    if given == "all":
        return names
    chosen = frozenset([given] if isinstance(given, str) else given or ())
    if unknown := sorted(chosen - names):
        raise UnsupportedError(
            f"the optimizer has no rule {unknown[0]!r}",
            code="PS-PLAN-005",
            remedy=f'use any of {", ".join(sorted(names))}, or "all"',
        )
    return chosen


def _needless(settings: Settings) -> frozenset[str]:
    """The rules that would leave a strategy for pairs without pairs to find."""
    return frozenset() if settings.pairs == "auto" else frozenset({total_pairs.__name__})


def _refuse_ignored(runner: str, shards: int | None, **given: Any) -> None:
    """Raise an error for arguments that the runner would ignore."""
    kind = "shards" if runner == "inprocess" and shards is not None else runner
    ignored, where, remedy = _IGNORED.get(kind, ((), "", ""))
    for name in ignored:
        if given[name] is not None:
            raise UnsupportedError(
                f"{name}= has no effect {where}", code="PS-RUNNER-005", remedy=remedy
            )


def _directory(checkpoint: str | Path | None) -> Path | None:
    """The directory of the checkpoint."""
    if checkpoint == "":
        raise StateError(
            "the path of the checkpoint is empty",
            code="PS-STATE-001",
            remedy="name a directory, or leave checkpoint= out",
        )
    return None if checkpoint is None else Path(checkpoint)


def connect(
    *,
    runner: str = "spark",
    spark: Any = None,
    master: str | None = None,
    shards: int | None = None,
    spark_options: Mapping[str, str] | None = None,
    checkpoint: str | Path | None = None,
    snapshot: Snapshot | None = None,
    optimizer_off: str | Collection[str] | None = None,
    keep_changes: int = DEFAULT_KEPT_ROWS,
    routing: str = "tickets",
    pairs: str = "auto",
    strategy: str | Mapping[str, Any] = "upa",
) -> Session:
    """Open a session.

    The runner "spark" (the default) runs in the given SparkSession, on the given `master`, or in an
    embedded local Spark. The runner "inprocess" runs the same engine in this process, without a
    JVM. If `checkpoint` is a directory that holds a session, its streams, tables, queries, sinks
    and state are restored. `shards` cannot change once a checkpoint exists; the default is the
    number of cores on Spark and one in process, where more shards spread the plans as on Spark.
    `keep_changes` limits how many rows of unread changes are kept per plan. `optimizer_off` names
    optimizer rules to switch off ("all" for every rule). `routing` selects how rows visit shared
    filters and SteMs: "tickets" learns a good order; "fixed", "random" and "optimal" exist for
    comparison. `pairs` selects how joins with constants of their own find pairs: "auto" chooses per
    row by cost; "vanilla", "data_outer", "merge", "select_first", "ssi" and "hotspot" always do the
    same, for comparison, and form pairs also for counts and sums. `strategy` decides how
    expirations reach the operators of queries that name no strategy: "upa" as update patterns ask,
    or as docs/strategies.md describes the others.
    """
    tell_once()
    off = _rules(optimizer_off)
    count = None if shards is None else _shards(shards)
    _refuse_ignored(
        runner, count, checkpoint=checkpoint, snapshot=snapshot, spark=spark, master=master,
        spark_options=spark_options,
    )  # fmt: skip
    settings = _settings(routing, pairs)
    runs_by = strategy_of(strategy, UPA)
    options = Options(off | _needless(settings), keep_changes, settings, runs_by)
    directory = _directory(checkpoint)
    if runner == "spark":
        from penstock.session.opening_spark import open_on_spark  # slow to import

        return open_on_spark(
            options, spark=spark, master=master, shards=count, spark_options=spark_options,
            checkpoint=directory,
        )  # fmt: skip
    if runner != "inprocess":
        raise UnsupportedError(
            f"unknown runner {runner!r}",
            code="PS-RUNNER-001",
            remedy='use "spark" or "inprocess"',
        )
    if count is not None:
        return open_on_shards(lambda deliver: LocalJob(count, deliver), options)
    return open_in_process(options, directory, snapshot)
