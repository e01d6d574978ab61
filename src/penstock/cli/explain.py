"""`penstock explain`: the plan of every query in a script, without running anything."""

from __future__ import annotations

import click
from rich.console import Console

import penstock
from penstock.cli.app import without_source
from penstock.cli.runner import strategy_option
from penstock.cli.script import Script, located, parse, read_script
from penstock.logical.strategy import UPA
from penstock.sql.source_options import check_options
from penstock.sql.statements import (
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    Select,
)


@click.command()
@click.argument("script")
@click.option(
    "--shards", type=click.IntRange(1),
    help="Also show where each plan runs on N shards, as on Spark.",
)  # fmt: skip
@strategy_option
def explain(script: str, shards: int | None, strategy: str) -> None:
    """Print the plan of every view and query in SCRIPT.

    SCRIPT is a file, or - for standard input. For each operator: its update pattern (MON, WKS,
    WK or STR), the structure that holds its state, its parameters, the estimated cost, and the
    queries that share it. Nothing is read and no sink is opened; runs in this process, without
    Spark.

    \b
    Examples:
      penstock explain app.sql
      penstock explain app.sql --shards 4
      echo "CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts;
            SELECT DISTINCT k FROM s [RANGE 100];" | penstock explain -
    """  # noqa: D301
    explain_script(read_script(script), Console(), shards, strategy)


def explain_script(
    script: Script, console: Console, shards: int | None = None, strategy: str = UPA.name
) -> None:
    """Declare what the script declares and print each query's plan."""
    with penstock.connect(runner="inprocess", shards=shards, strategy=strategy) as session:
        for number, (piece, statement) in enumerate(parse(script), 1):
            with located(script, piece):
                match statement:
                    case CreateStream(format=str(format_)):
                        check_options(format_, dict(statement.options), f"stream {statement.name}")
                        session.sql(without_source(statement))
                    case CreateStream() | CreateTable():
                        session.sql(piece.text)
                    case CreateView():
                        session.sql(piece.text)
                        _print(console, statement.name, session[statement.name].explain())
                    case Select():
                        _print(console, f"query {number}", session.query(piece.text).explain())
                    case Explain():
                        _print(console, f"statement {number}", str(session.sql(piece.text)))
                    case CreateSink():
                        console.print(f"sink {statement.name}: changes of {statement.view}\n")


def _print(console: Console, title: str, plan: str) -> None:
    console.rule(f"[bold]{title}", align="left", style="dim")
    console.print(plan, markup=False, highlight=False, soft_wrap=True)
    console.print()
