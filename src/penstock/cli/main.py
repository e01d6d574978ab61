"""The `penstock` command: errors are shown in a panel with a remedy, never as a traceback."""

from __future__ import annotations

import os
import signal
import sys

import click
from rich.console import Console

import penstock
from penstock.cli.bench import bench
from penstock.cli.calibrate import calibrate
from penstock.cli.demo import demo
from penstock.cli.explain import explain
from penstock.cli.report import print_error
from penstock.cli.run import run
from penstock.cli.script import ScriptError
from penstock.cli.shell import sql
from penstock.cli.simulate import simulate
from penstock.errors import PenstockError

TRACE = "PENSTOCK_TRACEBACK"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(penstock.__version__, "-V", "--version", prog_name="penstock")
def cli() -> None:
    """Very many standing SQL queries, kept exactly up to date over live streams.

    A script declares streams and standing queries. At each instant of event time, every answer
    equals what the same SQL would return over the windows' contents. Penstock reports each
    change, including the deletion of a result when its window has slid past it.

    \b
    app.sql:
      CREATE STREAM clicks (usr STRING, page STRING, ts TIMESTAMP)
        TIMESTAMP BY ts DELAY 5 SECONDS;
      CREATE MATERIALIZED VIEW busy AS
        SELECT usr, count(*) AS n FROM clicks [RANGE 1 MINUTE]
        GROUP BY usr HAVING count(*) > 100;

    \b
    Then:
      penstock run app.sql --input clicks=clicks.jsonl       the view after all input
      tail -f log.jsonl | penstock run app.sql --input clicks=- --output changes
      penstock explain app.sql                               plan, update patterns, state
      penstock simulate app.sql --rate 5000                  would it keep up, how late are answers
      penstock sql                                           try statements by hand
      penstock demo                                          1,005 queries over traffic
    """  # noqa: D301


for command in (run, explain, simulate, sql, demo, bench, calibrate):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(_main(arguments))


def _main(arguments: list[str] | None) -> int:
    errors = Console(stderr=True)
    try:
        code = cli.main(args=arguments, prog_name="penstock", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (PenstockError, ScriptError, BrokenPipeError, SystemExit) as error:
        if _is_reader_gone(error):
            return _leave_quietly()
        if isinstance(error, PenstockError | ScriptError):
            print_error(errors, error)
        else:
            raise
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        print_error(errors, _internal(error))
    return 1


def _is_reader_gone(error: BaseException | None) -> bool:
    """Whether an error means that standard output is closed: its reader has stopped."""
    while error is not None and not isinstance(error, BrokenPipeError):
        error = error.__cause__ or error.__context__
    return error is not None


def _leave_quietly() -> int:
    """The exit code of a program ended by SIGPIPE; nothing is flushed into the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _internal(error: Exception) -> PenstockError:
    return PenstockError(
        f"{type(error).__name__}: {error}",
        code="PS-INTERNAL",
        remedy=f"this is a bug in Penstock; set {TRACE}=1 for a traceback, and please report it",
    )
