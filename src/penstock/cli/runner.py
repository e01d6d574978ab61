"""The options that choose where a command runs, and the session that they open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click
from rich.console import Console

import penstock
from penstock.logical.strategy import STRATEGIES, UPA
from penstock.session import Session

F = TypeVar("F", bound=Callable[..., Any])


strategy_option = click.option(
    "--strategy", type=click.Choice([s.name for s in STRATEGIES]), default=UPA.name,
    show_default=True,
    help="How expirations reach the operators of queries that name no strategy.",
)  # fmt: skip


def runner_options(default: str) -> Callable[[F], F]:
    """Add --runner, --master and --shards."""
    options = (
        click.option(
            "--runner", type=click.Choice(["spark", "inprocess"]), default=default,
            show_default=True,
            help="Run on Spark, or run the same engine in this process on one core, without Java.",
        ),
        click.option(
            "--master", metavar="URL",
            help="Spark's master: local[2,4], spark://host:7077, …; by default all cores of this "
            "machine.",
        ),
        click.option(
            "--shards", type=click.IntRange(1),
            help="Number of shards that state and work are split into; a checkpoint keeps "
            "its number. By default one per core on Spark, and one in process.",
        ),
    )  # fmt: skip

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def open_session(
    runner: str, master: str | None, shards: int | None, checkpoint: str | None, quiet: bool,
    strategy: str = UPA.name,
) -> Session:  # fmt: skip
    """The session that the options ask for."""
    if runner == "inprocess":
        if master is not None or shards is not None:
            raise click.UsageError("--master and --shards are for --runner spark")
        return penstock.connect(runner="inprocess", checkpoint=checkpoint, strategy=strategy)
    errors = Console(stderr=True)
    on_spark = partial(
        penstock.connect, master=master, shards=shards, checkpoint=checkpoint, strategy=strategy
    )
    if quiet or not errors.is_terminal:
        return on_spark()
    with errors.status("starting Spark …"):
        return on_spark()
