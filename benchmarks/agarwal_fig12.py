"""agarwal_fig12: rows of select joins routed by cost, by size (Agarwal §5.4, figures 12 to 14).

Queries and rows of S are both 100,000 to 500,000. Figure 12 has the throughput, 13 the shares of
strategies among the choices, 14 how many choices were the fastest strategy.
"""

from __future__ import annotations

from benchmarks.agarwal_routing import mixed_joins, report, route
from benchmarks.pipeline import Result

SIZES = (100_000, 200_000, 300_000, 400_000, 500_000)


def run(scale: float = 1.0) -> Result:
    sizes = [int(size * scale) for size in SIZES]
    found = [route(mixed_joins(size, size, joined=max(1_000 * scale, 1))) for size in sizes]
    return report(
        [size / 1e3 for size in sizes],
        found,
        ("figure 12", "figure 13", "figure 14"),
        "As many queries as rows in S",
        "thousands",
    )
