"""Charts of benchmarks: lines over a common axis, as plain data, as a table and as a picture.

A chart travels as JSON with the other results. Matplotlib draws it, where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from rich.table import Table

Chart = dict[str, Any]
_KEYS = {"title", "x", "y", "at", "lines", "log"}
_MANY = 30  # points of a line that need no mark


def chart(
    title: str, x: str, y: str, at: Sequence[float], lines: Mapping[str, Sequence[float]],
    log: bool = False,
) -> Chart:  # fmt: skip
    """Lines by name, each with a value for every place `at` the axis x; `log` for both axes."""
    if any(len(line) != len(at) for line in lines.values()):
        raise ValueError(f"{title}: every line needs {len(at)} values")
    rounded = {name: [round(float(value), 6) for value in line] for name, line in lines.items()}
    return {"title": title, "x": x, "y": y, "at": list(at), "lines": rounded, "log": log}


def is_chart(value: object) -> TypeGuard[Chart]:
    """Whether a result is a chart."""
    return isinstance(value, dict) and value.keys() == _KEYS


def table(value: Chart) -> Table:
    """The values of a chart, a column for each line."""
    out = Table(title=f"{value['title']}: {value['y']}", title_justify="left")
    for name in (value["x"], *value["lines"]):
        out.add_column(name, justify="right")
    for i, place in enumerate(value["at"]):
        out.add_row(f"{place:g}", *(f"{line[i]:,.4g}" for line in value["lines"].values()))
    return out


def draw(charts: list[Chart], path: Path) -> bool:
    """Draw the charts side by side; false when Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(6 * len(charts), 4), layout="constrained")
    for value, axes in zip(charts, figure.subplots(1, len(charts), squeeze=False)[0], strict=True):
        for name, line in value["lines"].items():
            marker = "o" if len(line) <= _MANY else None
            axes.plot(value["at"], line, marker=marker, markersize=3, label=name)
        axes.set(title=value["title"], xlabel=value["x"], ylabel=value["y"])
        if value["log"]:
            axes.set(xscale="log", yscale="log")
        else:
            axes.set_ylim(bottom=0)
            axes.locator_params(axis="x", integer=True)
            axes.yaxis.set_major_formatter("{x:,g}")
        if len(value["lines"]) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    return True
