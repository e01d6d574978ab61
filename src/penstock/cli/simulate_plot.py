"""The chart of a simulation: delays of changes and rows in queues over time."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.simulate_report import Report


def draw(report: Report, path: Path) -> bool:
    """Draw the chart; False when Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    course = report.over_time()
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    told = [point for point in course if point["changes"]]
    for name, label in (("delay_average_ms", "average"), ("delay_max_ms", "maximum")):
        above.plot([p["second"] for p in told], [p[name] for p in told], label=label)
    above.set(title=report.verdict(), ylabel="output delay, ms")
    above.set_ylim(bottom=0)
    above.legend(frameon=False)
    below.plot([p["second"] for p in course], [p["queued"] for p in course])
    below.set(xlabel="virtual time, s", ylabel="most rows that wait")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    return True
