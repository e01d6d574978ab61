"""`penstock calibrate`: measures what the strategies for pairs of streams cost on this machine."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext

import click
from rich.console import Console
from rich.status import Status
from rich.table import Table

from penstock.errors import PenstockError
from penstock.indexes.pairs.calibration import calibrate as measure
from penstock.indexes.pairs.constants import Constant, Constants, constants_path
from penstock.indexes.pairs.costs import BUILD, CALL, FORMULAS


@click.command()
@click.option("--quick", is_flag=True, help="Measure fewer cases: seconds instead of a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON and nothing else.")
def calibrate(quick: bool, as_json: bool) -> None:
    """Measure how fast this machine finds pairs of rows of two streams.

    A template over two streams, of queries with constants of their own, such as

    \b
      SELECT r.id, s.id FROM r [RANGE 60], s [RANGE 60] WHERE r.k = s.k
        AND r.a BETWEEN $a AND $b AND s.c BETWEEN $c AND $d

    can find the pairs of a row in several ways. For each row, Penstock takes the one that costs
    least, by formulas with constants of the machine. This command measures the constants, fits
    them by least squares, prints them with 95 % confidence intervals, and stores them in
    ~/.local/state/penstock (or $XDG_STATE_HOME/penstock). Sessions that start later use them;
    without the file they use defaults. Answers never depend on them. EXPLAIN shows the constants,
    and the share of rows that went each way.

    \b
    Examples:
      penstock calibrate
      penstock calibrate --quick --json
    """  # noqa: D301
    with _progress(as_json) as status:
        fitted = measure(quick, lambda share: _tell(status, share))
    path = constants_path()
    try:
        fitted.write(path)
    except OSError as error:
        raise PenstockError(
            f"cannot write {path}: {error.strerror}",
            code="PS-CLI-002",
            remedy="set XDG_STATE_HOME to a folder that you may write to",
        ) from error
    if as_json:
        print(json.dumps({"path": str(path), "nanoseconds": fitted.numbers()}, ensure_ascii=False))
        return
    console = Console()
    console.print(table_of(fitted))
    console.print(f"stored in {path}; sessions that start now use it", style="dim", soft_wrap=True)


def _progress(quiet: bool) -> AbstractContextManager[Status | None]:
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    return Console(stderr=True).status("measuring")


def _tell(status: Status | None, share: float) -> None:
    if status is not None:
        status.update(f"measuring {share:.0%}")


def table_of(constants: Constants) -> Table:
    """Constants by strategy, as the paper's Table II, with the amounts that they multiply."""
    table = Table("strategy", "constant", "of", "ns", "95 % confidence", box=None, pad_edge=False)
    for formula in FORMULAS:
        amounts = {term.constant: term.text for term in formula.terms}
        amounts |= {BUILD: "|Q|·log|Q| to build", CALL: "a call"}
        name = formula.name
        for letter, found in constants.fitted[formula.name].items():
            table.add_row(name, letter, amounts[letter], f"{found.value:.3g}", _interval(found))
            name = ""
    return table


def _interval(found: Constant) -> str:
    return f"[{found.low:.3g}, {found.high:.3g}]".replace("[", r"\[")
