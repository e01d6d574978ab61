"""`penstock run`: a script and its input, to changes or views."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.app import App, read_plan
from penstock.cli.feed import Input, Interrupt, feed, finish
from penstock.cli.follow import follow, views
from penstock.cli.output import Writer, open_text, open_writer
from penstock.cli.runner import open_session, runner_options
from penstock.cli.script import read_script
from penstock.cli.summary import Summary, tell_if_possible
from penstock.errors import PenstockError, UnsupportedError
from penstock.session import Query


@click.command()
@click.argument("script")
@click.option(
    "--input", "inputs", multiple=True, metavar="STREAM=[FORMAT:]FILE",
    help="Feed a stream from a .parquet, .csv or .jsonl file or glob; - is standard input "
    "(JSON lines, or csv:-). May be repeated. Replaces the stream's FROM.",
)  # fmt: skip
@click.option(
    "--output", type=click.Choice(["view", "changes"]), default="view", show_default=True,
    help="Print the answers when the input ends, or every change as it happens.",
)  # fmt: skip
@click.option(
    "--format", "format_", type=click.Choice(["table", "json", "parquet"]), default="table",
    show_default=True, help="Print tables or JSON lines, or write Parquet files.",
)  # fmt: skip
@click.option(
    "--out", metavar="PATH", help="Write the output to this file, or for Parquet to this directory."
)
@click.option(
    "--batch-rows", type=click.IntRange(1), default=10_000, show_default=True,
    help="Rows of --input in a batch.",
)  # fmt: skip
@click.option(
    "--checkpoint", metavar="DIR", help="Save all state in this directory, and continue from it."
)
@click.option(
    "--available-now", is_flag=True,
    help="On Spark: stop when all input is processed. In process, run always stops then.",
)  # fmt: skip
@runner_options("spark")
@click.option(
    "--progress", metavar="PATH",
    help="Append a JSON line per batch: rows, rows kept out, clocks, lag, state, seconds.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress bar and no summary.")
def run(
    script: str,
    inputs: tuple[str, ...],
    output: str,
    format_: str,
    out: str | None,
    batch_rows: int,
    checkpoint: str | None,
    available_now: bool,
    runner: str,
    master: str | None,
    shards: int | None,
    progress: str | None,
    quiet: bool,
) -> None:
    """Run SCRIPT over its input and print the answers of its queries.

    A stream reads its FROM source, or the file that --input names. On Spark, streams with FROM are
    read until Ctrl-C, or with --available-now until all available input is processed. Ctrl-C
    stops after the running batch and prints the answers; the same command with the same
    checkpoint continues. When input ends, event time moves to the last row, so that every row
    counts (not with --checkpoint, because the next run may bring more rows).

    \b
    Examples:
      penstock run app.sql --checkpoint cp --output changes --format json
      penstock run app.sql --available-now
      penstock run app.sql --input clicks='in/*.parquet'
      penstock run app.sql --input clicks=a.csv --input logins=b.jsonl --output changes
      tail -f log.jsonl | penstock run app.sql --input clicks=- --output changes --format json
      penstock run app.sql --runner inprocess --format parquet --out answers/
    """  # noqa: D301
    plan = read_plan(read_script(script), inputs)
    with ExitStack() as stack:
        writer = open_writer(format_, out, append=output == "changes" and checkpoint is not None)
        stack.callback(writer.close)
        log = stack.enter_context(open_text(progress, True, "--progress")) if progress else None
        session = open_session(runner, master, shards, checkpoint, quiet)
        if log is not None:
            session.on_progress(lambda record: print(json.dumps(record), file=log, flush=True))
        app, summary = App(stack.enter_context(session), plan), Summary()
        session.on_progress(summary.count)
        summary.look(app.sinks)
        # the output of SHOW and EXPLAIN must not mix with JSON lines
        app.execute(Console(stderr=format_ != "table"))
        if output == "changes":
            _write_changes(app, writer)
        show = _has_display(output, out, quiet)
        if runner == "spark":
            ended = follow(app, batch_rows, available_now, show)
        else:
            ended = _feed(app, app.read_here(), batch_rows, show)
        if ended and not checkpoint:
            _finish(app, runner)
        try:
            _check_failed(app) if output == "changes" else _write_views(app, writer)
        finally:
            if not quiet:
                tell_if_possible(summary, app, Console(stderr=True), stopped=not ended)


def _has_display(output: str, out: str | None, quiet: bool) -> bool:
    """Whether progress is drawn: a display and tables of changes would write over each other."""
    mixed = output == "changes" and out is None and sys.stdout.isatty()
    return sys.stderr.isatty() and not quiet and not mixed


def _finish(app: App, runner: str) -> None:
    """Move event time to the last row of every stream, and wait for the answers."""
    finish(app.session, app.streams)
    if runner == "spark":
        app.session.flush()


def _write_changes(app: App, writer: Writer) -> None:
    """Hand every commit's changes to the writer."""
    for query in app.queries:
        _write_waiting(query, writer)

        def commit(changes: pa.Table, query: Query = query) -> None:
            writer.changes(query.name, changes, changes["_batch"][0].as_py())
            query.changes()  # mark them as read, for a run that continues

        query.subscribe(commit)


def _write_waiting(query: Query, writer: Writer) -> None:
    """Changes from before the subscription: a count of 0, history, tables."""
    changes = query.changes()
    if changes.num_rows:
        writer.changes(query.name, changes, changes["_batch"][0].as_py())


def _write_views(app: App, writer: Writer) -> None:
    failed: list[PenstockError] = []
    for query, answer in zip(app.queries, views(app.queries), strict=True):
        if isinstance(answer, UnsupportedError):  # it keeps no rows: its changes are its answer
            _write_waiting(query, writer)
        elif isinstance(answer, PenstockError):
            failed.append(answer)
        else:
            writer.view(query.name, answer)
    if failed:
        raise failed[0]


def _check_failed(app: App) -> None:
    """Raise the error of the first failed query; its changes have been written."""
    for query in app.queries:
        if query.status == "failed":
            query.view()


def _feed(app: App, sources: list[Input], batch_rows: int, show: bool) -> bool:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not show,
        transient=True,
    )
    start = time.perf_counter()
    with bar, Interrupt().listening() as interrupt:
        tasks = {s.stream: bar.add_task(s.stream, total=s.total(), speed="") for s in sources}
        done = dict.fromkeys(tasks, 0)

        def pushed(stream: str, rows: int) -> None:
            if stream not in tasks:
                tasks[stream], done[stream] = bar.add_task(stream, total=None, speed=""), 0
            done[stream] += rows
            rate = done[stream] / max(1e-9, time.perf_counter() - start)
            bar.update(tasks[stream], advance=rows, speed=f"{rate:,.0f} rows/s")

        ended = feed(app.session, sources, batch_rows, interrupt, pushed)
        return ended and _read_sources(app, interrupt, pushed)


def _read_sources(app: App, interrupt: Interrupt, pushed: Callable[[str, int], None]) -> bool:
    """Let the session read FROM sources; False if Ctrl-C ended it between two batches."""
    for stream, rows in app.session.outline().read_sources({i.stream for i in app.read_here()}):
        pushed(stream, rows)
        if interrupt.asked:
            return False
    return True
