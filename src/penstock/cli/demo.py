"""`penstock demo`: the five queries of Golab & Özsu §6.1 and a thousand alerts over traffic.

The traffic is generated, the same on every run. On Spark it is read from Parquet files, some
per batch; in process it is pushed. The answers are the same.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from penstock.cli.demo_files import SOURCE, batch_rows, write_files
from penstock.cli.demo_queries import ALERTS, QUERIES, STREAM, alert_params
from penstock.cli.feed import Interrupt
from penstock.cli.follow import Follower, views
from penstock.cli.output import rich_table
from penstock.cli.progress import Tracker
from penstock.cli.runner import open_session, runner_options
from penstock.errors import PenstockError
from penstock.inprocess.demo_traffic import LINKS, Traffic

if TYPE_CHECKING:
    from penstock.session import Queries, Query, Session

NEXT = """
Look further:
  penstock sql                 try it by hand (\\help inside)
  penstock run --help          your own script over your own files
  docs/getting-started.md      the Python interface, step by step"""


@dataclass(slots=True)
class Tally:
    """Changes seen so far of one query, or of all alerts of one kind."""

    name: str
    about: str
    source: Query | Queries
    queries: int = 1
    inserted: int = 0
    deleted: int = 0
    updated: int = 0

    def read(self) -> None:
        """Count what has changed since the last time."""
        kinds = self.source.changes()["_change_type"].cast(pa.string()).value_counts().to_pylist()
        seen = {kind["values"]: kind["counts"] for kind in kinds}
        self.inserted += seen.get("insert", 0)
        self.deleted += seen.get("delete", 0)
        self.updated += seen.get("update_postimage", 0)


@click.command()
@click.option("--rows", default=200_000, show_default=True, help="Connections to generate.")
@click.option("--alerts", default=1_000, show_default=True, help="Alert queries to register.")
@runner_options("spark")
def demo(rows: int, alerts: int, runner: str, master: str | None, shards: int | None) -> None:
    """Watch 1,005 standing queries over generated network traffic.

    Four links, 1,000 connections a second, windows of 60 seconds. Five queries join, compare
    and subtract links; a thousand alerts of four kinds watch hosts, payloads and protocols.
    Runs in an embedded Spark (needs Java), or without one with --runner inprocess.
    """
    console = Console()
    traffic = Traffic(rows=rows)
    with ExitStack() as stack:
        sources = dict.fromkeys(LINKS, "")
        if runner == "spark":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
            files = write_files(traffic, folder)
            console.print(f"{rows:,} connections on {len(LINKS)} links in {files} Parquet files")
            sources = {link: SOURCE.format(path=folder / link) for link in LINKS}
        session = open_session(runner, master, shards, None, quiet=False)
        stack.enter_context(session)
        console.print(f"registering {len(QUERIES)} queries and {alerts:,} alerts …")
        tallies = register(session, alerts, sources)
        if runner == "spark":
            seconds = watch(session, traffic, tallies, console)
        else:
            seconds = feed(session, traffic, tallies, console)
        for tally in tallies:
            tally.read()
        _finish(session, tallies, seconds, console)


def register(session: Session, alerts: int, sources: dict[str, str]) -> list[Tally]:
    """Declare the links, the five queries and the alerts."""
    for link, source in sources.items():
        session.sql(STREAM.format(link=link) + source)
    tallies = []
    for name, (about, text) in QUERIES.items():
        query = session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        tallies.append(Tally(name, about, query))
    for number, (kind, (text, _)) in enumerate(ALERTS.items()):
        count = (alerts + number) // len(ALERTS)
        if count:
            handles = session.query_many(text, alert_params(kind, count))
            tallies.append(Tally(f"{count} alerts", kind, handles, count))
    return tallies


def watch(session: Session, traffic: Traffic, tallies: list[Tally], console: Console) -> float:
    """Let Spark read the traffic under a live display; the seconds its batches took."""
    tracker = Tracker(session)
    bar = Progress(BarColumn(), MofNCompleteColumn(), console=console)
    task = bar.add_task("", total=traffic.rows)
    single = [tally for tally in tallies if tally.queries == 1]
    shown = 0

    def board() -> Group:
        nonlocal shown
        line = tracker.render()
        bar.update(task, completed=tracker.rows)
        if tracker.batch > shown:
            shown = tracker.batch
            for tally in single:
                tally.read()
        return Group(line, bar, _changes_table(single))

    with (
        Interrupt().listening() as interrupt,
        Live(get_renderable=board, console=console, refresh_per_second=4, transient=True),
        Follower(session) as follower,
    ):
        follower.wait(interrupt, once=True)
    tracker.update()
    return tracker.seconds


def feed(session: Session, traffic: Traffic, tallies: list[Tally], console: Console) -> float:
    """In process: push the traffic under a live display; the seconds the engine worked."""
    bar = Progress(
        TextColumn("event time {task.fields[clock]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
    )
    task = bar.add_task("", total=traffic.rows, clock="--:--:--", speed="")
    single = [tally for tally in tallies if tally.queries == 1]
    busy = 0.0
    pushed = 0
    with Live(Group(bar), console=console, refresh_per_second=8, transient=True) as live:
        for link, rows in traffic.batches(batch_rows(traffic)):
            start = time.perf_counter()
            session.push(link, rows)
            busy += time.perf_counter() - start
            pushed += rows.num_rows
            clock = str(rows["ts"][-1].as_py())[11:19]
            bar.update(task, advance=rows.num_rows, clock=clock, speed=f"{pushed / busy:,.0f}/s")
            if link == LINKS[-1]:
                for tally in single:
                    tally.read()
                live.update(Group(bar, _changes_table(single)))
    return busy


def _changes_table(tallies: list[Tally]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("query", "what it watches"):
        table.add_column(heading)
    for heading in ("inserted", "deleted", "updated"):
        table.add_column(heading, justify="right")
    for tally in tallies:
        counts = (tally.inserted, tally.deleted, tally.updated)
        table.add_row(tally.name, tally.about, *(f"{count:,}" for count in counts))
    return table


def _finish(session: Session, tallies: list[Tally], seconds: float, console: Console) -> None:
    queries = sum(tally.queries for tally in tallies)
    changes = sum(tally.inserted + tally.deleted + tally.updated for tally in tallies)
    stats = session.stats()
    rows = sum(stream["received"] for stream in stats["streams"].values())
    console.print(_changes_table(tallies))
    shown = [session["suspects"], session["on_both"]]
    for query, view in zip(shown, views(shown), strict=True):
        if isinstance(view, PenstockError):
            raise view
        console.print(rich_table(view, f"{query.name}, {view.num_rows:,} rows now", limit=5))
    console.print(
        f"[bold]{rows:,} rows, {queries:,} queries as {stats['templates']} plans, "
        f"{changes:,} changes in {seconds:.1f} s[/] ({rows / seconds:,.0f} rows/s)"
    )
    console.print(NEXT, markup=False, highlight=False)
