"""`penstock demo`: the five queries of Golab & Özsu §6.1 and a thousand alerts over traffic.

The traffic is generated, the same on every run. On Spark it is read from Parquet files, some
per batch; in process it is pushed. The answers are the same.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.syntax import Syntax

import penstock
from penstock.cli.demo_board import Story, Tally, board
from penstock.cli.demo_files import SOURCE, batch_rows, write_files
from penstock.cli.demo_queries import ALERTS, QUERIES, STREAM
from penstock.cli.demo_traffic import LINKS, Traffic
from penstock.cli.feed import Interrupt
from penstock.cli.follow import Follower
from penstock.cli.progress import Tracker
from penstock.cli.runner import open_session, runner_options

if TYPE_CHECKING:
    from penstock.session import Session

NEXT = """Next steps:
  penstock sql                 try it by hand (help inside)
  penstock run --help          your own script over your own files
  docs/getting-started.md      the Python interface, step by step"""


@dataclass(slots=True)
class Demo:
    """A session with its queries and its display."""

    session: Session
    traffic: Traffic
    console: Console
    tallies: list[Tally] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of the batches that brought rows

    def read(self) -> None:
        """Count the changes of all queries."""
        for tally in self.tallies:
            tally.read()

    def shown(self) -> Group:
        """The display: counts of all queries, and the life of an alert."""
        told = [line for tally in self.tallies if tally.story for line in tally.story.lines()]
        return Group(board(self.tallies), *(f"  {line}" for line in told))


@click.command()
@click.option("--rows", default=Traffic().rows, show_default=True, type=click.IntRange(len(LINKS)),
              help="Connections to generate.")  # fmt: skip
@click.option("--alerts", default=1_000, show_default=True, type=click.IntRange(0),
              help="Alert queries to register.")  # fmt: skip
@runner_options("spark")
def demo(rows: int, alerts: int, runner: str, master: str | None, shards: int | None) -> None:
    """Watch 1,005 standing queries over generated network traffic.

    Four links, 1,000 connections a second, windows of 60 seconds. Five queries join, compare
    and subtract links; a thousand alerts of four kinds watch hosts, payloads and protocols.
    Runs in an embedded Spark (needs Java), or without one with --runner inprocess.
    """
    begun = time.perf_counter()
    console, traffic = Console(highlight=False), Traffic(rows=rows)
    console.print(f"[bold]Penstock {penstock.__version__}[/]: standing queries over traffic")
    with ExitStack() as stack:
        sources = dict.fromkeys(LINKS, "")
        if runner == "spark":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
            write_files(traffic, folder, console)
            sources = {link: SOURCE.format(path=folder / link) for link in LINKS}
        session = stack.enter_context(open_session(runner, master, shards, None, quiet=False))
        shows = Demo(session, traffic, console)
        _introduce(shows, alerts, runner)
        register(shows, alerts, sources)
        if runner == "spark":
            watch(shows)
        else:
            feed(shows)
        shows.read()
        _finish(shows, time.perf_counter() - begun)


def _introduce(shows: Demo, alerts: int, runner: str) -> None:
    """Print where the demo runs, what it reads, and some of its SQL."""
    traffic, each = shows.traffic, batch_rows(shows.traffic)
    hours, minutes = divmod(traffic.seconds // 60, 60)
    how = "read by Spark from Parquet files" if runner == "spark" else "pushed"
    shows.console.print(
        f"  where    {shows.session.outline().runs_on()}\n"
        f"  input    {traffic.rows:,} connections on {len(LINKS)} links, {hours} h {minutes} min of"
        f" traffic\n           {how}, {each:,} in a batch\n"
        f"  queries  {len(QUERIES)}, and {alerts:,} alerts of {len(ALERTS)} kinds; two of them:\n"
    )
    for name, text in (("suspects", QUERIES["suspects"][1]), (ALERTS[0].name, ALERTS[0].text)):
        title = f"-- {name}" + (", with 250 rows of constants" if name == ALERTS[0].name else "")
        shows.console.print(Syntax(f"{title}\n{text}\n", "sql", background_color="default"))


def register(shows: Demo, alerts: int, sources: dict[str, str]) -> None:
    """Declare the links, the five queries and the alerts."""
    session = shows.session
    for link, source in sources.items():
        session.sql(STREAM.format(link=link) + source)
    for name, (about, text) in QUERIES.items():
        query = session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        shows.tallies.append(Tally(name, about, query))
    for number, alert in enumerate(ALERTS):
        params = alert.params((alerts + number) // len(ALERTS))
        if params.num_rows:
            handles = session.query_many(alert.text, params)
            story = Story({row["qid"]: row for row in params.to_pylist()}) if not number else None
            tally = Tally(alert.name, alert.about, handles, params.num_rows, story)
            shows.tallies.append(tally)


def watch(shows: Demo) -> None:
    """Let Spark read the traffic under a live display."""
    tracker = Tracker(shows.session)
    bar = Progress(BarColumn(), MofNCompleteColumn(), console=shows.console)
    task = bar.add_task("", total=shows.traffic.rows)
    shown = 0

    def look() -> Group:
        nonlocal shown
        line = tracker.render()
        bar.update(task, completed=tracker.rows)
        if tracker.batch > shown:
            shown = tracker.batch
            shows.read()
        return Group(line, bar, shows.shown())

    with (
        Interrupt().listening() as interrupt,
        Live(get_renderable=look, console=shows.console, refresh_per_second=4, transient=True),
        Follower(shows.session) as follower,
    ):
        follower.wait(interrupt, once=True)
    records = shows.session.progress()
    shows.seconds += [record["seconds"] for record in records if record["rows_in"]]


def feed(shows: Demo) -> None:
    """In process: push the traffic under a live display."""
    columns = (TextColumn("{task.fields[speed]}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=shows.console)
    task = bar.add_task("", total=shows.traffic.rows, speed="")
    pushed = 0
    with Live(bar, console=shows.console, refresh_per_second=8, transient=True) as live:
        for link, rows in shows.traffic.batches(batch_rows(shows.traffic)):
            start = time.perf_counter()
            shows.session.push(link, rows)
            shows.seconds.append(time.perf_counter() - start)
            pushed += rows.num_rows
            speed = f"{pushed / sum(shows.seconds):,.0f} rows/s"
            bar.update(task, advance=rows.num_rows, speed=speed)
            if link == LINKS[-1]:
                shows.read()
                live.update(Group(bar, shows.shown()))


def _finish(shows: Demo, whole: float) -> None:
    """Counts and figures, in one screen."""
    stats = shows.session.stats()
    rows = sum(stream["received"] for stream in stats["streams"].values())
    shows.console.print(shows.shown())
    if not shows.seconds:
        shows.console.print("stopped before the first batch")
        return
    busy, first, count = sum(shows.seconds), shows.seconds[0], len(shows.seconds)
    warm = rows * (count - 1) / count / max(1e-9, busy - first)
    shows.console.print(
        f"\n[bold]{rows:,} rows, {stats['queries']:,} queries as {stats['templates']} plans: "
        f"{rows / busy:,.0f} rows/s[/]\n"
        f"  {count} batches in {busy:.1f} s; the first (cold) took {first:.1f} s, then "
        f"{warm:,.0f} rows/s\n  {whole:.0f} s with generating the traffic and starting\n"
    )
    shows.console.print(NEXT, markup=False)
