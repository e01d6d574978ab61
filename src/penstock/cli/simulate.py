"""`penstock simulate`: whether a script would keep up, and how late its answers would be.

Three passes, each over a session of its own: a short one that compiles kernels, one at the given
pace, and one in batches as fast as they are processed, which gives the capacity.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.app import Plan, read_plan, without_source
from penstock.cli.script import located, read_script
from penstock.cli.simulate_input import read_inputs, read_pace
from penstock.cli.simulate_plot import draw
from penstock.cli.simulate_report import Report, show
from penstock.errors import PenstockError
from penstock.files.sinks import PipedConsole
from penstock.pipeline.arrivals import Arrivals, InBatches, Input, Pace
from penstock.pipeline.schedule import SCHEDULES, ScheduleName
from penstock.pipeline.simulation import Simulation
from penstock.session.pipelined import PipelinedSession, open_pipelined
from penstock.sql.statements import CreateSink, CreateStream, Select

_WIDTH = 110
_WARM_SINGLY, _WARM = 500, 10_000
"""Rows of a stream that compile kernels: at the given pace, and in batches."""


@click.command()
@click.argument("script")
@click.option(
    "--input", "inputs", multiple=True, metavar="STREAM=[FORMAT:]FILE",
    help="Rows of a stream: a .parquet, .csv or .jsonl file or glob. May be repeated. Replaces "
    "the stream's FROM, also one that only Spark can read.",
)  # fmt: skip
@click.option(
    "--rate", "rates", multiple=True, metavar="[STREAM=]ROWS",
    help="Rows per second in all, or of each stream: --rate r=1000 --rate s=50.",
)  # fmt: skip
@click.option(
    "--speed", type=float, metavar="FACTOR",
    help="Rows arrive FACTOR times as fast as their event time says. Without --rate and --speed, "
    "1: as they did.",
)  # fmt: skip
@click.option(
    "--rows", type=click.IntRange(1), metavar="N",
    help="Only the first N rows in all, by event time.",
)  # fmt: skip
@click.option(
    "--schedule", type=click.Choice(SCHEDULES), default=SCHEDULES[0], show_default=True,
    help="Which operator runs next: each in turn, or the one with the oldest input.",
)  # fmt: skip
@click.option(
    "--batch-rows", type=click.IntRange(1), default=10_000, show_default=True,
    help="The most rows that a source takes at once.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--out", metavar="DIR", help="Also write DIR/simulation.json and simulation.png.")
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
def simulate(
    script: str,
    inputs: tuple[str, ...],
    rates: tuple[str, ...],
    speed: float | None,
    rows: int | None,
    schedule: ScheduleName,
    batch_rows: int,
    as_json: bool,
    out: str | None,
    quiet: bool,
) -> None:
    """Find out whether SCRIPT would keep up, and how late its answers would be.

    Runs the plans of SCRIPT over files of rows as a pipeline: a queue between operators, which
    run one at a time on one core. Rows arrive on a virtual clock, at the rate or speed that you
    choose. The clock advances by the measured time of each operator, and jumps to the next
    arrival when there is nothing to do: an hour of sparse input takes seconds.

    Prints the delay of changes (from the moment at which event time reached a change to its
    output), the rows that wait in queues, −1 rows per +1 row, the time that each operator takes,
    and the rate that the plans can sustain. All is measured on this machine; only the arrivals
    are simulated. No sink is written.

    \b
    Examples:
      penstock simulate app.sql --rate 5000
      penstock simulate app.sql --rate clicks=1000 --rate logins=20 --schedule oldest-first
      penstock simulate app.sql --input clicks=day.parquet --speed 10 --rows 200000 --out report
    """  # noqa: D301
    plan = read_plan(read_script(script), inputs)
    given = read_inputs(plan, _declare(plan), rows)
    run = _Run(plan, read_pace(rates, speed, given), schedule, batch_rows)
    with _Bar(quiet or not Console(stderr=True).is_terminal) as bar:
        report = run.report(given, bar.task)
    if out:
        _write(report, Path(out), Console(stderr=True))
    if as_json:
        print(json.dumps(report.figures(), indent=2))
    else:
        show(report, PipedConsole(width=_width()))


@dataclass(frozen=True, slots=True)
class _Run:
    """The passes over a script."""

    plan: Plan
    pace: Pace
    schedule: ScheduleName
    batch_rows: int

    def report(
        self, given: list[Input], bar: Callable[[str, int], Callable[[int], None]]
    ) -> Report:
        """Warm up, run at the pace, and find the capacity."""
        in_batches = InBatches(self.batch_rows)
        for pace, most in ((self.pace, _WARM_SINGLY), (in_batches, _WARM)):
            some = [i.first(most) for i in given]
            self._pass(Arrivals.of(some, pace), bar, "compiling and warming up")
        session, paced = self._pass(Arrivals.of(given, self.pace), bar, "at the given pace")
        _, fast = self._pass(Arrivals.of(given, in_batches), bar, "as fast as possible")
        return Report(self.plan.script.name, self.schedule, session, paced, fast)

    def _pass(
        self, arrivals: Arrivals, bar: Callable[[str, int], Callable[[int], None]], title: str
    ) -> tuple[PipelinedSession, Simulation]:
        session = _declare(self.plan)
        simulation = session.simulate(arrivals, self.schedule, self.batch_rows)
        simulation.run(bar(title, arrivals.rows))
        return session, simulation


def _declare(plan: Plan) -> PipelinedSession:
    """A session with all that the script declares; its sources and sinks are not opened."""
    made = open_pipelined()
    for piece, statement in plan.statements:
        with located(plan.script, piece):
            match statement:
                case CreateStream():
                    made.session.sql(without_source(statement))
                case CreateSink():
                    continue
                case Select():
                    made.session.query(piece.text)
                case _:
                    made.session.sql(piece.text)
    if not made.engine.templates:
        raise PenstockError(
            f"{plan.script.name} has no standing query",
            code="PS-SIM-004",
            remedy="write a CREATE MATERIALIZED VIEW or a SELECT over a stream",
        )
    return made


class _Bar:
    """A progress bar on standard error for each pass, or nothing."""

    def __init__(self, hidden: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._bar = Progress(
            *columns, TimeElapsedColumn(), console=console, disable=hidden, transient=True
        )

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def task(self, title: str, rows: int) -> Callable[[int], None]:
        """A function that shows how many rows of a pass are taken."""
        task = self._bar.add_task(title, total=rows)
        return lambda taken: self._bar.update(task, completed=taken)


def _width() -> int | None:
    """The width of tables; where no terminal sets it, one that fits them."""
    return None if Console().is_terminal else _WIDTH


def _write(report: Report, folder: Path, errors: Console) -> None:
    """Write the figures, and the chart where matplotlib is installed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "simulation.json").write_text(json.dumps(report.figures(), indent=2) + "\n")
        drawn = draw(report, folder / "simulation.png")
    except OSError as error:
        raise PenstockError(
            f"cannot write into {folder}: {error.strerror}",
            code="PS-CLI-002",
            remedy="choose another --out",
        ) from error
    if not drawn:
        errors.print("the chart is drawn when matplotlib is there: pip install matplotlib")
