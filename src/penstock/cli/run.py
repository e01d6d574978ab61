"""`penstock run`: a script and its input, to changes or views."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import penstock
from penstock.cli.feed import Input, Interrupt, declared_input, feed, finish, parse_input
from penstock.cli.output import Writer, open_writer, rich_table
from penstock.cli.script import Script, located, parse, read_script
from penstock.errors import NameError_, PenstockError, UnsupportedError
from penstock.sql.catalog import StreamDef, stream_def
from penstock.sql.statements import CreateStream, CreateView, Describe, Explain, Select, Show

if TYPE_CHECKING:
    from penstock.session import Query, Session


@dataclass(slots=True)
class App:
    """What a script has declared, and the queries whose results are shown."""

    session: Session
    streams: dict[str, StreamDef] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)

    def execute(self, script: Script, console: Console) -> None:
        """Run all statements; SHOW, DESCRIBE and EXPLAIN print at once."""
        for piece, statement in parse(script):
            with located(script, piece):
                result = self.session.sql(piece.text)
            match statement:
                case CreateStream():
                    self.streams[statement.name] = stream_def(statement)
                case CreateView() | Select():
                    self.queries.append(result)
                case Show() | Describe():
                    console.print(rich_table(result))
                case Explain():
                    console.print(result, markup=False, highlight=False, soft_wrap=True)

    def inputs(self, given: tuple[str, ...]) -> list[Input]:
        """FROM clauses, replaced or completed by --input."""
        found = {s: i for s, d in self.streams.items() if (i := declared_input(d))}
        names = {name.lower(): name for name in self.streams}
        for text in given:
            chosen = parse_input(text)
            if chosen.stream.lower() not in names:
                raise NameError_(
                    f"the script declares no stream {chosen.stream}",
                    remedy=f"its streams are {', '.join(self.streams) or 'none'}",
                )
            found[names[chosen.stream.lower()]] = chosen
        readers = [i.stream for i in found.values() if i.options.get("path") == "-"]
        if len(readers) > 1:
            raise PenstockError(
                f"{readers[0]} and {readers[1]} both read standard input",
                code="PS-CLI-005",
                remedy="give one of them a file",
            )
        return list(found.values())


@click.command()
@click.argument("script")
@click.option(
    "--input", "inputs", multiple=True, metavar="STREAM=[FORMAT:]FILE",
    help="Feed a stream from a .parquet, .csv or .jsonl file or glob; - is standard input "
    "(JSON lines, or csv:-). May be repeated. Replaces the stream's FROM.",
)  # fmt: skip
@click.option(
    "--output", type=click.Choice(["view", "changes"]), default="view", show_default=True,
    help="The answers when input has ended, or every change as it happens.",
)  # fmt: skip
@click.option(
    "--format", "format_", type=click.Choice(["table", "json", "parquet"]), default="table",
    show_default=True, help="Tables to read, JSON lines, or Parquet files.",
)  # fmt: skip
@click.option("--out", metavar="PATH", help="Write there: a file, or for Parquet a directory.")
@click.option("--batch-rows", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--checkpoint", metavar="DIR", help="Keep everything here and continue from it.")
@click.option(
    "--available-now", is_flag=True,
    help="End when all input is processed. The in-process runner always does.",
)  # fmt: skip
@click.option(
    "--runner", type=click.Choice(["inprocess", "spark"]), default="inprocess", show_default=True
)
@click.option("--quiet", is_flag=True, help="No progress bar and no summary.")
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
    quiet: bool,
) -> None:
    """Run SCRIPT over its input and print what its queries answer.

    Streams read what FROM says, or what --input gives them. Several inputs take turns, batch
    by batch. When input ends, event time moves to the last row, so that every row counts
    (not with --checkpoint, where more may come). Ctrl-C ends the input and prints the answers.

    \b
    Examples:
      penstock run app.sql --input clicks='in/*.parquet'
      penstock run app.sql --input clicks=a.csv --input logins=b.jsonl --output changes
      tail -f log.jsonl | penstock run app.sql --input clicks=- --output changes --format json
      penstock run app.sql --format parquet --out answers/
    """  # noqa: D301
    if runner == "spark":
        raise UnsupportedError(
            "the Spark runner is not available in this version",
            code="PS-CLI-006",
            remedy="use --runner inprocess: the same engine and answers in this process",
        )
    text = read_script(script)
    options: dict[str, Any] = {"checkpoint": checkpoint} if checkpoint else {}
    with ExitStack() as stack:
        session = stack.enter_context(penstock.connect(runner="inprocess", **options))
        app = App(session)
        # what SHOW and EXPLAIN print must not end up among JSON lines
        app.execute(text, Console(stderr=format_ != "table"))
        sources = app.inputs(inputs)
        writer = open_writer(format_, out)
        stack.callback(writer.close)
        if output == "changes":
            _write_changes(app, writer)
        ended = _feed(app, sources, batch_rows, quiet)
        if ended and not checkpoint:
            finish(session, app.streams)
        if output == "view":
            _write_views(app, writer)
        if not quiet:
            _summary(app, Console(stderr=True))


def _write_changes(app: App, writer: Writer) -> None:
    """Hand every commit's changes to the writer."""
    for query in app.queries:
        _write_waiting(query, writer)

        def commit(changes: pa.Table, name: str = query.name) -> None:
            writer.changes(name, changes, changes["_batch"][0].as_py())

        query.subscribe(commit)


def _write_waiting(query: Query, writer: Writer) -> None:
    """Changes from before anybody listened: a count of 0, history, tables."""
    changes = query.changes()
    if changes.num_rows:
        writer.changes(query.name, changes, changes["_batch"][0].as_py())


def _write_views(app: App, writer: Writer) -> None:
    for query in app.queries:
        try:
            rows = query.view()
        except UnsupportedError:  # it keeps nothing, so its changes are its answer
            _write_waiting(query, writer)
            continue
        writer.view(query.name, rows)


def _feed(app: App, sources: list[Input], batch_rows: int, quiet: bool) -> bool:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
        transient=True,
    )
    start = time.perf_counter()
    with bar, Interrupt().listening() as interrupt:
        tasks = {s.stream: bar.add_task(s.stream, total=s.total(), speed="") for s in sources}
        done = dict.fromkeys(tasks, 0)

        def pushed(stream: str, rows: int) -> None:
            done[stream] += rows
            rate = done[stream] / max(1e-9, time.perf_counter() - start)
            bar.update(tasks[stream], advance=rows, speed=f"{rate:,.0f} rows/s")

        return feed(app.session, sources, batch_rows, interrupt, pushed)


def _summary(app: App, console: Console) -> None:
    for stream, row in app.session.stats()["streams"].items():
        kept_out = row["late"] + row["quarantined"]
        note = f" ({row['late']:,} late, {row['quarantined']:,} quarantined)" if kept_out else ""
        console.print(f"{stream}: {row['received']:,} rows{note}", style="dim", highlight=False)
    for query in app.queries:
        if query.status == "failed":
            console.print(f"{query.name}: failed", style="red")
