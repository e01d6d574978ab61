"""`penstock bench`: the benchmarks of the source checkout, each in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

import penstock
from penstock.errors import PenstockError


def _checkout() -> Path:
    """The folder that holds benchmarks/: this checkout, or the working directory."""
    for root in (Path(penstock.__file__).resolve().parents[2], Path.cwd()):
        if (root / "benchmarks" / "run.py").is_file():
            return root
    raise PenstockError(
        "the benchmarks are not part of the installed package",
        code="PS-CLI-003",
        remedy="run this inside a source checkout",
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "every", is_flag=True, help="Run every benchmark.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines and nothing else.")
@click.option("--out", metavar="DIR", help="Also write DIR/NAME.json.")
def bench(names: tuple[str, ...], every: bool, as_json: bool, out: str | None) -> None:
    """Run benchmarks of a source checkout; without NAME, list them.

    Each prints its measurements and their ratio to a reference measured with it, on one core.

    \b
    Examples:
      penstock bench
      penstock bench join --json
    """  # noqa: D301
    command = [sys.executable, "-m", "benchmarks.run", *names]
    command += ["--all"] * every + ["--json"] * as_json
    if out:
        command += ["--out", str(Path(out).absolute())]
    raise SystemExit(subprocess.run(command, cwd=_checkout(), check=False).returncode)
