"""Run benchmarks: `python -m benchmarks.run NAME… [--all] [--json] [--out DIR]`.

A benchmark is a module of this folder with a docstring and `run() -> dict[str, object]`. Values
are facts (text, counts), measures (CPU and wall value, unit, target, whether met) or a `Chart`
(`benchmarks/chart.py`), which is drawn to DIR/NAME.png. Each runs in its own process with one
thread, so none warms or slows another. A name may be written with hyphens.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import chart

HERE = Path(__file__).parent
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "ARROW")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in _LIBRARIES} | {"POLARS_MAX_THREADS": "1"}


def available() -> dict[str, str]:
    """Benchmarks by name, with the first line of their docstring."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").split("\n")[0]
    return found


def run_here(name: str) -> dict[str, object]:
    """Run one benchmark in this process and say where it ran."""
    start = time.perf_counter()
    module = importlib.import_module(f"benchmarks.{name}")
    result = module.run()
    return {
        "benchmark": name,
        "result": result,
        "seconds": round(time.perf_counter() - start, 3),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }


def run_apart(name: str, quiet: bool) -> dict[str, object]:
    """Run one benchmark in its own process; what it prints is shown unless `quiet`."""
    command = [sys.executable, "-m", "benchmarks.run", "--here", name]
    environment = {**os.environ, **ONE_THREAD}
    read, write = os.pipe()
    with os.fdopen(read) as results:
        process = subprocess.Popen(
            [*command, "--results", str(write)],
            cwd=HERE.parent,
            env=environment,
            pass_fds=[write],
            stdout=subprocess.DEVNULL if quiet else None,
        )
        os.close(write)
        text = results.read()
        if process.wait() or not text:
            raise SystemExit(f"benchmark {name} failed")
    outcome: dict[str, object] = json.loads(text)
    return outcome


def show(outcome: dict[str, object]) -> None:
    """Print one outcome as a table."""
    table = Table(title=f"{outcome['benchmark']} ({outcome['seconds']} s)", title_justify="left")
    table.add_column("measure")
    for name in ("CPU", "wall", "unit", "target", "met"):
        table.add_column(name, justify="left" if name == "unit" else "right")
    result = outcome["result"]
    assert isinstance(result, dict)
    for name, value in result.items():
        if chart.is_chart(value):
            continue
        table.add_row(name, *_cells(value))
    Console().print(table)
    for value in filter(chart.is_chart, result.values()):
        Console().print(chart.table(value))


def _cells(value: object) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return (_text(value),)
    met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[value["met"]]
    cells = (value["cpu"], value["wall"], value["unit"], value["target"])
    return (*map(_text, cells), met)


def _text(value: object) -> str:
    if isinstance(value, float) and abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value or "")


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="run every benchmark")
    parser.add_argument("--json", action="store_true", help="print JSON lines, nothing else")
    parser.add_argument("--out", type=Path, help="also write DIR/NAME.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    known = available()
    names = list(known) if args.all else [name.replace("-", "_") for name in args.names]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown benchmark {unknown[0]}; there are: {', '.join(known) or 'none'}")
    if not names:
        for name, about in known.items():
            print(f"{name:24} {about}")
        return 0
    if args.here:
        with os.fdopen(args.results, "w") as results:
            json.dump(run_here(names[0]), results, default=float)
        return 0
    failed = 0
    for name in names:
        try:
            outcome = run_apart(name, quiet=args.json)
        except SystemExit as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        if args.json:
            print(json.dumps(outcome), flush=True)
        else:
            show(outcome)
        if args.out:
            write(outcome, args.out / name)
    return 1 if failed else 0


def write(outcome: dict[str, object], path: Path) -> None:
    """The outcome as JSON, and its charts as pictures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(outcome, indent=2) + "\n")
    result = outcome["result"]
    assert isinstance(result, dict)
    charts = [value for value in result.values() if chart.is_chart(value)]
    if charts and not chart.draw(charts, path.with_suffix(".png")):
        print(
            "charts are drawn when matplotlib is there: pip install 'penstock[bench]'",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
